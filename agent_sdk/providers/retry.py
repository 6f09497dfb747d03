"""Whether and when a failed request is made again. The one place that decides.

Retries wait a random part of a growing time, so that many clients of a server
that comes back do not all come at once. What the server asked for is never
undercut; where it asks for more than anyone would sit through, the failure is
shown at once.
"""

from collections.abc import Callable

from msgspec import Struct

from agent_sdk.core.errors import ProviderError


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often and how long.

    Attributes:
        max_attempts: Requests in all, the first among them.
        base: Seconds that the first wait is at most; doubled each time.
        cap: Most seconds of a wait of our own.
        max_server_delay: Most seconds that a server may make us wait.
        max_empty: How many times an empty answer is asked for again.
    """

    max_attempts: int = 5
    base: float = 0.5
    cap: float = 8.0
    max_server_delay: float = 600.0
    max_empty: int = 1


class RetryPlan(Struct, frozen=True):
    """Wait ``delay`` seconds, then make attempt number ``attempt``."""

    attempt: int
    delay: float


class Retries:
    """Counts the attempts of one request."""

    def __init__(self, *, policy: RetryPolicy, random: Callable[[], float]) -> None:
        """Start at the first attempt.

        Args:
            policy: How often and how long.
            random: Returns a number from 0 up to but not including 1.
        """
        self._policy = policy
        self._random = random
        self._attempt = 1
        self._empty = 0

    def after(self, error: ProviderError) -> RetryPlan | ProviderError:
        """Take the failure of the current attempt, before which nothing was shown.

        Returns:
            When to try again, or the error to end with.
        """
        policy = self._policy
        if not error.retryable:
            return error
        if error.kind == "empty":
            self._empty += 1
            if self._empty > policy.max_empty:
                return error
        asked = error.retry_after
        if asked is not None and asked > policy.max_server_delay:
            return _too_long(error, asked, policy.max_server_delay)
        if self._attempt >= policy.max_attempts:
            return error
        ours = min(policy.cap, policy.base * 2 ** (self._attempt - 1)) * self._random()
        self._attempt += 1
        return RetryPlan(self._attempt, ours + (asked or 0.0))


def _too_long(error: ProviderError, asked: float, limit: float) -> ProviderError:
    return ProviderError(
        f"{error.message} The server asks to wait {asked:.0f} seconds,"
        f" more than the {limit:.0f} that ZPI waits.",
        kind=error.kind,
        hint="Try again later, or use another model.",
        status=error.status,
        retryable=False,
        retry_after=asked,
        request_id=error.request_id,
    )
