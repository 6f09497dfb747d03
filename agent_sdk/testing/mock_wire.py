"""The three wire APIs from the server's side: pure, bytes in and events out.

``understand`` reads a request of any of the APIs into one shape, ``render``
turns a scripted turn into the server-sent events with which that API would
say it, ``render_whole`` into the answer of a request that does not stream.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from agent_sdk.core.usage import Usage
from agent_sdk.providers.messages import Json, StopReason

WireApi: TypeAlias = Literal["anthropic-messages", "openai-completions", "openai-responses"]

PATHS: Mapping[str, WireApi] = {
    "/v1/messages": "anthropic-messages",
    "/v1/chat/completions": "openai-completions",
    "/v1/responses": "openai-responses",
}
APIS: tuple[WireApi, ...] = tuple(PATHS.values())

EventKind: TypeAlias = Literal["start", "delta", "tool_start", "end", "terminal", "other"]


class MockCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call of a scripted turn; an empty id is filled in."""

    name: str
    input: Json = {}
    id: str = ""


class MockTurn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer of the mocked model.

    Attributes:
        text: What it says. ``{last_user}`` and ``{last_result}`` stand for the
            last user text and tool result of the request.
        thinking: What it thinks before.
        calls: Tools it calls after.
        deltas: Into how many deltas the text is cut.
        rate: Deltas a second; 0 sends as fast as the client takes them.
        delay: Seconds before the first event.
        stop: Why it ends; None works it out.
        usage: Tokens it is said to have cost.
        cut_arguments: How many bytes of the last call's arguments are sent;
            None sends them all.
        raw_arguments: What is sent in place of the last call's arguments.
        fault: Name of a network fault that happens to it.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[MockCall, ...] = ()
    deltas: int = 3
    rate: float = 0.0
    delay: float = 0.0
    stop: StopReason | None = None
    usage: Usage = Usage(input_tokens=100, output_tokens=20)
    cut_arguments: int | None = None
    raw_arguments: str | None = None
    fault: str = ""

    @property
    def stop_reason(self) -> StopReason:
        """Why the turn ends."""
        return self.stop or ("tool_use" if self.calls else "end_turn")


class Asked(Struct, frozen=True, kw_only=True):
    """What a request asks, whichever API it came by.

    Attributes:
        model: Model id.
        stream: Whether events are wanted.
        turn: How many answers of the model the conversation holds.
        turn_since_user: How many of them came after the last user text.
        last_user: The last user text.
        last_result: Text of the last tool result; empty if there is none.
        results: How many tool results the conversation holds.
        system: The system prompt.
        tools: Names of the tools on offer.
        include_usage: Whether Chat Completions should end with a usage chunk.
    """

    model: str
    stream: bool
    turn: int
    turn_since_user: int
    last_user: str
    last_result: str
    results: int
    system: str
    tools: tuple[str, ...]
    include_usage: bool = False


class WireEvent(Struct, frozen=True):
    """One server-sent event; ``name`` is empty where the API has none."""

    kind: EventKind
    name: str
    data: bytes

    @property
    def raw(self) -> bytes:
        """The event as it goes over the wire."""
        head = f"event: {self.name}\n".encode() if self.name else b""
        return head + b"data: " + self.data + b"\n\n"


# ----------------------------------------------------------------- requests


class _Entry(Struct):
    """One thing said in a conversation."""

    role: Literal["user", "answer", "result"]
    text: str = ""


def understand(api: WireApi, body: Json) -> Asked:
    """Read a request."""
    if api == "openai-responses":
        entries = list(_responses_entries(body.get("input")))
        system = str(body.get("instructions") or "")
    elif api == "openai-completions":
        entries = list(_chat_entries(body.get("messages") or []))
        system = _chat_system(body.get("messages") or [])
    else:
        entries = list(_anthropic_entries(body.get("messages") or []))
        system = _text_of(body.get("system"))
    answers = 0
    since = 0
    last_user = last_result = ""
    before: str = ""
    for entry in entries:
        if entry.role == "answer":
            if before != "answer":  # several items in a row are one answer
                answers += 1
                since += 1
        elif entry.role == "user":
            last_user = entry.text if before != "user" else f"{last_user}\n{entry.text}"
            since = 0
        else:
            last_result = entry.text
        before = entry.role
    return Asked(
        model=str(body.get("model") or ""),
        stream=bool(body.get("stream")),
        turn=answers,
        turn_since_user=since,
        last_user=last_user,
        last_result=last_result,
        results=sum(e.role == "result" for e in entries),
        system=system,
        tools=tuple(_tool_name(t) for t in body.get("tools") or ()),
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
    )


def _tool_name(tool: Json) -> str:
    return str((tool.get("function") or tool).get("name") or tool.get("type") or "")


def _text_of(content: Any) -> str:  # noqa: ANN401 - any of the content forms
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (p.get("text") for p in content if isinstance(p, dict))
    return "\n".join(t for t in texts if isinstance(t, str))


def _chat_system(messages: list[Json]) -> str:
    return "\n".join(
        _text_of(m.get("content")) for m in messages if m.get("role") in {"system", "developer"}
    )


def _chat_entries(messages: list[Json]) -> Iterator[_Entry]:
    for message in messages:
        role = message.get("role")
        text = _text_of(message.get("content"))
        if role == "user":
            yield _Entry("user", text)
        elif role == "assistant":
            yield _Entry("answer", text)
        elif role == "tool":
            yield _Entry("result", text)


def _anthropic_entries(messages: list[Json]) -> Iterator[_Entry]:
    for message in messages:
        content = message.get("content")
        if message.get("role") == "assistant":
            yield _Entry("answer", _text_of(content))
            continue
        if isinstance(content, list):
            for block in content:
                if block.get("type") == "tool_result":
                    yield _Entry("result", _text_of(block.get("content")))
        text = _text_of(content)
        if text:
            yield _Entry("user", text)


def _responses_entries(items: Any) -> Iterator[_Entry]:  # noqa: ANN401 - a text or a list
    if isinstance(items, str):
        yield _Entry("user", items)
        return
    for item in items or ():
        kind = item.get("type") or "message"
        if kind == "function_call_output":
            yield _Entry("result", _text_of(item.get("output")))
        elif kind != "message" or item.get("role") == "assistant":
            yield _Entry("answer", _text_of(item.get("content")))
        elif item.get("role") == "user":
            yield _Entry("user", _text_of(item.get("content")))


# ------------------------------------------------------------------ answers


def filled(turn: MockTurn, asked: Asked, number: int) -> MockTurn:
    """Fill in what a turn leaves open: placeholders and call ids.

    Args:
        turn: The turn as scripted.
        asked: The request it answers.
        number: Number of the request, for ids.
    """
    said = turn.text.replace("{last_user}", asked.last_user)
    calls = tuple(
        msgspec.structs.replace(c, id=c.id or f"call_mock_{number}_{at}_{c.name}")
        for at, c in enumerate(turn.calls)
    )
    said = said.replace("{last_result}", asked.last_result)
    return msgspec.structs.replace(turn, text=said, calls=calls)


def pieces(text: str, count: int) -> list[str]:
    """Cut a text into about ``count`` pieces; none for no text."""
    size = max(1, -(-len(text) // max(1, count)))
    return [text[at : at + size] for at in range(0, len(text), size)]


def arguments(turn: MockTurn, at: int) -> str:
    """Return the JSON of a call's arguments, spoilt where the turn says so."""
    whole = msgspec.json.encode(turn.calls[at].input)
    if at < len(turn.calls) - 1:
        return whole.decode()
    if turn.raw_arguments is not None:
        return turn.raw_arguments
    return whole[: turn.cut_arguments].decode("utf-8", "ignore")


def to_json(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Return compact JSON."""
    return msgspec.json.encode(value)


__all__ = [
    "APIS",
    "PATHS",
    "Asked",
    "EventKind",
    "MockCall",
    "MockTurn",
    "WireApi",
    "WireEvent",
    "arguments",
    "filled",
    "pieces",
    "to_json",
    "understand",
]
