"""One attempt at a request: bytes out, events in, and what cut it short."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.errors import ProviderError
from agent_sdk.core.ids import Clock
from agent_sdk.providers import failures
from agent_sdk.providers.base import (
    Decoder,
    ModelRequest,
    StreamDone,
    StreamEvent,
    StreamFailed,
)
from agent_sdk.providers.messages import AssistantMessage
from agent_sdk.providers.sse import SseParser
from agent_sdk.providers.transport import (
    MAX_ERROR_BODY_BYTES,
    MAX_STREAM_BYTES,
    Reply,
    Transport,
)

_REST_SECONDS = 0.1
_LAST = frozenset({StreamDone, StreamFailed})


class Call(Struct, frozen=True):
    """What is sent in one attempt. Holds the key: never shown, never logged."""

    request: ModelRequest
    url: str
    headers: Mapping[str, str]
    body: bytes
    key: str

    @override
    def __repr__(self) -> str:
        return f"Call(url={self.url!r})"


class Exchange:
    """One attempt: a request, and its answer turned into events.

    Attributes:
        ended: Whether the last event has been returned.
    """

    def __init__(
        self, *, call: Call, decoder: Decoder, transport: Transport, clock: Clock, idle: float
    ) -> None:
        self.ended = False
        self._whole = False
        self._call = call
        self._decoder = decoder
        self._transport = transport
        self._clock = clock
        self._idle = idle
        self._parser = SseParser()
        self._reply: Reply | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._received = 0
        self._waiting_since: float | None = None
        self._idled = False

    async def begin(self) -> Sequence[StreamEvent]:
        """Send the request; return the first events of the answer, or its failure."""
        call = self._call
        try:
            reply = await self._transport.open(call.url, call.headers, call.body)
            self._reply = reply
            self._chunks = chunks = reply.chunks()
            if reply.status != 200 or _compressed(reply.headers):
                return self._refused(reply, await _beginning(chunks))
            first = b""
            while not first.strip():
                piece = await anext(chunks, None)
                if piece is None:
                    return self._end()
                first += piece
                if len(first) > MAX_ERROR_BODY_BYTES:
                    break
            if first.lstrip()[:1] in (b"{", b"<", b"["):  # never the beginning of an event
                return self._refused(reply, first + await _beginning(chunks))
        except ProviderError as error:
            return self._fail(error)
        return self._take(first) or await self.next()

    async def next(self) -> Sequence[StreamEvent]:
        """Return the next events: never none, and the last ones end with the last event."""
        chunks = self._chunks
        if chunks is None:
            return self._end()
        self._waiting_since = self._clock.monotonic()
        try:
            async for chunk in chunks:
                events = self._take(chunk)
                if events:
                    return events
        except ProviderError as error:
            return self._cut(
                failures.timed_out(self._call.url, "nothing new", self._idle)
                if self._idled
                else error
            )
        finally:
            self._waiting_since = None
        return self._end()

    def _take(self, chunk: bytes) -> Sequence[StreamEvent]:
        """Turn bytes into events."""
        self._received += len(chunk)
        events: list[StreamEvent] = []
        feed = self._decoder.feed
        for name, data in self._parser.feed(chunk):
            events += feed(name, data)
            if events and type(events[-1]) in _LAST:
                return self._finish(events)
        if self._parser.overflow:
            return [
                *events,
                *self._cut(failures.malformed(self._call.url, "an event of over 8 MiB")),
            ]
        if self._received > MAX_STREAM_BYTES:
            return [*events, *self._cut(failures.malformed(self._call.url, "an endless answer"))]
        return events

    def _finish(self, events: list[StreamEvent]) -> Sequence[StreamEvent]:
        """Take the last event; an answer that says nothing is no answer."""
        self.ended = True
        last = events[-1]
        self._whole = isinstance(last, StreamDone)
        if isinstance(last, StreamDone) and _says_nothing(last.message):
            return (StreamFailed(failures.empty(self._call.url)),)
        if isinstance(last, StreamFailed):
            error = failures.without_key(last.error, self._call.key)
            if error is not last.error:
                events[-1] = StreamFailed(error, _with_error(last.partial, error))
        return events

    def _end(self) -> Sequence[StreamEvent]:
        """The stream is over, and its last event did not come."""
        return self._finish([self._decoder.finish()])

    def _cut(self, error: ProviderError) -> Sequence[StreamEvent]:
        """The stream broke: what had arrived is kept, if it is not whole even so."""
        last = self._decoder.finish()
        if isinstance(last, StreamFailed):
            last = StreamFailed(error, _with_error(last.partial, error))
        return self._finish([last])

    def _refused(self, reply: Reply, body: bytes) -> Sequence[StreamEvent]:
        return self._fail(
            failures.response_failure(
                status=reply.status,
                headers=reply.headers,
                body=body,
                model=self._call.request.model,
                url=self._call.url,
                key=self._call.key,
                now=datetime.fromisoformat(self._clock.iso()),
            )
        )

    def _fail(self, error: ProviderError) -> Sequence[StreamEvent]:
        self.ended = True
        return (StreamFailed(error),)

    async def watch(self) -> None:
        """Cut the connection when no event has come for too long while one is awaited."""
        while True:
            since = self._waiting_since
            now = self._clock.monotonic()
            left = self._idle if since is None else since + self._idle - now
            if left <= 0:
                self._idled = True
                if self._reply is not None:
                    self._reply.abort()
                return
            await self._clock.sleep(left)

    async def aclose(self) -> None:
        """End the exchange; the connection of a whole answer can be used again."""
        if self._reply is None:
            return
        if self._whole and self._chunks is not None:
            await _read_rest(self._chunks)
        await self._reply.aclose()


def _says_nothing(message: AssistantMessage) -> bool:
    return not message.content and message.stop_reason in {"end_turn", "stop_sequence", "tool_use"}


async def _read_rest(chunks: AsyncIterator[bytes]) -> None:
    """Read what follows the last event: mostly just the end of the body.

    It has come already or comes at once; waiting longer would cost more than
    the new connection that the next request needs otherwise.
    """
    left = MAX_ERROR_BODY_BYTES
    try:
        async with asyncio.timeout(_REST_SECONDS):
            async for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    return
    except (ProviderError, TimeoutError):
        return


async def _beginning(chunks: AsyncIterator[bytes]) -> bytes:
    """Return the beginning of an error's body; one that breaks off is good enough."""
    body = b""
    try:
        async for chunk in chunks:
            body += chunk
            if len(body) >= MAX_ERROR_BODY_BYTES:
                break
    except ProviderError:
        return body
    return body[:MAX_ERROR_BODY_BYTES]


def _compressed(headers: Mapping[str, str]) -> bool:
    return headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}


def _with_error(partial: AssistantMessage | None, error: ProviderError) -> AssistantMessage | None:
    if partial is None:
        return None
    return msgspec.structs.replace(partial, stop_reason="error", error=error.message)
