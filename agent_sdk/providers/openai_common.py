"""What the two OpenAI wire APIs have in common.

``Blocks`` turns what a decoder understands into events that keep the stream
contract; the rest is how bodies are put together from encoded pieces.
"""

from collections.abc import Mapping
from typing import TypeVar

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
    ToolSpec,
)
from agent_sdk.providers.convert import clean_text, encode_json, is_host, protocol_error
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    StopReason,
    TextBlock,
    ThinkingBlock,
)
from agent_sdk.providers.models import Model

T = TypeVar("T")

OPENAI_HOST = "api.openai.com"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
CACHE_KEY_LIMIT = 64


def bearer_headers(key: str) -> dict[str, str]:
    """Return the headers of a streaming request; an empty key sends none."""
    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    return headers


def join_body(
    fields: Mapping[str, bytes],
    history: tuple[str, list[bytes]],
    extra: Mapping[str, object] | None,
) -> bytes:
    """Return a JSON object made of encoded values.

    The history, which may be megabytes, is copied only once.

    Args:
        fields: Values by name, already JSON.
        history: Name of the field that holds the conversation, and its items.
        extra: Values laid over all of them, as they are.
    """
    name, items = history
    merged = dict(fields)
    for key, value in (extra or {}).items():
        merged[key] = encode_json(value)
    head = b",".join(b"%s:%s" % (encode_json(k), v) for k, v in merged.items())
    if name in merged:
        return b"{%s}" % head
    first, last = b'{%s,"%s":[' % (head, name.encode()), b"]}"
    if len(items) < 2:
        return first + b"".join(items) + last
    return b",".join([first + items[0], *items[1:-1], items[-1] + last])


class ToolsCache:
    """Keeps the JSON of the last tools; they rarely change in a session."""

    def __init__(self) -> None:
        self._tools: tuple[ToolSpec, ...] = ()
        self._json = b""

    def get(self, tools: tuple[ToolSpec, ...], *, nested: bool) -> bytes:
        """Return the tools as a JSON array.

        Args:
            tools: The tools; not empty.
            nested: Whether the API wants each under ``function``.
        """
        if tools is not self._tools:
            self._tools = tools
            self._json = encode_json([_tool(t, nested=nested) for t in tools])
        return self._json


def _tool(tool: ToolSpec, *, nested: bool) -> dict[str, object]:
    declared: dict[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    if nested:
        return {"type": "function", "function": declared}
    # Left out, Responses would take it as true and refuse most schemas.
    return {"type": "function", **declared, "strict": False}


def at_openai(model: Model) -> bool:
    """Whether the model is served by OpenAI itself."""
    return is_host(model.base_url or DEFAULT_BASE_URL, OPENAI_HOST)


class _Open(Struct):
    """A block that is being received."""

    kind: BlockKind
    parts: list[str]
    block: Block | None = None


class Blocks:
    """Builds an answer out of deltas and yields events that keep the contract.

    Blocks may be open at the same time; they begin in the order of their
    index, and the end of one is held back until all before it have ended.
    ``StreamStart`` comes with the first block, so that a request that fails
    before can be made again.

    Attributes:
        events: What has happened since it was last taken.
        response_id: The server's id of the answer.
        model: The model that the server says it used.
    """

    def __init__(self, request: ModelRequest) -> None:
        self.events: list[StreamEvent] = []
        self.response_id = ""
        self.model = ""
        self._request = request
        self._blocks: list[_Open] = []
        self._ended = 0
        self._started = False

    def __len__(self) -> int:
        return len(self._blocks)

    def take(self) -> list[StreamEvent]:
        """Return the events that have gathered and forget them."""
        events, self.events = self.events, []
        return events

    def open(self, kind: BlockKind, *, tool_id: str = "", tool_name: str = "") -> int:
        """Begin a block and return its index."""
        self.begin()
        index = len(self._blocks)
        self._blocks.append(_Open(kind, []))
        self.events.append(BlockStart(index, kind, tool_id, tool_name))
        return index

    def begin(self) -> None:
        """Say that the answer has begun; every other call does so as needed."""
        if not self._started:
            self._started = True
            self.events.append(StreamStart(self.response_id, self.model))

    def add(self, index: int, text: str) -> None:
        """Add a delta to an open block; an empty one is no event."""
        if not text:
            return
        block = self._blocks[index]
        block.parts.append(text)
        if block.kind == "text":
            self.events.append(TextDelta(index, text))
        elif block.kind == "thinking":
            self.events.append(ThinkingDelta(index, text))
        else:
            self.events.append(ArgsDelta(index, text))

    def more_text(self, index: int, text: str) -> TextDelta:
        """Add a delta to an open text block and return its event, which is not gathered."""
        self._blocks[index].parts.append(text)
        return TextDelta(index, text)

    def text(self, index: int) -> str:
        """Return everything that was added to a block."""
        return "".join(self._blocks[index].parts)

    def is_open(self, index: int) -> bool:
        """Whether the block has not been closed."""
        return self._blocks[index].block is None

    def close(self, index: int, block: Block) -> None:
        """Complete a block; doing it again changes nothing."""
        if self._blocks[index].block is None:
            self._blocks[index].block = block
        while self._ended < len(self._blocks):
            ready = self._blocks[self._ended].block
            if ready is None:
                return
            self.events.append(BlockEnd(self._ended, ready))
            self._ended += 1

    def done(self, stop_reason: StopReason, usage: Usage) -> StreamDone:
        """Return the last event of a whole answer; every block must be closed."""
        self.begin()
        content = tuple(b.block for b in self._blocks if b.block is not None)
        return StreamDone(self._message(content, stop_reason, usage=usage))

    def failed(self, error: ProviderError, usage: Usage | None = None) -> StreamFailed:
        """Return the last event of a failed answer, with what had arrived."""
        content: list[Block] = []
        for open_block in self._blocks:
            whole = "".join(open_block.parts)
            if not whole or open_block.kind == "tool_use":
                continue
            kept = open_block.block or (
                TextBlock(whole) if open_block.kind == "text" else ThinkingBlock(whole)
            )
            content.append(kept)
        if not content:
            return StreamFailed(error)
        said = error.message
        partial = self._message(tuple(content), "error", usage=usage or Usage(), error=said)
        return StreamFailed(error, partial)

    def _message(
        self,
        content: tuple[Block, ...],
        stop_reason: StopReason,
        *,
        usage: Usage,
        error: str = "",
    ) -> AssistantMessage:
        request = self._request
        return AssistantMessage(
            content=content,
            api=request.model.api,
            provider=request.model.provider,
            model=request.model.id,
            stop_reason=stop_reason,
            usage=usage,
            thinking_level=request.thinking_level,
            response_id=self.response_id,
            error=error,
        )


def cut_short(arrived: bool, provider: str) -> ProviderError:  # noqa: FBT001 - the one question
    """Return the error for a stream that ended without its last event.

    Args:
        arrived: Whether anything of the answer had come.
        provider: Who was asked.
    """
    if arrived:
        return ProviderError(
            f"The answer of {provider!r} ended before it was complete.",
            kind="incomplete",
            retryable=True,
        )
    return ProviderError(
        f"{provider!r} answered with nothing at all.", kind="empty", retryable=True
    )


def whole_pairs(carry: str, text: str) -> tuple[str, str]:
    """Join surrogate pairs that a server tore between two deltas.

    Args:
        carry: The high half kept from the delta before; usually empty.
        text: The new delta, which may hold lone surrogates.

    Returns:
        Text that is safe to show, and the high half to keep for the next.
    """
    joined = carry + text
    keep = ""
    if joined and "\ud800" <= joined[-1] <= "\udbff":
        joined, keep = joined[:-1], joined[-1]
    return clean_text(joined), keep


def read_event(decoder: msgspec.json.Decoder[T], data: bytes, kind: type[T]) -> T | ProviderError:
    """Decode an event, or say why it cannot be read.

    Args:
        decoder: Decoder of the event's type.
        data: The event's data.
        kind: The event's type, for the slow way.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        return protocol_error(str(error), data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # A pair of surrogates that was torn between two deltas is refused by
        # the fast reader; it is rare, so the slow one is loaded only then.
        import json  # noqa: PLC0415 - start-up cost

        try:
            return msgspec.convert(json.loads(data), type=kind)
        except (ValueError, RecursionError) as error:
            return protocol_error(str(error), data)
