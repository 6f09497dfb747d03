"""How each wire API says a scripted turn. Pure."""

from collections.abc import Iterator
from typing import Any

from agent_sdk.providers.messages import Json, StopReason
from agent_sdk.testing.mock_wire import (
    Asked,
    EventKind,
    MockTurn,
    WireApi,
    WireEvent,
    arguments,
    pieces,
    to_json,
)

_CHAT_STOPS: dict[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}
SIGNATURE = "bW9jay1zaWduYXR1cmU="
ENCRYPTED = "bW9jay1lbmNyeXB0ZWQtcmVhc29uaW5n"


def render(api: WireApi, turn: MockTurn, asked: Asked, *, number: int) -> list[WireEvent]:
    """Return the events with which the API streams the turn.

    Args:
        api: Wire API.
        turn: The turn, with its call ids filled in.
        asked: The request it answers.
        number: Number of the request, for ids.
    """
    if api == "anthropic-messages":
        return list(_anthropic(turn, asked, number))
    if api == "openai-completions":
        return list(_chat(turn, asked, number))
    return list(_Responses(turn, asked, number).events())


def render_whole(api: WireApi, turn: MockTurn, asked: Asked, *, number: int) -> Json:
    """Return the answer of a request that does not stream; arguments as for ``render``."""
    if api == "anthropic-messages":
        return _anthropic_whole(turn, asked, number)
    if api == "openai-completions":
        return _chat_whole(turn, asked, number)
    return _Responses(turn, asked, number).whole()


# ---------------------------------------------------------------- Anthropic


def _anthropic_usage(turn: MockTurn) -> Json:
    usage = turn.usage
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "output_tokens": usage.output_tokens,
    }


def _anthropic(turn: MockTurn, asked: Asked, number: int) -> Iterator[WireEvent]:
    def event(kind: EventKind, name: str, **data: Any) -> WireEvent:  # noqa: ANN401
        return WireEvent(kind, name, to_json({"type": name, **data}))

    message: Json = {
        "id": f"msg_mock_{number}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_anthropic_usage(turn), "output_tokens": 1},
    }
    yield event("start", "message_start", message=message)
    yield event("other", "ping")
    for at, (block, deltas) in enumerate(_anthropic_blocks(turn)):
        kind: EventKind = "tool_start" if block["type"] == "tool_use" else "other"
        yield event(kind, "content_block_start", index=at, content_block=block)
        for delta in deltas:
            yield event("delta", "content_block_delta", index=at, delta=delta)
        yield event("other", "content_block_stop", index=at)
    yield event(
        "end",
        "message_delta",
        delta={"stop_reason": turn.stop_reason, "stop_sequence": None},
        usage=_anthropic_usage(turn),
    )
    yield event("terminal", "message_stop")


def _anthropic_blocks(turn: MockTurn) -> Iterator[tuple[Json, list[Json]]]:
    if turn.thinking:
        deltas: list[Json] = [
            {"type": "thinking_delta", "thinking": p} for p in pieces(turn.thinking, 2)
        ]
        deltas.append({"type": "signature_delta", "signature": SIGNATURE})
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if turn.text:
        parts = pieces(turn.text, turn.deltas)
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in parts]
    for at, call in enumerate(turn.calls):
        parts = pieces(arguments(turn, at), 3)
        yield (
            {"type": "tool_use", "id": call.id, "name": call.name, "input": {}},
            [{"type": "input_json_delta", "partial_json": p} for p in parts],
        )


def _anthropic_whole(turn: MockTurn, asked: Asked, number: int) -> Json:
    content: list[Json] = []
    if turn.thinking:
        content.append({"type": "thinking", "thinking": turn.thinking, "signature": SIGNATURE})
    if turn.text:
        content.append({"type": "text", "text": turn.text})
    content.extend(
        {"type": "tool_use", "id": c.id, "name": c.name, "input": c.input} for c in turn.calls
    )
    return {
        "id": f"msg_mock_{number}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": turn.stop_reason,
        "stop_sequence": None,
        "usage": _anthropic_usage(turn),
    }


# --------------------------------------------------------- Chat Completions


def _chat_usage(turn: MockTurn) -> Json:
    usage = turn.usage
    prompt = usage.input_tokens + usage.cache_read_input_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_input_tokens},
    }


def _chat(turn: MockTurn, asked: Asked, number: int) -> Iterator[WireEvent]:
    head = {
        "id": f"chatcmpl-mock-{number}",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": asked.model,
    }

    def chunk(kind: EventKind, delta: Json, finish: str | None = None) -> WireEvent:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return WireEvent(kind, "", to_json({**head, "choices": [choice]}))

    yield chunk("start", {"role": "assistant", "content": ""})
    for piece in pieces(turn.thinking, 2):
        yield chunk("delta", {"reasoning_content": piece})
    for piece in pieces(turn.text, turn.deltas):
        yield chunk("delta", {"content": piece})
    for at, call in enumerate(turn.calls):
        function = {"name": call.name, "arguments": ""}
        declared = {"index": at, "id": call.id, "type": "function", "function": function}
        yield chunk("tool_start", {"tool_calls": [declared]})
        for piece in pieces(arguments(turn, at), 3):
            more = {"index": at, "function": {"arguments": piece}}
            yield chunk("delta", {"tool_calls": [more]})
    yield chunk("end", {}, _CHAT_STOPS[turn.stop_reason])
    if asked.include_usage:
        yield WireEvent("other", "", to_json({**head, "choices": [], "usage": _chat_usage(turn)}))
    yield WireEvent("terminal", "", b"[DONE]")


def _chat_whole(turn: MockTurn, asked: Asked, number: int) -> Json:
    message: Json = {"role": "assistant", "content": turn.text or None}
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.name, "arguments": arguments(turn, at)},
            }
            for at, c in enumerate(turn.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _CHAT_STOPS[turn.stop_reason]}
    return {
        "id": f"chatcmpl-mock-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": asked.model,
        "choices": [choice],
        "usage": _chat_usage(turn),
    }


# ---------------------------------------------------------------- Responses


class _Responses:
    """One answer of the Responses API; events carry a running number."""

    def __init__(self, turn: MockTurn, asked: Asked, number: int) -> None:
        self._turn = turn
        self._asked = asked
        self._number = number
        self._sequence = 0

    def whole(self) -> Json:
        """Return the finished response."""
        cut = self._turn.stop_reason in {"max_tokens", "refusal"}
        return self._response("incomplete" if cut else "completed", self._items())

    def events(self) -> Iterator[WireEvent]:
        """Return the events that stream it."""
        begun = self._response("in_progress", [])
        yield self._event("start", "response.created", response=begun)
        yield self._event("other", "response.in_progress", response=begun)
        for at, item in enumerate(self._items()):
            yield from self._item_events(at, item)
        whole = self.whole()
        yield self._event("terminal", f"response.{whole['status']}", response=whole)

    def _event(self, kind: EventKind, name: str, **data: Any) -> WireEvent:  # noqa: ANN401
        fields = {"type": name, "sequence_number": self._sequence, **data}
        self._sequence += 1
        return WireEvent(kind, name, to_json(fields))

    def _response(self, status: str, output: list[Json]) -> Json:
        usage = self._turn.usage
        whole = usage.input_tokens + usage.cache_read_input_tokens
        reasons = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
        reason = reasons.get(self._turn.stop_reason)
        return {
            "id": f"resp_mock_{self._number}",
            "object": "response",
            "created_at": 1_700_000_000,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "model": self._asked.model,
            "output": output,
            "usage": None
            if status == "in_progress"
            else {
                "input_tokens": whole,
                "input_tokens_details": {"cached_tokens": usage.cache_read_input_tokens},
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": whole + usage.output_tokens,
            },
        }

    def _items(self) -> list[Json]:
        turn, number = self._turn, self._number
        items: list[Json] = []
        if turn.thinking:
            items.append(
                {
                    "type": "reasoning",
                    "id": f"rs_mock_{number}",
                    "summary": [{"type": "summary_text", "text": turn.thinking}],
                    "encrypted_content": ENCRYPTED,
                }
            )
        if turn.text:
            part = {"type": "output_text", "text": turn.text, "annotations": []}
            items.append(
                {
                    "type": "message",
                    "id": f"msg_mock_{number}",
                    "status": "completed",
                    "role": "assistant",
                    "content": [part],
                    "phase": "commentary" if turn.calls else "final_answer",
                }
            )
        for at, call in enumerate(turn.calls):
            cut = turn.stop_reason == "max_tokens" and at == len(turn.calls) - 1
            items.append(
                {
                    "type": "function_call",
                    "id": f"fc_mock_{number}_{at}",
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": arguments(turn, at),
                    "status": "incomplete" if cut else "completed",
                }
            )
        return items

    def _item_events(self, at: int, item: Json) -> Iterator[WireEvent]:
        where = {"output_index": at, "item_id": item["id"]}
        opened = {**item, **_EMPTY[item["type"]]}
        if item["type"] != "reasoning":
            opened["status"] = "in_progress"
        kind: EventKind = "tool_start" if item["type"] == "function_call" else "other"
        yield self._event(kind, "response.output_item.added", output_index=at, item=opened)
        if item["type"] == "reasoning":
            yield from self._reasoning_events(where, item)
        elif item["type"] == "message":
            yield from self._message_events(where, item)
        else:
            name = "response.function_call_arguments"
            for piece in pieces(item["arguments"], 3):
                yield self._event("delta", f"{name}.delta", **where, delta=piece)
            yield self._event("other", f"{name}.done", **where, arguments=item["arguments"])
        yield self._event("other", "response.output_item.done", output_index=at, item=item)

    def _reasoning_events(self, where: Json, item: Json) -> Iterator[WireEvent]:
        where = {**where, "summary_index": 0}
        text = item["summary"][0]["text"]
        part = {"type": "summary_text", "text": ""}
        yield self._event("other", "response.reasoning_summary_part.added", **where, part=part)
        name = "response.reasoning_summary_text"
        for piece in pieces(text, 2):
            yield self._event("delta", f"{name}.delta", **where, delta=piece)
        yield self._event("other", f"{name}.done", **where, text=text)

    def _message_events(self, where: Json, item: Json) -> Iterator[WireEvent]:
        where = {**where, "content_index": 0}
        part = item["content"][0]
        empty = {**part, "text": ""}
        yield self._event("other", "response.content_part.added", **where, part=empty)
        for piece in pieces(part["text"], self._turn.deltas):
            yield self._event("delta", "response.output_text.delta", **where, delta=piece)
        yield self._event("other", "response.output_text.done", **where, text=part["text"])
        yield self._event("other", "response.content_part.done", **where, part=part)


_EMPTY: dict[str, Json] = {
    "reasoning": {"summary": [], "encrypted_content": None},
    "message": {"content": []},
    "function_call": {"arguments": ""},
}
