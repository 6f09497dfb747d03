"""One thing at a time: a session either runs, or is compacted, or is idle."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import InvalidInput


class Busy:
    """Knows whether the session is at work, and stops what it does."""

    def __init__(self) -> None:
        self._signal: AbortSignal | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is going on."""
        return self._signal is None

    def check(self, hint: str = "Queue the prompt, or steer it into the run.") -> None:
        """Refuse if something is going on.

        Raises:
            InvalidInput: If it is; with the hint.
        """
        if self._signal is not None:
            raise InvalidInput("The session is busy with a run.", hint=hint)

    @contextmanager
    def hold(self, ended: Callable[[], None] | None = None) -> Iterator[AbortSignal]:
        """Begin something; it ends with the block.

        Args:
            ended: Called at its end.

        Yields:
            What stops it.

        Raises:
            InvalidInput: If something is going on already.
        """
        self.check()
        self._signal = AbortSignal()
        try:
            yield self._signal
        finally:
            self._signal = None
            if ended is not None:
                ended()

    def abort(self, reason: str) -> bool:
        """Stop what is going on; return whether there was something."""
        if self._signal is None:
            return False
        self._signal.abort(reason)
        return True
