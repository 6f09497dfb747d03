"""Recorded answers of Messages, and broken ones, played through the decoder."""

import itertools
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from agent_sdk.core.usage import Usage
from agent_sdk.providers.anthropic import AnthropicAdapter
from agent_sdk.providers.base import (
    BlockEnd,
    Decoder,
    ModelRequest,
    StreamDone,
    StreamFailed,
    TextDelta,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    Message,
    RedactedThinkingBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model
from agent_sdk.testing.conformance import check_stream_contract
from tests.support.streams import play, recorded, shown

RECORDINGS = recorded("anthropic")
MODEL = Model(id="claude-x", provider="anthropic", api="anthropic-messages")


def decoder(*earlier: AssistantMessage) -> Decoder:
    messages: list[Message] = [UserMessage(content=(TextBlock("hi"),)), *earlier]
    request = ModelRequest(model=MODEL, messages=messages, thinking_level="high")
    return AnthropicAdapter().decoder(request)


def answer(data: bytes, *earlier: AssistantMessage) -> AssistantMessage:
    events = play(decoder(*earlier), [data])
    check_stream_contract(events)
    assert isinstance(events[-1], StreamDone), events[-1]
    return events[-1].message


def failure(data: bytes) -> StreamFailed:
    events = play(decoder(), [data])
    check_stream_contract(events)
    assert isinstance(events[-1], StreamFailed), events[-1]
    return events[-1]


class Whole(Struct, kw_only=True):
    """What a recording says."""

    stop: StopReason
    text: str = ""
    thinking: tuple[tuple[str, str], ...] = ()
    calls: tuple[tuple[str, dict[str, object]], ...] = ()
    cut: bool = False
    usage: Usage = Usage(2095, 30)


WHOLE = {
    "text": Whole(
        stop="end_turn",
        text='Hello! The file has 3 lines.\n\n```py\nprint("hé")\n``` 你好 🙂',
        usage=Usage(2095, 27),
    ),
    "thinking_and_call": Whole(
        stop="tool_use",
        text="I'll look at it.",
        thinking=(
            (
                "I should read the file first.",
                "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYdsYd3Q==",
            ),
        ),
        calls=(("read", {"path": "src/main.py", "limit": 20}),),
        usage=Usage(12, 89, 1800),
    ),
    "parallel_calls": Whole(
        stop="tool_use",
        text="Reading all three.",
        calls=(("read", {"path": "a"}), ("read", {"path": "b"}), ("list_files", {})),
        usage=Usage(2095, 101),
    ),
    "redacted_thinking": Whole(stop="end_turn", text="Done.", usage=Usage(2095, 12)),
    "max_tokens_in_arguments": Whole(
        stop="max_tokens", calls=(("write", {}),), cut=True, usage=Usage(2095, 8192)
    ),
    "max_tokens_before_arguments": Whole(
        stop="max_tokens",
        text="Writing.",
        calls=(("write", {}),),
        cut=True,
        usage=Usage(2095, 8192),
    ),
    "lying_tool_use": Whole(
        stop="tool_use", calls=(("bash", {}),), cut=True, usage=Usage(2095, 20)
    ),
    "refusal": Whole(stop="refusal", text="I can't help with that.", usage=Usage(2095, 9)),
    "stop_sequence": Whole(stop="stop_sequence", text="One, two", usage=Usage(2095, 5)),
    "window_exceeded": Whole(stop="max_tokens", text="So far", usage=Usage(2095, 4000)),
    "empty_text_block": Whole(stop="end_turn", usage=Usage(2095, 2)),
    "unknown_things": Whole(stop="end_turn", text="Found.", usage=Usage(2095, 40)),
    "long": Whole(
        stop="end_turn",
        text="".join(f"word{i} " for i in range(300)),
        usage=Usage(2095, 600),
    ),
    "gateway_crlf": Whole(
        stop="tool_use",
        text="Hi there é",
        calls=(("read", {"path": "a"}),),
        usage=Usage(77, 9),
    ),
    "lone_surrogates": Whole(stop="end_turn", text="a\ufffd\ufffdb", usage=Usage(2095, 3)),
}
FAILED = {
    "refusal_silent": ("refused", False, ""),
    "error_event": ("overloaded", True, "The first half"),
    "error_at_once": ("http", True, ""),
    "cut_in_text": ("incomplete", True, "The first half"),
    "cut_after_stop_reason": ("incomplete", True, "All of it."),
    "cut_in_call": ("incomplete", True, "Let me."),
}


def test_every_recording_is_judged() -> None:
    assert set(RECORDINGS) == set(WHOLE) | set(FAILED)


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer(name: str) -> None:
    expected, message = WHOLE[name], answer(RECORDINGS[name])
    calls = message.tool_calls
    assert (
        Whole(
            stop=message.stop_reason,
            text=message.text,
            thinking=tuple(
                (b.thinking, b.signature) for b in message.content if isinstance(b, ThinkingBlock)
            ),
            calls=tuple((c.name, c.input) for c in calls),
            cut=any(c.input_error for c in calls),
            usage=message.usage,
        )
        == expected
    )


@pytest.mark.parametrize("name", FAILED)
def test_a_failed_answer(name: str) -> None:
    kind, retryable, text = FAILED[name]
    failed = failure(RECORDINGS[name])
    assert (failed.error.kind, failed.error.retryable) == (kind, retryable)
    assert (failed.partial.text if failed.partial else "") == text


def test_details() -> None:
    message = answer(RECORDINGS["thinking_and_call"])
    assert message.response_id == "msg_01QxR8vT2mN5kLp7wYzB3cD4"
    assert (message.api, message.provider, message.model) == (
        "anthropic-messages",
        "anthropic",
        "claude-x",
    )
    assert message.thinking_level == "high"
    assert message.tool_calls[0].id == "toolu_01T1x1fJ34qAmk2tNTrN7Up6"
    redacted = answer(RECORDINGS["redacted_thinking"]).content[0]
    assert isinstance(redacted, RedactedThinkingBlock)
    assert redacted.data.startswith("EmwKAhgB")
    refused = failure(RECORDINGS["refusal_silent"]).error
    assert "usage policy" in refused.message
    assert failure(RECORDINGS["error_event"]).error.request_id == "req_011CTEvErr"


@pytest.mark.parametrize("name", RECORDINGS)
@given(places=st.lists(st.integers(0, 100_000), max_size=40))
def test_any_cut_of_a_recording_gives_the_same_events(name: str, places: list[int]) -> None:
    data = RECORDINGS[name]
    whole = shown(play(decoder(), [data]))
    points = sorted({0, len(data), *(p % len(data) for p in places)})
    pieces = [data[a:b] for a, b in itertools.pairwise(points)]
    assert shown(play(decoder(), pieces)) == whole
    changed = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r")
    assert shown(play(decoder(), [b"\xef\xbb\xbf", changed])) == whole


@pytest.mark.parametrize("name", RECORDINGS)
def test_an_answer_cut_anywhere_is_never_taken_for_a_whole_one(name: str) -> None:
    data = RECORDINGS[name]
    whole_at = data.rfind(b"message_stop")
    step = max(1, len(data) // 150)
    for end in range(0, whole_at if whole_at > 0 else len(data), step):
        events = play(decoder(), [data[:end]])
        check_stream_contract(events)
        last = events[-1]
        assert isinstance(last, StreamFailed)
        assert last.error.kind in {"empty", "incomplete", "overloaded", "http"}


# ----------------------------------------------------------- truncated calls


def call_stream(arguments: str, stop: str) -> bytes:
    def event(kind: str, **fields: object) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()

    block = {"type": "tool_use", "id": "toolu_000000000000", "name": "bash", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    return b"".join(
        [
            event("message_start", message={"id": "m"}),
            event("content_block_start", index=0, content_block=block),
            event("content_block_delta", index=0, delta=delta),
            event("content_block_stop", index=0),
            event("message_delta", delta={"stop_reason": stop}),
            event("message_stop"),
        ]
    )


@pytest.mark.parametrize("stop", ["max_tokens", "tool_use", "end_turn"])
def test_arguments_cut_at_each_byte_never_make_a_usable_call(stop: str) -> None:
    whole = json.dumps({"command": 'echo "{}" ] } é', "n": [1, {"a": {}}]})
    for end in range(len(whole)):
        (call,) = answer(call_stream(whole[:end], stop)).tool_calls
        assert call.input == {}
        # Nothing at all is a call without arguments, unless the tokens ran out.
        assert bool(call.input_error) == (end > 0 or stop == "max_tokens"), whole[:end]
    (call,) = answer(call_stream(whole, stop)).tool_calls
    assert (call.input, call.input_error) == (json.loads(whole), "")


@pytest.mark.parametrize("arguments", ['["a"]', '"a"', "1", "null", '{"a": NaN}', "{} {}"])
def test_arguments_that_are_no_object_are_said_to_be_wrong(arguments: str) -> None:
    (call,) = answer(call_stream(arguments, "tool_use")).tool_calls
    assert call.input == {}
    assert call.input_error


# ------------------------------------------------------------- broken streams

START = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m"}}\n\n'


def block_event(kind: str, index: object, **fields: object) -> bytes:
    data = json.dumps({"type": kind, "index": index, **fields})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def begins(index: object = 0) -> bytes:
    return block_event("content_block_start", index, content_block={"type": "text", "text": ""})


def delta(index: object = 0, text: str = "x") -> bytes:
    return block_event("content_block_delta", index, delta={"type": "text_delta", "text": text})


def ends(index: object = 0) -> bytes:
    return block_event("content_block_stop", index)


STOPPED = (
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
)
LAST = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
BROKEN = {
    "second start": START + START,
    "delta before start": START + delta(),
    "block before message": begins(),
    "block twice": START + begins() + begins(),
    "block skipped": START + begins(1),
    "block again": START + begins() + delta() + ends() + begins(),
    "two open": START + begins() + begins(1),
    "delta of another block": START + begins() + delta(1),
    "delta after end": START + begins() + delta() + ends() + delta(),
    "end twice": START + begins() + delta() + ends() + ends(),
    "index missing": START
    + b'event: content_block_start\ndata: {"content_block":{"type":"text"}}\n\n',
    "index a text": START + begins("0"),
    "index null in a delta": START + begins() + delta(None),
    "delta of another kind": START
    + begins()
    + block_event("content_block_delta", 0, delta={"type": "thinking_delta", "thinking": "x"}),
    "call without name": START
    + block_event("content_block_start", 0, content_block={"type": "tool_use", "id": "a"}),
    "not closed": START + begins() + delta() + STOPPED,
    "no stop reason": START + begins() + delta() + ends() + LAST,
    "stop at once": LAST,
    "no json": START + b"event: content_block_delta\ndata: {nonsense\n\n",
    "no json, no name": START + b"data: nonsense\n\n",
    "deep": START + b"event: content_block_start\ndata: " + b"[" * 100_000 + b"\n\n",
    "unknown reason": START
    + begins()
    + delta()
    + ends()
    + STOPPED.replace(b"end_turn", b"sunset")
    + LAST,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_stream_that_breaks_the_format_is_a_typed_failure(name: str) -> None:
    failed = failure(BROKEN[name])
    assert failed.error.kind == "protocol"
    assert (failed.partial is not None) == (b"text_delta" in BROKEN[name] and "x" in _said(name))


def _said(name: str) -> str:
    return "".join(e.text for e in play(decoder(), [BROKEN[name]]) if isinstance(e, TextDelta))


def test_errors_of_servers_keep_their_kind() -> None:
    def error(kind: str, message: str) -> tuple[str, bool]:
        data = json.dumps({"type": "error", "error": {"type": kind, "message": message}})
        failed = failure(START + f"event: error\ndata: {data}\n\n".encode()).error
        assert message in failed.message
        return failed.kind, failed.retryable

    assert error("overloaded_error", "Overloaded") == ("overloaded", True)
    assert error("rate_limit_error", "Slow down") == ("rate_limit", True)
    assert error("api_error", "Oops") == ("http", True)
    assert error("invalid_request_error", "bad field") == ("invalid_request", False)
    assert error("authentication_error", "who?") == ("authentication", False)
    assert error("invalid_request_error", "prompt is too long: 9 > 8") == (
        "context_overflow",
        False,
    )


def test_a_call_whose_id_was_used_before_gets_another() -> None:
    earlier = answer(RECORDINGS["gateway_crlf"])
    assert earlier.tool_calls[0].id == "1"
    again = answer(RECORDINGS["gateway_crlf"], earlier)
    assert again.tool_calls[0].id != "1"
    assert again.tool_calls[0].input == {"path": "a"}


def test_two_calls_of_one_id_stay_two() -> None:
    data = RECORDINGS["parallel_calls"].replace(b"01BBBB", b"01AAAA").replace(b"BBBB", b"AAAA")
    ids = [c.id for c in answer(data).tool_calls]
    assert len(set(ids)) == 3


def test_a_call_without_arguments_ends_before_the_next_block_begins() -> None:
    data = RECORDINGS["max_tokens_before_arguments"]
    head, _, tail = data.partition(b"event: message_delta")
    more = begins(2) + delta(2, "then") + ends(2)
    events = play(decoder(), [head + more + b"event: message_delta" + tail])
    check_stream_contract(events)
    finished = [e.block for e in events if isinstance(e, BlockEnd)]
    assert isinstance(finished[1], ToolUseBlock)
    assert finished[1].input_error == ""


def _junk() -> Iterator[bytes]:
    yield from (b"event: ping\ndata: {}\n\n", b": x\n\n", b"event: new\ndata: [\n\n")


def test_pings_comments_and_unknown_events_change_nothing() -> None:
    data = RECORDINGS["text"]
    for junk in _junk():
        noisy = data.replace(b"\n\n", b"\n\n" + junk)
        assert shown(play(decoder(), [noisy])) == shown(play(decoder(), [data]))
