"""A provider over HTTP: adapter, transport and retry put together.

The adapter knows the wire API, the transport the network, ``retry`` when to
try again; here is the course of a request, its time limits and the promises
of ``providers.base.Provider``.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from msgspec import Struct

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import ProviderError, ZpiError
from agent_sdk.core.ids import Clock, SystemClock
from agent_sdk.providers import failures
from agent_sdk.providers.base import (
    Adapter,
    ModelRequest,
    StreamEvent,
    StreamFailed,
    StreamRetry,
    StreamWaiting,
)
from agent_sdk.providers.exchange import Call, Exchange
from agent_sdk.providers.retry import Retries, RetryPolicy
from agent_sdk.providers.transport import (
    HttpTransport,
    Limits,
    Transport,
    is_local,
)

_NO_THINKING = frozenset({"", "off", "minimal"})


class HttpProvider:
    """The ``Provider`` for every wire API that is spoken over HTTP."""

    def __init__(
        self,
        *,
        adapter: Adapter,
        credential: Callable[[], str],
        headers: Mapping[str, str] | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        random: Callable[[], float] | None = None,
        policy: RetryPolicy | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Create a provider; nothing is loaded or opened yet.

        Args:
            adapter: The wire API; used by this provider alone.
            credential: Returns the key, or '' for none; asked for each attempt.
                A ``ZpiError`` that it raises ends the request.
            headers: Added to the adapter's; must hold no secret.
            transport: The network; closed with the provider.
            clock: Where waits and their lengths come from.
            random: Returns a number from 0 up to but not including 1; the
                system's randomness if None.
            policy: How often a request is tried again.
            limits: How long to wait for what.
        """
        self._adapter = adapter
        self._credential = credential
        self._headers = dict(headers or {})
        self._limits = limits or Limits()
        self._transport = transport or HttpTransport(environ=os.environ, limits=self._limits)
        self._clock = clock or SystemClock()
        self._random = random or _random
        self._policy = policy or RetryPolicy()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send the request and yield what comes back; see ``Provider``."""
        async with aclosing(self.batches(request)) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def batches(self, request: ModelRequest) -> AsyncGenerator[Sequence[StreamEvent], None]:
        """Do the same, but yield together what arrived together.

        No batch is empty. A front end that draws once for each batch, not once
        for each event, keeps up with any server.
        """
        try:
            url = self._adapter.url(request.model)
            body = self._adapter.encode(request)
        except ZpiError as error:
            yield (StreamFailed(_as_provider_error(error)),)
            return
        retries = Retries(policy=self._policy, random=self._random)
        while True:
            answered = False
            failed: StreamFailed | None = None
            async with aclosing(self._attempt(request, url, body)) as attempt:
                async for batch in attempt:
                    if isinstance(batch[-1], StreamFailed):
                        failed = batch[-1]
                        batch = batch[:-1]
                    if batch:
                        answered = answered or not isinstance(batch[0], StreamWaiting)
                        yield batch
            if failed is None:
                return
            plan = failed.error if answered else retries.after(failed.error)
            if isinstance(plan, ProviderError):
                yield (StreamFailed(plan, failed.partial),)
                return
            yield (StreamRetry(plan.attempt, self._policy.max_attempts, plan.delay, failed.error),)
            await self._clock.sleep(plan.delay)

    async def _attempt(
        self, request: ModelRequest, url: str, body: bytes
    ) -> AsyncGenerator[Sequence[StreamEvent], None]:
        """Make one attempt; the last batch ends with the attempt's last event."""
        try:
            key = self._credential()
        except ZpiError as error:
            yield (StreamFailed(_as_provider_error(error)),)
            return
        headers = {**self._adapter.headers(request.model, key), **self._headers}
        patience = _patience(self._limits, request, local=is_local(url))
        exchange = Exchange(
            call=Call(request=request, url=url, headers=headers, body=body, key=key),
            decoder=self._adapter.decoder(request),
            transport=self._transport,
            clock=self._clock,
            idle=patience.idle,
        )
        try:
            async with TaskOwner(name="request") as owner:
                begin = owner.start(exchange.begin(), name="begin")
                async with aclosing(self._wait(begin, patience, owner)) as waiting:
                    async for event in waiting:
                        yield (event,)
                if not begin.done():
                    begin.cancel()
                    await asyncio.wait([begin])
                    yield (StreamFailed(failures.timed_out(url, "no event", patience.first)),)
                    return
                yield begin.result()
                owner.start(exchange.watch(), name="idle")
                while not exchange.ended:
                    yield await exchange.next()
        finally:
            await exchange.aclose()

    async def _wait(
        self, work: asyncio.Task[Sequence[StreamEvent]], patience: "_Patience", owner: TaskOwner
    ) -> AsyncGenerator[StreamWaiting, None]:
        """Wait for the task, at most as long as patience lasts, saying so if that is long."""
        start = self._clock.monotonic()
        waited = 0.0
        while waited < patience.first:
            step = patience.first - waited
            if patience.tell:
                step = min(step, patience.tell)
            sleeper = owner.start(self._clock.sleep(step), name="first event")
            await asyncio.wait((work, sleeper), return_when=asyncio.FIRST_COMPLETED)
            sleeper.cancel()
            if work.done():
                return
            waited = self._clock.monotonic() - start
            if patience.tell:
                yield StreamWaiting(waited, patience.first)

    async def aclose(self) -> None:
        """Close connections; may be called twice."""
        await self._transport.aclose()


def _random() -> float:
    # The module of that name is slow to import.
    return int.from_bytes(os.urandom(4)) / 2**32


class _Patience(Struct, frozen=True):
    """Seconds to wait for the first event and between events, and how often to say so."""

    first: float
    idle: float
    tell: float


def _patience(limits: Limits, request: ModelRequest, *, local: bool) -> _Patience:
    first = limits.first_event_local if local else limits.first_event
    idle = limits.idle
    if request.thinking_level not in _NO_THINKING:
        first, idle = max(first, limits.thinking), max(idle, limits.thinking)
    return _Patience(first, idle, limits.waiting if local else 0.0)


def _as_provider_error(error: ZpiError) -> ProviderError:
    """Return the error of a credential or a request that could not be made."""
    if isinstance(error, ProviderError):
        return error
    kind = "authentication" if error.code == "credential_missing" else "invalid_request"
    return ProviderError(error.message, kind=kind, hint=error.hint)
