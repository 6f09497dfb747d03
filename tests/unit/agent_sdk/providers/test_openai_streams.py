"""Recorded answers of both OpenAI wire APIs, played through their decoders."""

import itertools
import json
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    Decoder,
    ModelRequest,
    StreamDone,
    StreamEvent,
    StreamFailed,
    TextDelta,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.providers.models import Api, Model
from agent_sdk.providers.openai_chat import OpenAIChatAdapter
from agent_sdk.providers.openai_responses import OpenAIResponsesAdapter
from agent_sdk.testing.conformance import check_stream_contract
from tests.support.streams import play, recorded, shown

CHAT: Api = "openai-completions"
RESPONSES: Api = "openai-responses"
RECORDINGS = {
    **{(CHAT, name): data for name, data in recorded("openai_chat").items()},
    **{(RESPONSES, name): data for name, data in recorded("openai_responses").items()},
}


def request(api: Api, *earlier: AssistantMessage) -> ModelRequest:
    model = Model(id="m", provider="p", api=api)
    messages: list[Message] = [UserMessage(content=(TextBlock("hi"),)), *earlier]
    return ModelRequest(model=model, messages=messages, thinking_level="high")


def decoder(api: Api, *earlier: AssistantMessage) -> Decoder:
    adapter = OpenAIChatAdapter() if api == CHAT else OpenAIResponsesAdapter()
    return adapter.decoder(request(api, *earlier))


def answer(api: Api, data: bytes, *earlier: AssistantMessage) -> AssistantMessage:
    events = play(decoder(api, *earlier), [data])
    check_stream_contract(events)
    assert isinstance(events[-1], StreamDone), events[-1]
    return events[-1].message


def failure(api: Api, data: bytes) -> StreamFailed:
    events = play(decoder(api), [data])
    check_stream_contract(events)
    assert isinstance(events[-1], StreamFailed), events[-1]
    return events[-1]


class Whole(Struct, kw_only=True):
    """What a recording says."""

    stop: StopReason
    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, dict[str, object]], ...] = ()
    usage: Usage = Usage()
    cut: bool = False


EXPECTED = {
    (CHAT, "openai_text"): Whole(
        stop="end_turn",
        text="The project builds a parser — «fast».\n\n- one\n- two",
        usage=Usage(288, 24, 1024),
    ),
    (CHAT, "openai_interleaved_tools"): Whole(
        stop="tool_use",
        calls=(("read", {"path": "src/main.py"}), ("bash", {"command": "git status"})),
        usage=Usage(900, 44),
    ),
    (CHAT, "openai_length_in_arguments"): Whole(
        stop="max_tokens",
        text="Writing it.",
        calls=(("write", {}),),
        cut=True,
        usage=Usage(60, 4096),
    ),
    (CHAT, "openai_refusal"): Whole(stop="refusal", text="I can't help with that."),
    (CHAT, "deepseek_reasoning"): Whole(
        stop="tool_use",
        text="我先看一下。",
        thinking="用户想读 README。I should call read.",
        calls=(("read", {"path": "README.md"}),),
        usage=Usage(34, 87, 2176),
    ),
    (CHAT, "ollama_whole_calls"): Whole(
        stop="tool_use",
        thinking="Two files. Read both.",
        calls=(("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})),
        usage=Usage(171, 66),
    ),
    (CHAT, "no_index_whole_calls"): Whole(
        stop="tool_use",
        calls=(("read", {"path": "a"}), ("list", {"path": ".", "depth": 2})),
        usage=Usage(10, 7),
    ),
    (CHAT, "openrouter_comments"): Whole(
        stop="end_turn",
        text="It works 👍🏽\u2028next\u0085line",
        thinking="Let me think.",
        usage=Usage(44, 31, 100, 50),
    ),
    (CHAT, "vllm_empty_names"): Whole(
        stop="tool_use",
        text="\n\n",
        thinking="I need the weather",
        calls=(("bash", {"command": "ls -la"}),),
        usage=Usage(33, 29),
    ),
    (CHAT, "llamacpp_crlf"): Whole(stop="end_turn", text="Hi there", usage=Usage(12, 3)),
    (CHAT, "mistral_parts"): Whole(
        stop="end_turn", text="Yes.", thinking="Weighing it.", usage=Usage(5, 9)
    ),
    (CHAT, "torn_surrogates"): Whole(stop="end_turn", text="ok 🚀 goend \ufffd"),
    (CHAT, "usage_in_choice"): Whole(stop="end_turn", text="月", usage=Usage(9, 2, 10)),
    (RESPONSES, "reasoning_and_calls"): Whole(
        stop="tool_use",
        text="I'll read “README.md”.",
        thinking="**Reading the file**\n\nI will read it.\n\n**Then** edit.",
        calls=(("read", {"path": "README.md"}), ("list", {})),
        usage=Usage(1024, 200, 3072),
    ),
    (RESPONSES, "final_answer"): Whole(
        stop="end_turn", text="Done: ✓ 3 tests pass.\u2028", usage=Usage(100, 12)
    ),
    (RESPONSES, "incomplete_call"): Whole(
        stop="max_tokens",
        text="Writing.",
        calls=(("write", {}),),
        cut=True,
        usage=Usage(10, 64),
    ),
    (RESPONSES, "call_never_done"): Whole(
        stop="tool_use", calls=(("write", {}),), cut=True, usage=Usage(10, 6)
    ),
    (RESPONSES, "refusal"): Whole(stop="refusal", text="I can't do that.", usage=Usage(9, 8)),
    (RESPONSES, "local_server"): Whole(
        stop="tool_use",
        thinking="The user wants a file.",
        calls=(("read", {"path": "x"}),),
        usage=Usage(33, 21),
    ),
    (RESPONSES, "server_side_tool"): Whole(stop="end_turn", text="Found it.", usage=Usage(50, 5)),
    (RESPONSES, "only_completed"): Whole(stop="end_turn", text="all at once", usage=Usage(1, 2)),
}
FAILED = {
    (CHAT, "openrouter_error_in_stream"): ("overloaded", "http", "Half of an answer"),
    (RESPONSES, "failed"): ("http", "overloaded", "Half"),
    (RESPONSES, "error_event"): ("rate_limit", "rate_limit", ""),
}


def test_every_recording_is_expected_to_say_something() -> None:
    assert set(EXPECTED) | set(FAILED) == set(RECORDINGS)


@pytest.mark.parametrize(("api", "name"), sorted(EXPECTED))
def test_recorded_answers_are_understood(api: Api, name: str) -> None:
    message = answer(api, RECORDINGS[api, name])
    thoughts = [b.thinking for b in message.content if isinstance(b, ThinkingBlock)]
    said = Whole(
        stop=message.stop_reason,
        text=message.text,
        thinking="".join(thoughts),
        calls=tuple((c.name, c.input) for c in message.tool_calls),
        usage=message.usage,
        cut=any(c.input_error for c in message.tool_calls),
    )
    assert said == EXPECTED[api, name]
    assert message.thinking_level == "high"
    assert message.response_id


@pytest.mark.parametrize(("api", "name"), sorted(FAILED))
def test_recorded_failures_are_failures(api: Api, name: str) -> None:
    failed = failure(api, RECORDINGS[api, name])
    *kinds, text = FAILED[api, name]
    assert failed.error.kind in kinds
    assert failed.error.retryable
    assert (failed.partial.text if failed.partial else "") == text


@st.composite
def cuts(draw: st.DrawFn) -> tuple[tuple[Api, str], list[int]]:
    which = draw(st.sampled_from(sorted(RECORDINGS)))
    length = len(RECORDINGS[which])
    places = draw(st.lists(st.integers(0, length), max_size=40))
    return which, sorted(places)


@given(cuts())
def test_any_chunking_gives_the_same_events(what: tuple[tuple[Api, str], list[int]]) -> None:
    (api, name), places = what
    data = RECORDINGS[api, name]
    bounds = itertools.pairwise([0, *places, len(data)])
    chunked = play(decoder(api), [data[a:b] for a, b in bounds])
    check_stream_contract(chunked)
    assert shown(chunked) == shown(play(decoder(api), [data]))


@pytest.mark.parametrize(("api", "name"), sorted(RECORDINGS))
def test_byte_by_byte_gives_the_same_events(api: Api, name: str) -> None:
    data = RECORDINGS[api, name]
    alone = play(decoder(api), (data[at : at + 1] for at in range(len(data))))
    assert shown(alone) == shown(play(decoder(api), [data]))


def _events(data: bytes) -> list[bytes]:
    unix = data.replace(b"\r\n", b"\n")
    return [e + b"\n\n" for e in unix.split(b"\n\n") if e]


@pytest.mark.parametrize(("api", "name"), sorted(EXPECTED))
def test_a_stream_that_ends_before_its_last_event_is_no_success(api: Api, name: str) -> None:
    parts = _events(RECORDINGS[api, name])
    whole = play(decoder(api), parts)
    for end in range(len(parts)):
        events = play(decoder(api), parts[:end])
        check_stream_contract(events)
        last = events[-1]
        if isinstance(last, StreamDone):
            # Chat Completions says that an answer is whole before the stream ends.
            last_words = b'"finish_reason":"' if api == CHAT else b'"type":"response.completed"'
            assert any(last_words in p for p in parts[:end])
            assert last.message.content == _content(whole[-1])
        else:
            assert isinstance(last, StreamFailed)
            nothing = all(p.startswith(b":") for p in parts[:end])
            assert last.error.kind == ("empty" if nothing else "incomplete")
            assert last.error.retryable


def _content(event: StreamEvent) -> object:
    assert isinstance(event, StreamDone)
    return event.message.content


# ------------------------------------------------------ details of the dialects


def chunk(delta: dict[str, object], finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c", "model": "x", "choices": [choice], **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def call(index: int | None, call_id: str, name: str, arguments: object) -> dict[str, object]:
    made: dict[str, object] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        made["index"] = index
    if call_id:
        made["id"] = call_id
    return {"tool_calls": [made]}


def joined(parts: Iterable[bytes]) -> bytes:
    return b"".join(parts) + b"data: [DONE]\n\n"


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
    message = answer(RESPONSES, RECORDINGS[RESPONSES, "reasoning_and_calls"])
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
    thought = answer(RESPONSES, RECORDINGS[RESPONSES, "final_answer"]).content[0]
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
    events = play(decoder(CHAT), [RECORDINGS[CHAT, "openai_text"]])
    kinds = [type(e) for e in events]
    assert kinds.count(TextDelta) == 9
    assert kinds.count(BlockStart) == 1
    assert not any(isinstance(e, ArgsDelta) for e in events)
