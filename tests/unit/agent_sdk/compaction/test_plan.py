"""What is summarised, what stays: chosen cases and properties."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agent_sdk.compaction.messages import compacted
from agent_sdk.compaction.plan import (
    CompactionPlan,
    due,
    is_query,
    parting_cuts,
    plan_compaction,
    shortened,
)
from agent_sdk.compaction.rewrite import CLEARED, Parts, summary_message, summary_text
from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.core.usage import Usage
from agent_sdk.loop.types import CompactionReason
from agent_sdk.providers.messages import Message, ToolResultBlock
from tests.support.talks import (
    SMALL,
    ask,
    conversation,
    got,
    say,
    talks,
    turns,
    unpaired,
    words,
)

DEFAULT = CompactionSettings()


def planned(
    messages: list[Message],
    reason: CompactionReason = "manual",
    settings: CompactionSettings = DEFAULT,
    **more: Any,
) -> CompactionPlan | None:
    talk = conversation(messages, **more)
    return plan_compaction(talk, model=SMALL, settings=settings, reason=reason).plan


def plan_for(messages: list[Message], *args: Any, **more: Any) -> CompactionPlan:
    plan = planned(messages, *args, **more)
    assert plan is not None
    return plan


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [m.text for m in messages if m.text]


SIX = turns(*"abcdef", size=150)


def test_the_four_newest_queries_stay_and_two_of_them_keep_their_results() -> None:
    plan = plan_for(SIX)
    assert (plan.fold_from, plan.cut, plan.keep_from_uuid) == (0, 8, "u8")
    assert (plan.clear_before, plan.clear_before_uuid) == (16, "u16")
    after = compacted(SIX, plan, summary="sum")
    results = [b.content for m in after for b in m.content if isinstance(b, ToolResultBlock)]
    assert results == [CLEARED, CLEARED, words(150, "r4"), words(150, "r5")]
    assert texts(after) == [
        "sum", "c", "answer to c", "d", "answer to d", "e", "answer to e", "f", "answer to f",
    ]  # fmt: skip


def test_a_query_that_waits_for_its_answer_takes_a_slot() -> None:
    messages = [*SIX, ask("g")]
    plan = plan_for(messages)
    assert messages[plan.cut] == ask("d")
    assert messages[plan.clear_before] == ask("f")


@pytest.mark.parametrize("keep", [4, 5, 100])
def test_as_many_as_stay_switches_the_clearing_off(keep: int) -> None:
    plan = plan_for(SIX, settings=CompactionSettings(tool_protected_queries=keep))
    assert (plan.clear_before, plan.clear_before_uuid) == (0, None)


def test_no_results_need_be_kept() -> None:
    plan = plan_for(SIX, settings=CompactionSettings(tool_protected_queries=0))
    assert plan.clear_before == len(SIX) - 1


def test_what_a_run_has_just_read_is_never_cleared() -> None:
    messages = [*SIX, ask("g"), say("", "x"), got("x", words(100))]
    settings = CompactionSettings(tool_protected_queries=0)
    plan = plan_for(messages, "queries", settings=structs.replace(settings, max_session_queries=8))
    assert plan.clear_before <= len(SIX)


def test_fewer_queries_than_are_protected_leave_nothing_to_fold() -> None:
    assert planned(turns("a", "b", size=10)) is None
    assert planned([]) is None


def test_results_alone_may_be_cleared_without_a_summary() -> None:
    plan = plan_for(turns("a", "b", "c", "d", size=500))
    assert not plan.folds
    assert plan.clear_before == 8


def test_a_run_that_is_too_long_is_split_and_its_query_quoted() -> None:
    messages: list[Message] = [ask("the long task")]
    for i in range(12):
        messages += [say("", f"c{i}"), got(f"c{i}", words(250))]
    plan = plan_for(messages, "threshold")
    assert plan.queries == ("the long task",)
    assert 1 < plan.cut < len(messages)
    assert plan.tokens_kept <= 2_000
    assert not unpaired(list(compacted(messages, plan, summary="sum")))


def test_last_results_that_have_no_room_are_summarised_with_their_calls() -> None:
    messages: list[Message] = [ask("look"), say("", "a", "b")]
    messages += [got("a", words(3_000)), got("b", words(3_000))]
    plan = plan_for(messages, "threshold")
    assert plan.cut == len(messages)
    assert plan.keep_from_uuid is None
    assert plan.queries == ("look",)


def test_a_query_that_waits_stays_itself_however_long_it_is() -> None:
    messages = [*SIX, ask(words(5_000))]
    plan = plan_for(messages, "threshold")
    assert plan.cut <= len(SIX)


def test_a_quoted_query_that_is_too_long_loses_its_middle() -> None:
    messages: list[Message] = [ask(words(4_000)), say("", "a"), got("a", words(2_500))]
    plan = plan_for(messages, "threshold")
    [query] = plan.queries
    assert "characters left out" in query
    assert len(query) < 6_000


def test_the_next_compaction_goes_on_from_the_summary() -> None:
    before = summary_message(summary_text(Parts("old facts", ("q1", "q2", "q3", "q4"))))
    messages: list[Message] = [before, say("", "x"), got("x", words(900)), *SIX[:8]]
    messages += [ask("z"), say("", "y"), got("y", words(2_500))]
    plan = plan_for(messages, "threshold", fresh_from=3)
    assert (plan.fold_from, plan.previous) == (1, "old facts")
    assert plan.cut > 3
    kept = [m.text for m in messages[plan.cut :]]
    protected = ["q4", "a", "b", "z"]
    assert [*plan.queries, *(q for q in protected if q in kept)] == protected


# ---------------------------------------------------------------------- when


def test_it_is_due_when_little_of_the_window_is_left() -> None:
    talk = conversation([ask("a"), say("b", usage=Usage(input_tokens=5_990, output_tokens=11))])
    assert due(talk, model=SMALL, settings=DEFAULT) == "threshold"
    assert due(talk, model=SMALL, settings=CompactionSettings(enabled=False)) is None
    less = conversation([ask("a"), say("b", usage=Usage(input_tokens=5_990, output_tokens=10))])
    assert due(less, model=SMALL, settings=DEFAULT) is None


def test_too_many_queries_are_halved() -> None:
    settings = CompactionSettings(max_session_queries=8)
    messages = turns(*"abcdefgh", size=1)
    assert due(conversation(messages), model=SMALL, settings=settings) is None
    messages += [ask("i")]
    assert due(conversation(messages), model=SMALL, settings=settings) == "queries"
    plan = plan_for(messages, "queries", settings=settings)
    assert messages[plan.cut] == ask("f")


def test_not_right_after_a_compaction_that_left_it_full() -> None:
    summary = summary_message(summary_text(Parts(words(4_000))))
    messages: list[Message] = [summary, ask("a"), say("b")]
    talk = conversation(messages, fresh_from=1)
    result = plan_compaction(talk, model=SMALL, settings=DEFAULT, reason="threshold")
    assert (result.plan, result.why) == (None, "too_soon")


def test_not_where_too_little_would_be_gained() -> None:
    messages = [*turns(*"ab", size=20), ask(words(5_000))]
    talk = conversation(messages)
    result = plan_compaction(talk, model=SMALL, settings=DEFAULT, reason="threshold")
    assert (result.plan, result.why) == (None, "too_little")


# ---------------------------------------------------------------- properties

REASONS = st.sampled_from(["threshold", "queries", "overflow", "manual"])


@st.composite
def settings_for(draw: st.DrawFn) -> CompactionSettings:
    protected = draw(st.integers(1, 5))
    return CompactionSettings(
        protected_queries=protected,
        tool_protected_queries=draw(st.integers(0, 6)),
        keep_recent_tokens=draw(st.integers(0, 3_000)),
        max_session_queries=draw(st.none() | st.integers(2 * protected, 12)),
    )


@given(talks(), settings_for(), REASONS)
def test_no_plan_parts_a_call_from_its_result(
    messages: list[Message], settings: CompactionSettings, reason: CompactionReason
) -> None:
    plan = planned(messages, reason, settings)
    if plan is None:
        return
    after = list(compacted(messages, plan, summary="sum" if plan.folds else ""))
    assert not unpaired(after)
    assert not unpaired(messages[: plan.cut])


@given(talks(), settings_for(), REASONS)
def test_protected_queries_stay_word_for_word(
    messages: list[Message], settings: CompactionSettings, reason: CompactionReason
) -> None:
    plan = planned(messages, reason, settings)
    if plan is None:
        return
    kept = [m.text for m in messages[plan.cut :] if is_query(m)]
    # Where they do not all have room beside the summary, the newest ones do.
    assert len(kept) >= settings.protected_queries or plan.queries or not plan.folds
    there = [*plan.queries, *kept]
    asked = [m.text for m in messages if is_query(m)]
    for said, known in zip(reversed(there), reversed(asked), strict=False):
        assert said == known or "characters left out" in said


@given(talks())
def test_a_cut_is_parting_exactly_if_it_leaves_a_pair_apart(messages: list[Message]) -> None:
    parting = parting_cuts(messages)
    for cut in range(len(messages) + 1):
        assert (cut in parting) == bool(unpaired(messages[:cut]) or unpaired(messages[cut:]))


@given(st.text(max_size=300), st.integers(1, 200))
def test_shortened_text_says_what_is_missing(text: str, limit: int) -> None:
    short = shortened(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        assert "characters left out" in short
