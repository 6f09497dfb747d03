"""Details of the dialects in which servers speak the two OpenAI APIs."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    ModelRequest,
    StreamDone,
    StreamEvent,
    StreamFailed,
    TextDelta,
)
from agent_sdk.providers.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolUseBlock
from agent_sdk.providers.models import Api, Model
from agent_sdk.providers.openai_chat import OpenAIChatAdapter
from agent_sdk.testing.conformance import check_stream_contract
from tests.support.openai_streams import (
    CHAT,
    RESPONSES,
    answer,
    call,
    chunk,
    decoder,
    failure,
    joined,
)
from tests.support.streams import play, recorded

RECORDED = {CHAT: recorded("openai_chat"), RESPONSES: recorded("openai_responses")}


def test_reasoning_fields_are_tried_in_order() -> None:
    both: dict[str, object] = {"reasoning_content": "a", "reasoning": "b", "reasoning_text": "c"}
    message = answer(
        CHAT,
        joined([chunk(both), chunk({"reasoning_text": "!"}), chunk({"content": "x"}, "stop")]),
    )
    assert message.content == (
        ThinkingBlock("a!", providerState={"field": "reasoning_content"}),
        TextBlock("x"),
    )


def test_text_and_reasoning_in_turn_are_blocks_in_turn() -> None:
    message = answer(
        CHAT,
        joined(
            [
                chunk({"content": "a"}),
                chunk({"reasoning": "b"}),
                chunk({"content": "c"}, "stop"),
            ]
        ),
    )
    kinds = [type(b).__name__ for b in message.content]
    assert kinds == ["TextBlock", "ThinkingBlock", "TextBlock"]


def test_text_after_calls_keeps_the_order_of_ends() -> None:
    events = play(
        decoder(CHAT),
        [
            joined(
                [
                    chunk(call(0, "call_0000000001", "a", '{"x":')),
                    chunk({"content": "meanwhile"}),
                    chunk(call(0, "", "", "1}")),
                    chunk({}, "tool_calls"),
                ]
            )
        ],
    )
    check_stream_contract(events)
    assert [e.index for e in events if isinstance(e, BlockEnd)] == [0, 1]


def test_a_whole_call_ends_when_the_next_begins() -> None:
    first = chunk(call(0, "call_0000000001", "a", '{"x":1}'))
    second = chunk(call(1, "call_0000000002", "b", ""))
    events: list[StreamEvent] = []
    played = decoder(CHAT)
    for data in (first, second):
        events += played.feed(b"", data[6:-2])
    kinds = [type(e).__name__ for e in events]
    assert kinds == ["StreamStart", "BlockStart", "ArgsDelta", "BlockEnd", "BlockStart"]


def test_arguments_after_the_end_of_their_call_are_an_error() -> None:
    failed = failure(
        CHAT,
        joined(
            [
                chunk(call(0, "call_0000000001", "a", '{"x":1}')),
                chunk(call(1, "call_0000000002", "b", "{}")),
                chunk(call(0, "", "", '{"y":2}')),
                chunk({}, "tool_calls"),
            ]
        ),
    )
    assert failed.error.kind == "protocol"


def test_two_calls_under_one_index_are_told_apart_by_id() -> None:
    message = answer(
        CHAT,
        joined(
            [
                chunk(call(0, "call_000000000a", "read", '{"p":1}')),
                chunk(call(0, "call_000000000b", "read", '{"p":2}')),
                chunk({}, "tool_calls"),
            ]
        ),
    )
    assert [c.input for c in message.tool_calls] == [{"p": 1}, {"p": 2}]


def test_a_name_may_come_after_arguments() -> None:
    message = answer(
        CHAT,
        joined(
            [
                chunk(call(0, "call_0000000001", "", '{"a"')),
                chunk(call(0, "", "late", ":1}")),
                chunk({}, "tool_calls"),
            ]
        ),
    )
    assert [(c.name, c.input) for c in message.tool_calls] == [("late", {"a": 1})]


def test_a_call_that_never_gets_a_name_is_an_error_unless_cut() -> None:
    nameless = chunk(call(0, "call_0000000001", "", "{}"))
    assert failure(CHAT, joined([nameless, chunk({}, "tool_calls")])).error.kind == "protocol"
    message = answer(CHAT, joined([nameless, chunk({}, "length")]))
    assert (message.stop_reason, message.content) == ("max_tokens", ())


def test_ids_that_were_used_before_are_made_new() -> None:
    old = AssistantMessage(
        content=(ToolUseBlock("call_0", "a"),),
        api=CHAT,
        provider="p",
        model="m",
        stop_reason="tool_use",
    )
    data = joined([chunk(call(0, "call_0", "a", "{}")), chunk({}, "tool_calls")])
    assert answer(CHAT, data).tool_calls[0].id == "call_0"
    again = answer(CHAT, data, old).tool_calls[0].id
    assert again != "call_0"
    assert again == answer(CHAT, data, old).tool_calls[0].id


@pytest.mark.parametrize("text", ["[1]", '"text"', "null", "{", '{"a":1}}', "{'a':1}", '{"a":NaN}'])
def test_arguments_that_are_no_object_make_the_call_unusable(text: str) -> None:
    data = joined([chunk(call(0, "call_0000000001", "a", text)), chunk({}, "tool_calls")])
    made = answer(CHAT, data).tool_calls[0]
    assert made.input == {}
    assert made.input_error


def test_no_arguments_at_all_are_an_empty_object() -> None:
    data = joined([chunk(call(0, "call_0000000001", "a", "")), chunk({}, "tool_calls")])
    assert answer(CHAT, data).tool_calls == (ToolUseBlock("call_0000000001", "a"),)


def _cut_arguments(finish: str) -> Iterator[tuple[str, ToolUseBlock]]:
    whole = json.dumps({"path": "a\u00fcb", "content": 'x{"y":"z"}', "n": [1, {"a": 12}]})
    for end in range(len(whole)):
        text = whole[:end]
        data = joined([chunk(call(0, "call_0000000001", "w", text)), chunk({}, finish)])
        yield text, answer(CHAT, data).tool_calls[0]


@pytest.mark.parametrize("finish", ["length", "tool_calls", "stop"])
def test_arguments_cut_at_any_byte_never_run(finish: str) -> None:
    for text, made in _cut_arguments(finish):
        assert made.input == {}
        # With nothing at all, a server that says it is done means no arguments.
        assert made.input_error or (text == "" and finish != "length"), text


@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_responses_arguments_cut_at_any_byte_never_run(status: str) -> None:
    whole = '{"path":"a","content":"x{}"}'
    for end in range(1, len(whole)):
        item = {"type": "function_call", "id": "fc", "call_id": "call_000000000001", "name": "w"}
        done = {**item, "arguments": whole[:end], "status": status}
        response = {"id": "r", "status": status, "output": [done]}
        data = [
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": done},
            {"type": f"response.{status}", "response": response},
        ]
        made = answer(
            RESPONSES, b"".join(b"data: " + json.dumps(d).encode() + b"\n\n" for d in data)
        )
        assert made.tool_calls[0].input == {}
        assert made.tool_calls[0].input_error
        assert made.stop_reason == ("max_tokens" if status == "incomplete" else "tool_use")


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal")],
)
def test_finish_reasons(finish: str, stop: str) -> None:
    assert answer(CHAT, joined([chunk({"content": "a"}), chunk({}, finish)])).stop_reason == stop


def test_an_unknown_finish_reason_is_a_failure() -> None:
    failed = failure(CHAT, joined([chunk({"content": "a"}), chunk({}, "network_error")]))
    assert "network_error" in failed.error.message
    assert failed.partial is not None


def test_a_200_with_no_content_is_empty() -> None:
    failed = failure(CHAT, joined([chunk({"role": "assistant", "content": ""}), chunk({}, "stop")]))
    assert (failed.error.kind, failed.error.retryable) == ("empty", True)
    assert failure(CHAT, b"").error.kind == "empty"
    assert failure(RESPONSES, b": ping\n\n").error.kind == "empty"
    bare = b'data: {"type":"response.completed","response":{"id":"r","status":"completed"}}\n\n'
    assert failure(RESPONSES, bare).error.kind == "empty"


def test_done_alone_is_no_success() -> None:
    assert failure(CHAT, joined([chunk({"content": "a"})])).error.kind == "incomplete"
    assert failure(CHAT, joined([])).error.kind == "empty"


def test_a_server_may_be_known_to_send_no_finish_reason() -> None:
    model = Model(id="m", provider="p", api=CHAT, compat={"finish_reason": False})
    adapter = OpenAIChatAdapter()
    asked = ModelRequest(model=model, messages=())
    events = play(adapter.decoder(asked), [joined([chunk({"content": "a"})])])
    check_stream_contract(events)
    assert isinstance(events[-1], StreamDone)
    cut = play(adapter.decoder(asked), [chunk({"content": "a"})])
    assert isinstance(cut[-1], StreamFailed)


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"nonsense",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"choices":{"a":1},"response":1,"type":5}',
    ],
)
def test_broken_events_are_protocol_failures(api: Api, data: bytes) -> None:
    failed = failure(api, b"data: " + data + b"\n\n")
    assert failed.error.kind == "protocol"


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
@given(data=st.binary(max_size=200))
def test_a_decoder_never_raises(api: Api, data: bytes) -> None:
    one = decoder(api)
    events = list(one.feed(b"", data))
    if not events or not isinstance(events[-1], StreamDone | StreamFailed):
        events.append(one.finish())
    check_stream_contract(events)


_NAMES = """choices delta content tool_calls function name arguments id index finish_reason usage
    error type item response output output_index item_id status summary call_id object"""
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(_NAMES.split()),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_TYPES = st.sampled_from(
    [
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.reasoning_summary_text.delta",
        "response.completed",
        "response.incomplete",
        "message",
        "function_call",
        "reasoning",
    ]
)


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
@given(
    bodies=st.lists(
        st.dictionaries(st.just("type"), _TYPES).flatmap(
            lambda base: st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "item",
                        "response",
                        "output_index",
                        "item_id",
                        "arguments",
                        "error",
                        "usage",
                        "id",
                    ]
                ),
                _JSON,
                max_size=5,
            ).map(lambda more: {**more, **base})
        ),
        max_size=6,
    )
)
def test_a_decoder_never_raises_for_json_either(api: Api, bodies: list[dict[str, object]]) -> None:
    data = b"".join(b"data: " + json.dumps(b).encode() + b"\n\n" for b in bodies)
    check_stream_contract(play(decoder(api), [data]))


# ------------------------------------------------------------------ Responses


def test_ids_phase_and_encrypted_reasoning_are_kept() -> None:
    message = answer(RESPONSES, RECORDED[RESPONSES]["reasoning_and_calls"])
    thought, said, read, _ = message.content
    assert isinstance(thought, ThinkingBlock)
    assert isinstance(said, TextBlock)
    assert isinstance(read, ToolUseBlock)
    assert thought.providerState is not None
    assert thought.providerState["encrypted_content"] == "gAAAAABpEncrypted0123456789=="
    assert said.providerState == {"id": "msg_0a1b2c3d4e5f", "phase": "commentary"}
    assert read.id == "call_QwErTyUiOpAsDfGhJkLzXcVb"
    assert read.providerState == {"id": "fc_0a1b2c3d4e5f"}


def test_reasoning_without_a_summary_is_kept_for_sending_back() -> None:
    thought = answer(RESPONSES, RECORDED[RESPONSES]["final_answer"]).content[0]
    assert isinstance(thought, ThinkingBlock)
    assert thought.thinking == ""
    assert thought.providerState is not None
    assert thought.providerState["id"] == "rs_final1"


def test_pieces_and_whole_that_differ_make_the_call_unusable() -> None:
    item = {"type": "function_call", "id": "fc", "call_id": "call_000000000001", "name": "rm"}
    data = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"a":1}'},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, "arguments": '{"a":2}'},
        },
        {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
    ]
    body = b"".join(b"data: " + json.dumps(d).encode() + b"\n\n" for d in data)
    made = answer(RESPONSES, body).tool_calls[0]
    assert (made.input, bool(made.input_error)) == ({}, True)


def test_deltas_before_their_item_is_announced_begin_it() -> None:
    data = [
        {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "a"},
        {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "b"},
        {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
    ]
    body = b"".join(b"data: " + json.dumps(d).encode() + b"\n\n" for d in data)
    assert answer(RESPONSES, body).text == "ab"


def test_interleaved_calls_are_told_apart_by_id_alone() -> None:
    def item(at: int) -> dict[str, object]:
        call_id = f"call_00000000000{at}"
        return {"type": "function_call", "id": f"fc{at}", "call_id": call_id, "name": "n"}

    kind = "response.function_call_arguments.delta"
    data: list[dict[str, object]] = [
        {"type": "response.output_item.added", "item": item(1)},
        {"type": "response.output_item.added", "item": item(2)},
        {"type": kind, "item_id": "fc1", "delta": '{"a"'},
        {"type": kind, "item_id": "fc2", "delta": '{"b"'},
        {"type": kind, "item_id": "fc1", "delta": ":1}"},
        {"type": kind, "item_id": "fc2", "delta": ":2}"},
        {"type": "response.output_item.done", "item": item(2)},
        {"type": "response.output_item.done", "item": item(1)},
        {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
    ]
    body = b"".join(b"data: " + json.dumps(d).encode() + b"\n\n" for d in data)
    assert [c.input for c in answer(RESPONSES, body).tool_calls] == [{"a": 1}, {"b": 2}]


def test_events_are_plain_deltas_in_the_common_case() -> None:
    events = play(decoder(CHAT), [RECORDED[CHAT]["openai_text"]])
    kinds = [type(e) for e in events]
    assert kinds.count(TextDelta) == 9
    assert kinds.count(BlockStart) == 1
    assert not any(isinstance(e, ArgsDelta) for e in events)
