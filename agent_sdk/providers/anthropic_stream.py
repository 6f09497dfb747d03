"""Decodes the stream of an Anthropic Messages answer.

Blocks come one after the other: each is started, gets deltas and is stopped
before the next begins. A stream that does otherwise is broken, since text
might belong anywhere. Only ``message_stop`` ends an answer.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import ProviderError
from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    ModelRequest,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamStart,
    TextDelta,
    ThinkingDelta,
)
from agent_sdk.providers.convert import (
    clean_text,
    fresh_id,
    parse_arguments,
    protocol_error,
    stream_error,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    Json,
    RedactedThinkingBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)

T = TypeVar("T")


class _Text(Struct, tag_field="type", tag="text_delta", gc=False):
    text: str


class _Thinking(Struct, tag_field="type", tag="thinking_delta", gc=False):
    thinking: str


class _Input(Struct, tag_field="type", tag="input_json_delta", gc=False):
    partial_json: str


class _Signature(Struct, tag_field="type", tag="signature_delta", gc=False):
    signature: str


_Delta = _Text | _Thinking | _Input | _Signature


class _DeltaEvent(Struct, gc=False):
    index: int
    delta: _Delta


class _LooseDelta(Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""


class _LooseDeltaEvent(Struct, gc=False):
    index: int
    delta: _LooseDelta


class _Tokens(Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(Struct):
    id: str | None = None
    model: str | None = None
    usage: _Tokens | None = None


class _Start(Struct):
    message: _Message


class _Content(Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class _BlockStartEvent(Struct):
    index: int
    content_block: _Content


class _BlockStopEvent(Struct, gc=False):
    index: int


class _Details(Struct, gc=False):
    explanation: str | None = None


class _End(Struct):
    stop_reason: str | None = None
    stop_details: _Details | None = None


class _MessageDelta(Struct):
    delta: _End
    usage: _Tokens | None = None


class _Reason(Struct, gc=False):
    type: str | None = None
    message: str | None = None


class _ErrorEvent(Struct):
    error: _Reason | str
    request_id: str | None = None


class _Named(Struct, gc=False):
    type: str = ""


_DELTA = msgspec.json.Decoder(_DeltaEvent)
_NAMED = msgspec.json.Decoder(_Named)

_KINDS: dict[str, BlockKind] = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "redacted_thinking",
    "tool_use": "tool_use",
}

_STOPS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "pause_turn": "end_turn",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
    "sensitive": "refusal",
}


class _Broken(Exception):
    """The server broke the format; the text says how. Never leaves this module."""


class _Open(Struct):
    """The block that is being received.

    Attributes:
        kind: Its kind; None for one that this version does not know.
        index: Its index among the blocks that are passed on.
        parts: The deltas so far.
        content: How it began.
        tool_id: The id by which a call is known.
        signature: The deltas of the signature, joined.
    """

    kind: BlockKind | None
    index: int
    parts: list[str]
    content: _Content
    tool_id: str = ""
    signature: str = ""


class AnthropicDecoder:
    """Decodes one answer; see ``providers.base.Decoder``."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._begun = False  # message_start has come
        self._started = False  # StreamStart has been returned: with the first block
        self._message = _Message()
        self._open: _Open | None = None
        self._seen = 0  # blocks that the server has started
        self._blocks: list[Block] = []
        self._ids: set[str] = set()
        self._held: ToolUseBlock | None = None
        self._usage = Usage()
        self._stop: str | None = None
        self._why = ""

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamEvent]:
        """Take one event."""
        if event == b"content_block_delta":
            # Nearly all events are these, and one of the three usual ones.
            try:
                more = _DELTA.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return self._guarded(event, data)
            block = self._open
            if block is not None and block.parts and more.index == self._seen - 1:
                usual = _usual(block, more.delta)
                if usual is not None:
                    return usual
        return self._guarded(event, data)

    def finish(self) -> StreamEvent:
        """Say what the end of the stream means: without ``message_stop``, a failure."""
        provider = self._request.model.provider
        if not self._begun:
            return self._failed(
                ProviderError(
                    f"{provider!r} answered with nothing at all.", kind="empty", retryable=True
                )
            )
        return self._failed(
            ProviderError(
                f"The answer of {provider!r} ended before it was complete.",
                kind="incomplete",
                retryable=True,
            )
        )

    # --------------------------------------------------------------- events

    def _guarded(self, event: bytes, data: bytes) -> Sequence[StreamEvent]:
        try:
            return self._on(event or _name(data), data)
        except _Broken as broken:
            return (self._failed(protocol_error(str(broken), data)),)

    def _on(self, event: bytes, data: bytes) -> Sequence[StreamEvent]:
        match event:
            case b"content_block_delta":
                return self._on_delta(_read(data, _LooseDeltaEvent))
            case b"content_block_start":
                return self._on_block_start(_read(data, _BlockStartEvent))
            case b"content_block_stop":
                return self._on_block_stop(_read(data, _BlockStopEvent).index)
            case b"message_start":
                return self._on_start(_read(data, _Start).message)
            case b"message_delta":
                return self._on_message_delta(_read(data, _MessageDelta))
            case b"message_stop":
                return self._on_stop()
            case b"error":
                return (self._failed(_error_of(_read(data, _ErrorEvent))),)
            case _:
                return ()  # ping, and what later versions of the API may add

    def _on_start(self, message: _Message) -> Sequence[StreamEvent]:
        if self._begun:
            raise _Broken("a second message_start")
        self._begun = True
        self._message = message
        self._count(message.usage)
        return ()

    def _on_block_start(self, started: _BlockStartEvent) -> Sequence[StreamEvent]:
        if not self._begun:
            raise _Broken("a block before message_start")
        if self._open is not None or started.index != self._seen or self._stop:
            raise _Broken(f"block {started.index} begins out of order")
        content = started.content_block
        kind = _KINDS.get(content.type)
        events = self._release()
        block = _Open(kind, len(self._blocks), [], content)
        self._seen += 1
        self._open = block
        if kind == "text":  # said to have begun when it says something
            return [*events, *self._more_text(block, content.text or "")]
        if kind is None:
            return events
        if kind == "tool_use":
            if not content.name:
                raise _Broken("a tool call without a name")
            block.tool_id = self._new_id(content.id or "")
        events += self._begin(BlockStart(block.index, kind, block.tool_id, content.name or ""))
        if kind == "thinking":
            block.signature = content.signature or ""
            events += self._more_thinking(block, content.thinking or "")
        return events

    def _on_delta(self, event: _LooseDeltaEvent) -> Sequence[StreamEvent]:
        block, delta = self._open, event.delta
        if block is None or event.index != self._seen - 1:
            raise _Broken(f"a delta for block {event.index}, which is not open")
        match delta.type, block.kind:
            case "text_delta", "text":
                return self._more_text(block, delta.text)
            case "thinking_delta", "thinking":
                return self._more_thinking(block, delta.thinking)
            case "signature_delta", "thinking":
                block.signature += delta.signature
                return ()
            case "input_json_delta", "tool_use":
                if not delta.partial_json:
                    return ()
                block.parts.append(clean_text(delta.partial_json))
                return (ArgsDelta(block.index, block.parts[-1]),)
            case (("text_delta" | "thinking_delta" | "input_json_delta"), str()):
                raise _Broken(f"a {delta.type} in a block of kind {block.kind}")
            case _:
                return ()  # citations and the like, and blocks that are not known

    def _on_block_stop(self, index: int) -> Sequence[StreamEvent]:
        block = self._open
        if block is None or index != self._seen - 1:
            raise _Broken(f"the end of block {index}, which is not open")
        self._open = None
        text = "".join(block.parts)
        match block.kind:
            case "text":
                return self._end(TextBlock(text)) if text else ()
            case "thinking":
                return self._end(ThinkingBlock(text, block.signature))
            case "redacted_thinking":
                return self._end(RedactedThinkingBlock(block.content.data or ""))
            case "tool_use":
                return self._end_call(block, text)
            case None:
                return ()

    def _end_call(self, block: _Open, text: str) -> Sequence[StreamEvent]:
        whole = block.content.input
        if not text and isinstance(whole, dict) and whole:  # some servers send it at once
            value: Json = whole
            wrong = ""
        else:
            value, wrong = parse_arguments(text)
        call = ToolUseBlock(block.tool_id, block.content.name or "", value, wrong)
        if not text and not value:
            # A call without arguments, or one that was cut before they began:
            # the next event tells.
            self._held = call
            return ()
        return self._end(call)

    def _on_message_delta(self, event: _MessageDelta) -> Sequence[StreamEvent]:
        if not self._begun or self._open is not None:
            raise _Broken("message_delta out of order")
        self._count(event.usage)
        if event.delta.stop_details is not None:
            self._why = event.delta.stop_details.explanation or ""
        if event.delta.stop_reason:
            self._stop = event.delta.stop_reason
            cut = _STOPS.get(self._stop) in {"max_tokens", "refusal"}
            return self._release(cut=cut)
        return ()

    def _on_stop(self) -> Sequence[StreamEvent]:
        if not self._begun or self._open is not None or self._stop is None:
            raise _Broken("message_stop out of order")
        stop = _STOPS.get(self._stop)
        if stop is None:
            return (
                self._failed(
                    ProviderError(
                        f"The answer ended for a reason that is not known: {self._stop[:200]!r}.",
                        kind="protocol",
                    )
                ),
            )
        calls = any(isinstance(b, ToolUseBlock) for b in self._blocks)
        if stop == "refusal" and not self._blocks:
            return (self._failed(_refusal(self._why)),)
        if calls and stop in {"end_turn", "stop_sequence"}:
            stop = "tool_use"
        elif stop == "tool_use" and not calls:
            stop = "end_turn"
        return self._begin(StreamDone(self._answer(tuple(self._blocks), stop)))

    # --------------------------------------------------------------- pieces

    def _begin(self, event: StreamEvent) -> list[StreamEvent]:
        """Return the event, after ``StreamStart`` if it is the first."""
        if self._started:
            return [event]
        self._started = True
        return [StreamStart(self._message.id or "", self._message.model or ""), event]

    def _more_text(self, block: _Open, text: str) -> list[StreamEvent]:
        if not text:
            return []
        first = not block.parts
        block.parts.append(clean_text(text))
        events = self._begin(BlockStart(block.index, "text")) if first else []
        events.append(TextDelta(block.index, block.parts[-1]))
        return events

    def _more_thinking(self, block: _Open, text: str) -> list[StreamEvent]:
        if not text:
            return []
        block.parts.append(clean_text(text))
        return [ThinkingDelta(block.index, block.parts[-1])]

    def _end(self, block: Block) -> list[StreamEvent]:
        self._blocks.append(block)
        return [BlockEnd(len(self._blocks) - 1, block)]

    def _release(self, *, cut: bool = False) -> list[StreamEvent]:
        """End the call that was held back."""
        call, self._held = self._held, None
        if call is None:
            return []
        if cut:
            call = ToolUseBlock(call.id, call.name, {}, parse_arguments("", cut=True)[1])
        return self._end(call)

    def _new_id(self, raw: str) -> str:
        place = f"{self._message.id}/{self._seen}"
        tool_id = fresh_id(raw, self._request, place)
        if tool_id in self._ids:
            tool_id = fresh_id("", self._request, place)
        self._ids.add(tool_id)
        return tool_id

    def _count(self, tokens: _Tokens | None) -> None:
        """Take counts; they are totals, and servers leave out or zero what they told before."""
        if tokens is None:
            return
        old = self._usage
        self._usage = Usage(
            input_tokens=tokens.input_tokens or old.input_tokens,
            output_tokens=tokens.output_tokens or old.output_tokens,
            cache_read_input_tokens=tokens.cache_read_input_tokens or old.cache_read_input_tokens,
            cache_creation_input_tokens=tokens.cache_creation_input_tokens
            or old.cache_creation_input_tokens,
        )

    def _failed(self, error: ProviderError) -> StreamFailed:
        content = [b for b in self._blocks if not isinstance(b, ToolUseBlock)]
        block = self._open
        if block is not None and block.parts:
            text = "".join(block.parts)
            if block.kind == "text":
                content.append(TextBlock(text))
            elif block.kind == "thinking":
                content.append(ThinkingBlock(text))
        if not content:
            return StreamFailed(error)
        return StreamFailed(error, self._answer(tuple(content), "error", error=error.message))

    def _answer(
        self, content: tuple[Block, ...], stop: StopReason, *, error: str = ""
    ) -> AssistantMessage:
        request = self._request
        return AssistantMessage(
            content=content,
            api=request.model.api,
            provider=request.model.provider,
            model=request.model.id,
            stop_reason=stop,
            usage=self._usage,
            thinking_level=request.thinking_level,
            response_id=self._message.id or "",
            error=error,
        )


def _usual(block: _Open, delta: _Delta) -> Sequence[StreamEvent] | None:
    """Take a delta of the kind that the block has, the shortest way; None if it is another."""
    if type(delta) is _Text:
        text = delta.text
        if block.kind == "text" and text:
            block.parts.append(text)
            return (TextDelta(block.index, text),)
    elif type(delta) is _Input:
        text = delta.partial_json
        if block.kind == "tool_use" and text:
            block.parts.append(text)
            return (ArgsDelta(block.index, text),)
    elif type(delta) is _Thinking:
        text = delta.thinking
        if block.kind == "thinking" and text:
            block.parts.append(text)
            return (ThinkingDelta(block.index, text),)
    return None


def _name(data: bytes) -> bytes:
    """Return the type that an event names inside: some servers leave out its line."""
    try:
        return _NAMED.decode(data).type.encode()
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _Broken(str(error)) from None


def _read(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise _Broken(str(error)) from None
    except RecursionError:
        raise _Broken("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The fast reader refuses lone surrogates, which some servers send
        # between two deltas; the slow one is loaded only for them.
        import json  # noqa: PLC0415 - start-up cost

        try:
            return msgspec.convert(json.loads(data), type=kind)
        except (ValueError, RecursionError) as error:
            raise _Broken(str(error)) from None


def _error_of(event: _ErrorEvent) -> ProviderError:
    reason = event.error
    if isinstance(reason, str):
        return stream_error("", reason, request_id=event.request_id)
    return stream_error(reason.type or "", reason.message or "", request_id=event.request_id)


def _refusal(why: str) -> ProviderError:
    said = f": {why[:1000]}" if why else "."
    return ProviderError(f"The model declined to answer{said}", kind="refused")
