"""Decodes the stream of a Chat Completions answer.

The wire format has many dialects: reasoning under three names, calls with or
without index and id, whole calls in one chunk, usage in a chunk of its own or
in a choice. All of them become the same events. What ends an answer is its
``finish_reason``; the ``[DONE]`` marker alone does not.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import ProviderError
from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import ModelRequest, StreamEvent
from agent_sdk.providers.convert import (
    encode_json,
    fresh_id,
    parse_arguments,
    protocol_error,
    stream_error,
)
from agent_sdk.providers.messages import Json, StopReason, TextBlock, ThinkingBlock, ToolUseBlock
from agent_sdk.providers.openai_common import Blocks, cut_short, read_event, whole_pairs


class _Function(Struct, gc=False):
    name: str | None = None
    arguments: Any = None


class _Call(Struct):
    index: int | None = None
    id: str | int | None = None
    function: _Function | None = None


class _Delta(Struct):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Details(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None


class _Chunk(Struct):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    # Some servers put the error at the top: {"object": "error", "message": …}.
    object: str | None = None
    message: Any = None
    code: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)

_STOPS: dict[str, StopReason] = {
    "stop": "end_turn",
    "end_turn": "end_turn",
    "eos": "end_turn",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "tool_use": "tool_use",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
    "refusal": "refusal",
    "sensitive": "refusal",
}


class _Receiving(Struct):
    """A tool call that is being received.

    Attributes:
        key: The index that the server gave it, if any.
        raw_id: The id that the server gave it.
        block: Index of its block; None until its name is known.
        held: Arguments that came before the name.
        tool_id: The id by which we know it.
        carry: Half of a surrogate pair that was torn between deltas.
    """

    key: int | None
    raw_id: str
    name: str = ""
    block: int | None = None
    held: str = ""
    tool_id: str = ""
    carry: str = ""


class ChatDecoder:
    """Decodes one answer; see ``providers.base.Decoder``."""

    def __init__(self, request: ModelRequest, *, needs_finish: bool = True) -> None:
        self._request = request
        self._needs_finish = needs_finish
        self._blocks = Blocks(request)
        self._calls: list[_Receiving] = []
        self._speech: int | None = None  # index of the text or reasoning block being received
        self._speech_field = ""
        self._carry = ""
        self._finish = ""
        self._refused = False
        self._usage = Usage()
        self._arrived = False

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamEvent]:
        """Take one event: a chunk as JSON, or ``[DONE]``."""
        del event  # this API does not name its events
        if data.startswith(b"[DONE]"):
            return self._on_end_marker()
        chunk = read_event(_CHUNK, data, _Chunk)
        if isinstance(chunk, ProviderError):
            return self._fail(chunk)
        quick = self._quick(chunk)
        if quick is not None:
            return quick
        self._arrived = True
        if chunk.error or chunk.object == "error":
            return self._fail(_error_of(chunk))
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        try:
            self._take(chunk)
        except _Broken as broken:
            return self._fail(protocol_error(str(broken), data))
        if self._finish and self._finish not in _STOPS:
            return self._fail(stream_error(self._finish, "The answer was broken off."))
        return self._blocks.take()

    def _quick(self, chunk: _Chunk) -> Sequence[StreamEvent] | None:
        """Take the most frequent chunk, more of the text, by the shortest way."""
        choices = chunk.choices
        if not choices or self._speech is None or self._speech_field or self._carry:
            return None
        delta = choices[0].delta
        if delta is None or delta.tool_calls or delta.reasoning or delta.reasoning_content:
            return None
        text = delta.content
        if not isinstance(text, str) or not text or not text.isascii():
            return None
        if delta.reasoning_text or delta.refusal or choices[0].finish_reason or len(choices) > 1:
            return None
        if chunk.usage or choices[0].usage or chunk.error or chunk.object == "error":
            return None
        return (self._blocks.more_text(self._speech, text),)

    def finish(self) -> StreamEvent:
        """Say what the end of the stream means; ``[DONE]`` may be missing."""
        if self._finish:
            return self._last()
        return self._blocks.failed(
            cut_short(self._arrived, self._request.model.provider), self._usage
        )

    def _on_end_marker(self) -> Sequence[StreamEvent]:
        if not self._finish and not self._needs_finish and len(self._blocks):
            self._finish = "stop"
            self._close_all()
        events = self._blocks.take()
        return [*events, self.finish()]

    def _fail(self, error: ProviderError) -> Sequence[StreamEvent]:
        return [*self._blocks.take(), self._blocks.failed(error, self._usage)]

    def _last(self) -> StreamEvent:
        calls = any(c.block is not None for c in self._calls)
        stop = _STOPS[self._finish]
        if self._refused and stop == "end_turn":
            stop = "refusal"
        elif calls and stop in {"end_turn", "stop_sequence"}:
            stop = "tool_use"
        elif stop == "tool_use" and not calls:
            stop = "end_turn"
        if stop == "end_turn" and not len(self._blocks):
            return self._blocks.failed(cut_short(False, self._request.model.provider))
        return self._blocks.done(stop, self._usage)

    def _take(self, chunk: _Chunk) -> None:
        blocks = self._blocks
        if not blocks.response_id:
            blocks.response_id = chunk.id or ""
            blocks.model = chunk.model or ""
        for choice in chunk.choices or ():
            if choice.usage is not None:
                self._usage = _usage(choice.usage)
            delta = choice.delta
            if delta is not None:
                self._on_delta(delta)
            if choice.finish_reason:
                self._finish = choice.finish_reason
                self._close_all()

    def _on_delta(self, delta: _Delta) -> None:
        for field in ("reasoning_content", "reasoning", "reasoning_text"):
            thought: str | None = getattr(delta, field)
            if thought:
                self._say("thinking", thought, field)
                break
        content = delta.content
        if content:
            if isinstance(content, str):
                self._say("text", content)
            else:
                self._on_parts(content)
        if delta.refusal:
            self._refused = True
            self._say("text", delta.refusal)
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._on_call(call)

    def _on_parts(self, parts: Sequence[Any]) -> None:
        """Content as a list of typed parts, as Mistral sends it."""
        for part in parts:
            match part:
                case {"type": "text", "text": str(text)}:
                    self._say("text", text)
                case {"type": "thinking", "thinking": str(text)}:
                    self._say("thinking", text)
                case {"type": "thinking", "thinking": [*thoughts]}:
                    for thought in thoughts:
                        if isinstance(thought, dict) and isinstance(thought.get("text"), str):
                            self._say("thinking", thought["text"])
                case _:
                    pass  # references and the like are no part of the answer's text

    def _say(self, kind: str, text: str, field: str = "") -> None:
        blocks = self._blocks
        if self._speech is None or (self._speech_field == "") != (kind == "text"):
            self._end_speech()
            if not text:
                return
            self._speech = blocks.open("text" if kind == "text" else "thinking")
            self._speech_field = "" if kind == "text" else field or "content"
        if self._carry or not text.isascii():
            text, self._carry = whole_pairs(self._carry, text)
        blocks.add(self._speech, text)

    def _end_speech(self) -> None:
        index, self._speech = self._speech, None
        if index is None:
            return
        if self._carry:
            self._carry = ""
            self._blocks.add(index, "\ufffd")
        text = self._blocks.text(index)
        if self._speech_field:
            state: Json = {"field": self._speech_field}
            self._blocks.close(index, ThinkingBlock(text, providerState=state))
        else:
            self._blocks.close(index, TextBlock(text))

    def _on_call(self, delta: _Call) -> None:
        function = delta.function or _Function()
        raw_id = "" if delta.id is None else str(delta.id)
        call = self._find(delta.index, raw_id, function.name or "")
        call.raw_id = call.raw_id or raw_id
        call.name = call.name or function.name or ""
        text = _arguments_text(function.arguments)
        if call.block is None and not call.name:
            call.held += text
            return
        if call.block is None:
            self._open_call(call)
            text = call.held + text
        if call.block is None or not self._blocks.is_open(call.block):
            if text.strip():
                raise _Broken("arguments after the end of their call")
            return
        if call.carry or not text.isascii():
            text, call.carry = whole_pairs(call.carry, text)
        self._blocks.add(call.block, text)

    def _find(self, key: int | None, raw_id: str, name: str) -> _Receiving:
        """Return the call that a delta belongs to, or a new one.

        Servers differ: the index may be missing, or zero for every call; ids
        may come once, always or never.
        """
        for call in reversed(self._calls):
            if raw_id and call.raw_id == raw_id and key in (None, call.key):
                return call
            if key is not None and call.key == key:
                if raw_id and call.raw_id and raw_id != call.raw_id and name:
                    break
                return call
        if key is None and not raw_id and not name and self._calls:
            return self._calls[-1]
        call = _Receiving(key, raw_id)
        self._calls.append(call)
        return call

    def _open_call(self, call: _Receiving) -> None:
        self._end_speech()
        for other in self._calls:
            if other is not call:
                self._close_if_whole(other)
        place = f"{self._blocks.response_id}/{len(self._blocks)}"
        tool_id = fresh_id(call.raw_id, self._request, place)
        if any(c.tool_id == tool_id for c in self._calls):
            tool_id = fresh_id("", self._request, place)
        call.tool_id = tool_id
        call.block = self._blocks.open("tool_use", tool_id=tool_id, tool_name=call.name)

    def _close_if_whole(self, call: _Receiving) -> None:
        """End a call early when its arguments are a whole object already."""
        if call.block is not None and self._blocks.text(call.block).rstrip().endswith("}"):
            value, wrong = parse_arguments(self._blocks.text(call.block))
            if not wrong:
                self._close_call(call, value, "")

    def _close_call(self, call: _Receiving, value: Json, wrong: str) -> None:
        if call.block is not None:
            self._blocks.close(call.block, ToolUseBlock(call.tool_id, call.name, value, wrong))

    def _close_all(self) -> None:
        stop = _STOPS.get(self._finish)
        if stop in {"max_tokens", "refusal", "stop_sequence"}:
            self._blocks.begin()  # these may end an answer without any content
        self._end_speech()
        cut = stop in {"max_tokens", "refusal"}
        for call in self._calls:
            if call.block is None:
                if not cut:
                    raise _Broken("a tool call without a name")
            elif self._blocks.is_open(call.block):
                text = self._blocks.text(call.block)
                self._close_call(call, *parse_arguments(text, cut=cut))


class _Broken(Exception):
    """The server broke the format; the text says how. Never leaves this module."""


def _arguments_text(arguments: Any) -> str:  # noqa: ANN401 - any JSON value
    """Arguments come as text; some servers send the object itself."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return encode_json(arguments).decode()


def _usage(raw: _Usage) -> Usage:
    details = raw.prompt_tokens_details or _Details()
    cached = details.cached_tokens or raw.prompt_cache_hit_tokens or raw.cached_tokens or 0
    written = details.cache_write_tokens or 0
    return Usage(
        input_tokens=max(0, (raw.prompt_tokens or 0) - cached - written),
        output_tokens=raw.completion_tokens or 0,
        cache_read_input_tokens=cached,
        cache_creation_input_tokens=written,
    )


def _error_of(chunk: _Chunk) -> ProviderError:
    error = chunk.error
    if isinstance(error, dict):
        code = " ".join(str(error[k]) for k in ("code", "type") if error.get(k))
        message = error.get("message") or encode_json(error).decode()
        return stream_error(code, str(message))
    if error:
        return stream_error("", str(error))
    said = "" if chunk.message is None else str(chunk.message)
    return stream_error("" if chunk.code is None else str(chunk.code), said)
