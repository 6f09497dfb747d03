from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.providers.convert import NO_RESULT
from agent_sdk.providers.history import History, Segment, segments
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)


def user(*content: Block | str) -> UserMessage:
    return UserMessage(content=tuple(TextBlock(c) if isinstance(c, str) else c for c in content))


def answer(*content: Block | str, stop: StopReason = "end_turn") -> AssistantMessage:
    blocks = tuple(TextBlock(c) if isinstance(c, str) else c for c in content)
    return AssistantMessage(content=blocks, api="a", provider="p", model="m", stop_reason=stop)


def call(call_id: str) -> ToolUseBlock:
    return ToolUseBlock(call_id, "read")


def result(call_id: str, text: str = "ok") -> ToolResultBlock:
    return ToolResultBlock(call_id, text)


def test_consecutive_user_messages_are_joined() -> None:
    found = list(segments([user("a"), user("b"), answer("c"), user("d"), user("e")]))
    assert [[b.text for b in s.content if isinstance(b, TextBlock)] for s in found] == [
        ["a", "b"],
        ["d", "e"],
    ]


def test_results_follow_their_calls_in_the_order_of_the_calls() -> None:
    said = answer(call("1"), call("2"))
    (found,) = segments([said, user(result("2")), user("meanwhile"), user(result("1"))])
    assert [r.tool_use_id for r in found.results] == ["1", "2"]
    assert found.content == (TextBlock("meanwhile"),)


def test_a_call_without_a_result_gets_an_error_result() -> None:
    said = answer(call("1"), call("2"))
    first, second = segments([said, user(result("2")), answer("next")])
    assert first.results == (ToolResultBlock("1", NO_RESULT, is_error=True), result("2"))
    assert second.results == ()


def test_of_two_results_for_a_call_the_first_counts() -> None:
    (found,) = segments([answer(call("1")), user(result("1", "one")), user(result("1", "two"))])
    assert found.results == (result("1", "one"),)


def test_a_result_whose_call_is_gone_is_kept_as_text() -> None:
    (found,) = segments([user(result("9", "content")), user("go on")])
    texts = [b.text for b in found.content if isinstance(b, TextBlock)]
    assert "content" in texts[0]
    assert texts[1] == "go on"


def test_an_answer_that_says_nothing_is_left_out() -> None:
    silent = answer(ThinkingBlock("hm"), TextBlock("  "), stop="aborted")
    (found,) = segments([user("a"), silent, user("b")])
    assert found.answer is None
    assert found.content == (TextBlock("a"), TextBlock("b"))


def encoder(seen: list[Segment]) -> History:
    def encode(segment: Segment) -> Sequence[bytes]:
        seen.append(segment)
        return [repr(segment).encode()]

    return History(encode)


def fresh(messages: list[Message]) -> list[bytes]:
    return encoder([]).pieces(messages)


def test_each_segment_is_encoded_once_while_the_conversation_grows() -> None:
    seen: list[Segment] = []
    history = encoder(seen)
    messages: list[Message] = [user("go")]
    for turn in range(20):
        assert history.pieces(messages) == fresh(messages)
        messages += [answer(call(f"{turn}")), user(result(f"{turn}"))]
    history.pieces(messages)
    assert len(seen) == 21


def test_a_changed_beginning_is_encoded_again() -> None:
    seen: list[Segment] = []
    history = encoder(seen)
    old: list[Message] = [user("a"), answer("b"), user("c")]
    history.pieces(old)
    new: list[Message] = [user("summary"), *old[1:]]
    assert history.pieces(new) == fresh(new)
    assert len(seen) == 4


_POOL: list[Message] = [
    user("a"),
    user("b"),
    answer("c"),
    answer(call("1"), call("2")),
    user(result("1")),
    user(result("2")),
    answer(ThinkingBlock("x")),
]


@given(st.lists(st.lists(st.sampled_from(_POOL), max_size=8), max_size=6))
def test_what_is_kept_never_shows(conversations: list[list[Message]]) -> None:
    history = encoder([])
    for messages in conversations:
        assert history.pieces(messages) == fresh(messages)


@given(st.lists(st.sampled_from(_POOL), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_what_is_kept_never_shows_after_cutting(
    messages: list[Message], first: int, second: int
) -> None:
    history = encoder([])
    for part in (messages, messages[:first], messages[:second], messages):
        assert history.pieces(part) == fresh(part)
