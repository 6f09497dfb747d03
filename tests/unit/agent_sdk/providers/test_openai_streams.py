"""Recorded answers of both OpenAI wire APIs, played through their decoders."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import StreamDone, StreamEvent, StreamFailed
from agent_sdk.providers.messages import StopReason, ThinkingBlock
from agent_sdk.providers.models import Api
from agent_sdk.testing.conformance import check_stream_contract
from tests.support.openai_streams import CHAT, RESPONSES, answer, decoder, failure
from tests.support.streams import play, recorded, shown

RECORDINGS = {
    **{(CHAT, name): data for name, data in recorded("openai_chat").items()},
    **{(RESPONSES, name): data for name, data in recorded("openai_responses").items()},
}


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
