"""The wire API of the embedded model: constrained turns in, tool calls out. Pure.

The child speaks Chat Completions, but its model knows no tools. So a request
becomes a turn under a grammar (see ``local_turn``), and what comes back is
read as text or as a call while it grows.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import InvalidInput, ProviderError
from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import BlockKind, ModelRequest, StreamEvent, StreamFailed
from agent_sdk.providers.convert import (
    encode_json,
    fresh_id,
    parse_arguments,
    protocol_error,
    stream_error,
)
from agent_sdk.providers.local_json import BrokenTurn, Called, Piece, Said, TurnReader
from agent_sdk.providers.local_prompt import LocalPrompt, load_prompt
from agent_sdk.providers.local_turn import Turn, chat_turn, small_turn
from agent_sdk.providers.messages import Json, StopReason, TextBlock, ToolUseBlock
from agent_sdk.providers.models import Model
from agent_sdk.providers.openai_common import Blocks, bearer_headers, cut_short, read_event

GGUF = "gguf"
"""Entry of ``Model.compat`` with the path of a model file of the user's own."""


class _Delta(Struct, gc=False):
    content: str | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Details(Struct, gc=False):
    cached_tokens: int = 0


class _Usage(Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Failure(Struct):
    message: str = ""
    type: str = ""


class _Chunk(Struct):
    id: str = ""
    choices: tuple[_Choice, ...] = ()
    usage: _Usage | None = None
    error: _Failure | None = None


_CHUNK = msgspec.json.Decoder(_Chunk)
_TEXT: Final[BlockKind] = "text"


class LocalAdapter:
    """Puts requests to the child at the address that it was last given."""

    def __init__(self, *, address: str = "") -> None:
        self.address = address
        self._prompt: LocalPrompt | None = None

    @property
    def api(self) -> str:
        """Name of the wire API."""
        return "local"

    def url(self, model: Model) -> str:
        """Return the endpoint."""
        del model  # the child has only one
        return f"{self.address}/v1/chat/completions"

    def headers(self, model: Model, key: str) -> dict[str, str]:
        """Return the headers, with the key that the child was given."""
        del model
        # The child sometimes answers nothing on a connection that was idle.
        return {**bearer_headers(key), "connection": "close"}

    def encode(self, request: ModelRequest) -> bytes:
        """Return the request's body.

        Raises:
            InvalidInput: If there is nothing to answer, or a tool's schema is
                not made of JSON types.
        """
        if not request.messages:
            raise InvalidInput("There is no message to answer.")
        turn = self.turn(request)
        body: Json = {
            "messages": turn.messages,
            "max_tokens": turn.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "cache_prompt": True,
            **turn.sampling,
        }
        if turn.schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "turn", "schema": turn.schema},
            }
        return encode_json({**body, **(request.extra or {})})

    def decoder(self, request: ModelRequest) -> "LocalDecoder":
        """Return a fresh decoder for one attempt."""
        return LocalDecoder(request, self.turn(request))

    def turn(self, request: ModelRequest) -> Turn:
        """Return what the model is asked."""
        if self._prompt is None:
            self._prompt = load_prompt()
        make = chat_turn if request.model.compat.get(GGUF) else small_turn
        return make(request, self._prompt)


class LocalDecoder:
    """Decodes one answer; see ``providers.base.Decoder``."""

    def __init__(self, request: ModelRequest, turn: Turn) -> None:
        self._request = request
        self._blocks = Blocks(request)
        self._reader = (
            TurnReader(answer=turn.answer, answer_is_object=turn.answer_is_object)
            if turn.answer
            else None
        )
        self._text: int | None = None
        self._call: int | None = None
        self._call_name = ""
        self._call_id = ""
        self._finish = ""
        self._usage = Usage()

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamEvent]:
        """Take one event: a chunk as JSON, or ``[DONE]``."""
        if data == b"[DONE]":
            return self._end()
        chunk = read_event(_CHUNK, data, _Chunk)
        if isinstance(chunk, ProviderError):
            return self._fail(chunk)
        if chunk.error is not None or event == b"error":
            failure = chunk.error or _Failure()
            return self._fail(stream_error(failure.type, failure.message))
        if chunk.id:
            self._blocks.response_id = chunk.id
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        try:
            for choice in chunk.choices:
                self._take(choice)
        except BrokenTurn as error:
            return self._fail(protocol_error(str(error), data))
        return self._blocks.take()

    def _take(self, choice: _Choice) -> None:
        self._finish = choice.finish_reason or self._finish
        content = choice.delta.content if choice.delta else None
        if not content:
            return
        if self._reader is None:
            self._say(content)
            return
        for piece in self._reader.feed(content):
            self._on_piece(piece)

    def _on_piece(self, piece: Piece) -> None:
        if isinstance(piece, Said):
            self._say(piece.text)
        elif isinstance(piece, Called):
            self._call_name = piece.name
            self._call_id = fresh_id("", self._request, f"{self._blocks.response_id}/0")
            self._call = self._blocks.open(
                "tool_use", tool_id=self._call_id, tool_name=self._call_name
            )
        elif self._call is not None:
            self._blocks.add(self._call, piece.text)

    def _say(self, text: str) -> None:
        if self._text is None:
            text = text.lstrip()
            if not text:
                return
            self._text = self._blocks.open(_TEXT)
        self._blocks.add(self._text, text)

    def _end(self) -> Sequence[StreamEvent]:
        """Take the end of the stream, which the server has marked."""
        if not self._finish:
            return self._fail(cut_short(len(self._blocks) > 0, self._request.model.provider))
        cut = self._finish == "length"
        if self._reader is not None and not self._reader.complete and not cut:
            error = cut_short(len(self._blocks) > 0, self._request.model.provider)
            return self._fail(error)
        stop: StopReason = "max_tokens" if cut else "end_turn"
        if self._text is not None:
            self._blocks.close(self._text, TextBlock(self._blocks.text(self._text)))
        if self._call is not None:
            arguments, problem = parse_arguments(self._blocks.text(self._call), cut=cut)
            call = ToolUseBlock(self._call_id, self._call_name, arguments, input_error=problem)
            self._blocks.close(self._call, call)
            stop = stop if problem else "tool_use"
        done = self._blocks.done(stop, self._usage)
        return [*self._blocks.take(), done]

    def _fail(self, error: ProviderError) -> Sequence[StreamEvent]:
        return [*self._blocks.take(), self._blocks.failed(error, self._usage)]

    def finish(self) -> StreamEvent:
        """Say what the end of the stream means before ``[DONE]``: a failure."""
        error = cut_short(len(self._blocks) > 0, self._request.model.provider)
        return StreamFailed(error, self._blocks.failed(error, self._usage).partial)


def _usage(sent: _Usage) -> Usage:
    cached = sent.prompt_tokens_details.cached_tokens if sent.prompt_tokens_details else 0
    return Usage(
        input_tokens=max(0, sent.prompt_tokens - cached),
        output_tokens=sent.completion_tokens,
        cache_read_input_tokens=cached,
    )
