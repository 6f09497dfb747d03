"""Decodes the stream of a Responses answer.

An answer is a list of output items (reasoning, message, function call), each
announced, filled by deltas and closed with its final form. Ids, phase and
encrypted reasoning of the items are kept in ``providerState`` of their block.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from agent_sdk.core.errors import ProviderError
from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import BlockKind, ModelRequest, StreamEvent
from agent_sdk.providers.convert import (
    encode_json,
    fresh_id,
    parse_arguments,
    protocol_error,
    stream_error,
)
from agent_sdk.providers.messages import (
    Block,
    Json,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from agent_sdk.providers.openai_common import Blocks, cut_short, read_event, whole_pairs

_BETWEEN_SUMMARIES = "\n\n"


class _Event(Struct):
    """Any event; only the fields that matter, the heavy ones undecoded."""

    type: str = ""
    delta: Any = None
    output_index: int | None = None
    item_id: str | None = None
    summary_index: int | None = None
    item: Raw = Raw()
    response: Raw = Raw()
    text: Any = None
    arguments: Any = None
    refusal: Any = None
    error: Any = None
    code: Any = None
    message: Any = None


class _Details(Struct):
    cached_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _Response(Struct):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    usage: _Usage | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    output: list[Raw] | None = None


_EVENT = msgspec.json.Decoder(_Event)
_RESPONSE = msgspec.json.Decoder(_Response)
_KINDS: dict[str, BlockKind] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "tool_use",
}


class _Item(Struct):
    """An output item that is being received.

    Attributes:
        kind: Kind of the block it becomes.
        place: Its index among the output items, as the server numbers them.
        raw: The item as it was last seen whole.
        block: Index of its block; None while nothing of it is worth showing.
        tool_id: The id by which we know the call.
        carry: Half of a surrogate pair that was torn between deltas.
        part: Number of the summary part being received.
        refused: Whether it holds a refusal.
        closed: Whether its final form has come.
    """

    kind: BlockKind
    place: int | None
    raw: Json
    block: int | None = None
    tool_id: str = ""
    carry: str = ""
    part: int = 0
    refused: bool = False
    closed: bool = False


class _Broken(Exception):
    """The server broke the format; the text says how. Never leaves this module."""


class ResponsesDecoder:
    """Decodes one answer; see ``providers.base.Decoder``."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._blocks = Blocks(request)
        self._items: list[_Item] = []
        self._usage = Usage()
        self._arrived = False
        self._handlers: dict[str, Callable[[_Event], None]] = {
            "response.output_text.delta": self._on_text,
            "response.refusal.delta": self._on_refusal,
            "response.reasoning_summary_text.delta": self._on_summary,
            "response.reasoning_text.delta": self._on_reasoning,
            "response.function_call_arguments.delta": self._on_arguments,
            "response.function_call_arguments.done": self._on_arguments_done,
            "response.output_item.added": self._on_added,
            "response.output_item.done": self._on_done,
            "response.created": self._on_created,
            "response.in_progress": self._on_created,
        }

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamEvent]:
        """Take one event; its type is in the data, its name may be missing."""
        if data.startswith(b"[DONE]"):
            return ()  # some servers add it; it ends nothing
        decoded = read_event(_EVENT, data, _Event)
        if isinstance(decoded, ProviderError):
            return self._fail(decoded)
        self._arrived = True
        kind = decoded.type or event.decode("utf-8", "replace")
        handler = self._handlers.get(kind)
        try:
            if handler is not None:
                handler(decoded)
                return self._blocks.take()
            return self._on_other(kind, decoded)
        except (_Broken, msgspec.DecodeError) as broken:
            return self._fail(protocol_error(str(broken), data))

    def finish(self) -> StreamEvent:
        """Say what the end of the stream means: its last event is missing."""
        error = cut_short(self._arrived, self._request.model.provider)
        return self._blocks.failed(error, self._usage)

    def _fail(self, error: ProviderError) -> Sequence[StreamEvent]:
        return [*self._blocks.take(), self._blocks.failed(error, self._usage)]

    # ------------------------------------------------------------- the answer

    def _on_created(self, event: _Event) -> None:
        if event.response:
            response = _RESPONSE.decode(event.response)
            self._blocks.response_id = response.id or ""
            self._blocks.model = response.model or ""

    def _on_other(self, kind: str, event: _Event) -> Sequence[StreamEvent]:
        if kind in {"response.completed", "response.incomplete", "response.done"}:
            response = _RESPONSE.decode(event.response or b"{}")
            return self._on_end(response, cut=kind == "response.incomplete")
        if kind in {"response.failed", "response.cancelled"}:
            response = _RESPONSE.decode(event.response or b"{}")
            self._note(response)
            return self._fail(_error_of(response.error, kind))
        if kind == "error" or event.error:
            whole = {"code": event.code, "message": event.message}
            return self._fail(_error_of(event.error or whole, kind))
        return ()  # progress of parts, and kinds that are newer than this

    def _note(self, response: _Response) -> None:
        self._blocks.response_id = response.id or self._blocks.response_id
        self._blocks.model = response.model or self._blocks.model
        if response.usage is not None:
            self._usage = _usage(response.usage)

    def _on_end(self, response: _Response, *, cut: bool) -> Sequence[StreamEvent]:
        self._note(response)
        if response.status in {"failed", "cancelled"}:
            return self._fail(_error_of(response.error, response.status))
        reason = (response.incomplete_details or _Incomplete()).reason or ""
        cut = cut or response.status == "incomplete" or bool(reason)
        if not self._items:  # a server that announces nothing
            for index, raw in enumerate(response.output or ()):
                self._on_done(_Event(output_index=index, item=raw))
        for item in self._items:
            if not item.closed:
                self._close(item, cut=True)
        return self._last(_stop_reason(reason, cut=cut))

    def _last(self, stop: StopReason) -> Sequence[StreamEvent]:
        if stop == "end_turn":
            if any(i.refused for i in self._items):
                stop = "refusal"
            elif any(i.kind == "tool_use" for i in self._items):
                stop = "tool_use"
            elif not any(self._says(i) for i in self._items):
                return self._fail(cut_short(False, self._request.model.provider))
        done = self._blocks.done(stop, self._usage)
        return [*self._blocks.take(), done]

    def _says(self, item: _Item) -> bool:
        return item.block is not None and bool(self._blocks.text(item.block))

    # -------------------------------------------------------------- the items

    def _item(self, event: _Event, kind: str = "") -> _Item | None:
        """Return the item an event is about, announced or not; None to ignore it."""
        if kind and self._items:  # nearly always a delta belongs to the newest item
            last = self._items[-1]
            same_place = last.place is not None and last.place == event.output_index
            if same_place and last.kind == _KINDS[kind] and not last.closed:
                return last
        raw = _read_item(event.item)
        block_kind = _KINDS.get(raw.get("type") or kind)
        if block_kind is None:
            return None  # calls of tools that run at the server, and newer kinds
        found = self._find(event, block_kind, event.item_id or raw.get("id"))
        if found is None:
            found = _Item(block_kind, event.output_index, raw)
            self._items.append(found)
        return found

    def _find(self, event: _Event, kind: BlockKind, name: str | None) -> _Item | None:
        """Find an item by its id, else by its place.

        There are servers that give each event another id, and servers that
        give each item the place 0; so neither can be relied on alone.
        """
        alike = [item for item in reversed(self._items) if item.kind == kind]
        named = next((i for i in alike if name and i.raw.get("id") == name), None)
        if named is not None and not named.closed:
            return named
        place = event.output_index
        announced = event.type == "response.output_item.added"
        for item in alike:
            fits = not announced if place is None else item.place == place
            if fits and not item.closed:
                return item
        if named is None and name is None:
            return next((i for i in alike if i.place == place), None)
        return named

    def _on_added(self, event: _Event) -> None:
        item = self._item(event)
        # Reasoning is shown to be going on: its text may come late, or never.
        if item is not None and item.kind != "text":
            self._open(item)

    def _on_done(self, event: _Event) -> None:
        item = self._item(event)
        if item is None or item.closed:
            return
        item.raw = _read_item(event.item) or item.raw
        self._close(item)

    def _open(self, item: _Item) -> int:
        if item.block is not None:
            return item.block
        if item.kind == "tool_use":
            name = item.raw.get("name")
            if not isinstance(name, str) or not name:
                raise _Broken("a function call without a name")
            place = f"{self._blocks.response_id}/{len(self._blocks)}"
            given = str(item.raw.get("call_id") or item.raw.get("id") or "")
            item.tool_id = fresh_id(given, self._request, place)
            if any(i.tool_id == item.tool_id for i in self._items if i is not item):
                item.tool_id = fresh_id("", self._request, place)
            item.block = self._blocks.open("tool_use", tool_id=item.tool_id, tool_name=name)
        else:
            item.block = self._blocks.open(item.kind)
        return item.block

    def _add(self, item: _Item | None, text: Any) -> None:  # noqa: ANN401 - as it was sent
        if item is None or not text:
            return
        if not isinstance(text, str):
            raise _Broken("a delta that is not text")
        if item.closed:
            raise _Broken("a delta after the end of its item")
        if item.carry or not text.isascii():
            text, item.carry = whole_pairs(item.carry, text)
        self._blocks.add(self._open(item), text)

    def _on_text(self, event: _Event) -> None:
        self._add(self._item(event, "message"), event.delta)

    def _on_refusal(self, event: _Event) -> None:
        item = self._item(event, "message")
        if item is not None:
            item.refused = True
        self._add(item, event.delta)

    def _on_summary(self, event: _Event) -> None:
        item = self._item(event, "reasoning")
        number = event.summary_index or 0
        if item is not None and number != item.part:
            if item.block is not None and self._blocks.text(item.block):
                self._add(item, _BETWEEN_SUMMARIES)
            item.part = number
        self._add(item, event.delta)

    def _on_reasoning(self, event: _Event) -> None:
        self._add(self._item(event, "reasoning"), event.delta)

    def _on_arguments(self, event: _Event) -> None:
        self._add(self._item(event, "function_call"), event.delta)

    def _on_arguments_done(self, event: _Event) -> None:
        """Some servers send the arguments only here."""
        item = self._item(event, "function_call")
        if item is not None and isinstance(event.arguments, str) and not item.closed:
            self._complete(item, event.arguments)

    def _complete(self, item: _Item, whole: str) -> None:
        """Add what the deltas left out of an item's final text."""
        have = "" if item.block is None else self._blocks.text(item.block)
        if len(whole) > len(have) and whole.startswith(have):
            item.carry = ""
            self._add(item, whole[len(have) :])

    def _close(self, item: _Item, *, cut: bool = False) -> None:
        """Complete an item's block from what is known of it.

        Args:
            item: The item.
            cut: Whether its final form never came.
        """
        self._complete(item, _text_of(item))
        if item.carry and item.block is not None:
            item.carry = ""
            self._blocks.add(item.block, "\ufffd")
        item.closed = True
        if item.block is None and (item.kind == "tool_use" or _is_worth_keeping(item.raw)):
            self._open(item)
        if item.block is None:
            return
        self._blocks.close(item.block, self._block(item, self._blocks.text(item.block), cut))

    def _block(self, item: _Item, text: str, cut: bool) -> Block:  # noqa: FBT001 - see _close
        raw = item.raw
        if item.kind == "thinking":
            return ThinkingBlock(text, providerState=None if cut else raw or None)
        if item.kind == "text":
            item.refused = item.refused or _holds_refusal(raw.get("content"))
            kept = {k: raw[k] for k in ("id", "phase") if raw.get(k)}
            return TextBlock(text, kept or None)
        value, wrong = parse_arguments(text, cut=cut)
        final = _text_of(item)
        if not wrong and final and final != text:
            value, wrong = {}, "The arguments in pieces and as a whole differ."
        if not wrong and raw.get("status") == "incomplete":
            value, wrong = {}, "The call is marked as incomplete."
        if not wrong and cut:
            value, wrong = {}, "The call was not finished."
        state: Json | None = {"id": raw["id"]} if raw.get("id") else None
        return ToolUseBlock(item.tool_id, str(raw["name"]), value, wrong, state)


_WORDS = ("type", "id", "call_id", "name", "status", "phase", "encrypted_content")


def _read_item(data: Raw) -> Json:
    """Read an output item; an empty object for none."""
    item: Json | None = msgspec.json.decode(data, type=Json | None) if data else None
    if item is None:
        return {}
    for name in _WORDS:
        if not isinstance(item.get(name), str | None):
            raise _Broken(f"an item whose {name!r} is no text")
    return item


def _is_worth_keeping(raw: Json) -> bool:
    """Whether an item without text must be kept: encrypted reasoning, to be sent back."""
    return raw.get("type") == "reasoning" and bool(raw.get("encrypted_content"))


def _text_of(item: _Item) -> str:
    """Return the text in an item's final form."""
    raw = item.raw
    if item.kind == "tool_use":
        arguments = raw.get("arguments")
        if isinstance(arguments, dict):
            return encode_json(arguments).decode()
        return arguments if isinstance(arguments, str) else ""
    if item.kind == "thinking":
        summary = _BETWEEN_SUMMARIES.join(_part_texts(raw.get("summary")))
        return summary or "".join(_part_texts(raw.get("content")))
    return "".join(_part_texts(raw.get("content")))


def _holds_refusal(parts: Any) -> bool:  # noqa: ANN401 - as it was sent
    return isinstance(parts, list) and any(
        isinstance(p, dict) and p.get("type") == "refusal" for p in parts
    )


def _part_texts(parts: Any) -> list[str]:  # noqa: ANN401 - as it was sent
    if not isinstance(parts, list):
        return []
    texts = []
    for part in parts:
        if isinstance(part, dict):
            text = part.get("text") or part.get("refusal")
            if isinstance(text, str):
                texts.append(text)
    return texts


def _stop_reason(reason: str, *, cut: bool) -> StopReason:
    if reason == "content_filter":
        return "refusal"
    return "max_tokens" if cut else "end_turn"


def _usage(raw: _Usage) -> Usage:
    cached = (raw.input_tokens_details or _Details()).cached_tokens or 0
    return Usage(
        input_tokens=max(0, (raw.input_tokens or 0) - cached),
        output_tokens=raw.output_tokens or 0,
        cache_read_input_tokens=cached,
    )


def _error_of(error: Any, kind: str) -> ProviderError:  # noqa: ANN401 - as it was sent
    if isinstance(error, dict):
        code = " ".join(str(error[k]) for k in ("code", "type") if error.get(k))
        return stream_error(code, str(error.get("message") or ""))
    return stream_error(kind, str(error or "The answer was broken off."))
