from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.compaction.rewrite import CLEARED
from agent_sdk.core.usage import Usage
from agent_sdk.loop.types import Rule
from agent_sdk.providers.messages import (
    AssistantMessage,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.session.history import SessionState, fold
from agent_sdk.session.journal import recovery_records
from agent_sdk.session.records import (
    CompactionRecord,
    CustomRecord,
    ModelChangeRecord,
    PermissionModeChangeRecord,
    PermissionRuleRecord,
    Record,
    RewindRecord,
    RunRecord,
    SessionInfoRecord,
    StoredRule,
    StoredSection,
    SystemRecord,
    ThinkingLevelChangeRecord,
    TodoItem,
    TodoRecord,
    assistant_record,
    user_record,
)
from tests.support.session_files import answer, prompt, result, started
from tests.support.session_states import chained


def state_of(*records: Any) -> SessionState:
    return fold(chained(*records))


def shape(messages: list[Message]) -> list[str]:
    """Return messages as short texts: text, ?call, !result."""
    texts = []
    for message in messages:
        parts = []
        for block in message.content:
            if isinstance(block, TextBlock):
                parts.append(block.text)
            elif isinstance(block, ToolUseBlock):
                parts.append(f"?{block.id}")
            elif isinstance(block, ToolResultBlock):
                parts.append(f"!{block.tool_use_id}={block.content}")
        texts.append(" ".join(parts))
    return texts


def seen(*records: Any) -> list[str]:
    return shape(state_of(*records).model_messages())


# --------------------------------------------------- what the model may see


def test_a_plain_talk() -> None:
    state = state_of(prompt("a"), answer("b", "c1"), result("c1"), answer("d"))
    assert shape(state.messages) == ["a", "b ?c1", "!c1=done", "d"]
    assert state.message_uuids == ["r1", "r2", "r3", "r4"]
    assert state.model_messages() is state.messages
    assert (state.last_uuid, state.count, state.timestamp) == ("r4", 5, "t4")


def test_a_call_without_result_is_not_shown_but_waits() -> None:
    records = (prompt("a"), answer("b", "c1", "c2"), result("c2"))
    state = state_of(*records)
    assert list(state.unanswered) == ["c1"]
    assert shape(state.messages) == ["a", "b ?c1 ?c2", "!c2=done"]
    assert shape(state.model_messages()) == ["a", "b ?c2", "!c2=done"]
    assert seen(*records, result("c1")) == ["a", "b ?c1 ?c2", "!c2=done", "!c1=done"]


def test_an_answer_of_unanswered_calls_only_is_not_shown() -> None:
    assert seen(prompt("a"), answer("", "c1")) == ["a"]
    assert seen(prompt("a"), answer("", "c1"), prompt("b"), answer("c")) == ["a", "b", "c"]


def test_a_call_that_the_next_answer_came_without_is_dropped_for_good() -> None:
    state = state_of(
        prompt("a"), answer("b", "c1", "c2"), result("c1"), prompt("x"), answer("y"), result("c2")
    )
    assert shape(state.messages) == ["a", "b ?c1", "!c1=done", "x", "y"]
    assert not state.unanswered


def test_context_between_results_does_not_part_them() -> None:
    records = (prompt("a"), answer("", "c1", "c2"), result("c1"), prompt("note"), result("c2"))
    assert seen(*records) == ["a", "?c1 ?c2", "!c1=done", "note", "!c2=done"]


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_cut_answer_keeps_its_text_only(stop: Any) -> None:
    state = state_of(prompt("a"), answer("half", "c1", stop=stop), result("c1"), prompt("b"))
    assert shape(state.messages) == ["a", "half", "b"]
    assert not state.unanswered
    assert seen(prompt("a"), answer("", "c1", stop=stop), prompt("b")) == ["a", "b"]


def test_results_without_a_call_and_second_results_are_left_out() -> None:
    records = (
        prompt("a"), result("c0"), answer("b", "c1"), result("c1", "1"), result("c1", "2"), answer("d")
    )  # fmt: skip
    assert seen(*records) == ["a", "b ?c1", "!c1=1", "d"]


def test_the_same_call_twice_in_one_answer_is_one_call() -> None:
    assert seen(prompt("a"), answer("", "c1", "c1"), result("c1")) == ["a", "?c1", "!c1=done"]


def test_an_id_may_be_used_again_by_a_later_answer() -> None:
    records = (prompt("a"), answer("", "c"), result("c", "1"), answer("", "c"), result("c", "2"))
    assert seen(*records) == ["a", "?c", "!c=1", "?c", "!c=2"]


def test_empty_text_is_left_out() -> None:
    state = state_of(prompt(" \n"), answer(""), prompt("a"))
    assert shape(state.messages) == ["a"]
    assert state.message_uuids == ["r3"]


def test_reasoning_and_unknown_blocks_stay() -> None:
    blocks = (ThinkingBlock("hm", "sig"), OpaqueBlock({"type": "hologram"}), TextBlock("x"))
    message = AssistantMessage(
        content=blocks, api="a", provider="p", model="m", stop_reason="end_turn"
    )
    assert state_of(assistant_record(message)).messages == [message]


def test_calls_with_unknown_fields_are_paired_all_the_same() -> None:
    call = OpaqueBlock({"type": "tool_use", "id": "c1", "name": "edit", "input": {}, "mood": 1})
    done = OpaqueBlock({"type": "tool_result", "tool_use_id": "c1", "content": "ok", "mood": 1})
    asked = assistant_record(
        AssistantMessage(content=(call,), api="a", provider="p", model="m", stop_reason="tool_use")
    )
    records = (prompt("a"), asked, started("c1"), user_record(UserMessage(content=(done,))))
    state = state_of(*records)
    assert shape(state.messages) == ["a", "?c1", "!c1=ok"]
    assert not state.open_calls
    broken = OpaqueBlock({"type": "tool_use", "id": 7})
    bad = assistant_record(
        AssistantMessage(
            content=(broken,), api="a", provider="p", model="m", stop_reason="tool_use"
        )
    )
    assert seen(prompt("a"), bad) == ["a"]


# ------------------------------------------------------------------- rewind


def test_a_rewind_skips_what_lies_between() -> None:
    records = (prompt("a"), answer("b"), prompt("c"), answer("d"))
    rewound = (*records, RewindRecord(to_uuid="r2", reason="edit"), prompt("C"))
    assert seen(*rewound) == ["a", "b", "C"]
    undone = (*rewound, RewindRecord(to_uuid="r4", reason="rewind", restores="r5"))
    assert seen(*undone, prompt("e")) == ["a", "b", "c", "d", "e"]
    again = (*undone, RewindRecord(to_uuid="r6", reason="rewind"))
    assert seen(*again) == ["a", "b", "C"]
    assert seen(*records, RewindRecord(to_uuid="r0", reason="edit")) == []


def test_a_rewind_into_a_batch_leaves_no_call_unpaired() -> None:
    records = (prompt("a"), answer("b", "c1", "c2"), result("c1"), result("c2"))
    state = state_of(*records, RewindRecord(to_uuid="r3", reason="rewind"))
    assert shape(state.model_messages()) == ["a", "b ?c1", "!c1=done"]


def test_what_was_set_and_what_happened_survives_a_rewind() -> None:
    state = state_of(
        prompt("a"),
        RunRecord(event="start", run_id="run"),
        PermissionModeChangeRecord(mode="plan"),
        PermissionRuleRecord(rules=(StoredRule("edit", "*", "deny"),)),
        ModelChangeRecord(provider="p", model="m"),
        ThinkingLevelChangeRecord(thinking_level="high"),
        SessionInfoRecord(title="t"),
        TodoRecord(items=(TodoItem("x"),)),
        answer("b", "c1", tokens=7),
        started("c1"),
        RewindRecord(to_uuid="r1", reason="edit"),
    )
    assert shape(state.messages) == ["a"]
    assert state.todos == ()
    assert state.permission_mode == "plan"
    assert state.permission_rules == [Rule("edit", "*", "deny")]
    assert (state.model, state.thinking_level) == ("anthropic/claude", "high")
    assert (state.title, state.open_run) == ("t", "run")
    assert state.usage == Usage(output_tokens=7)
    assert list(state.open_calls) == ["c1"]


# --------------------------------------------------------------- compaction


def compaction(summary: str, keep: str | None, clear: str | None = None) -> CompactionRecord:
    return CompactionRecord(
        summary=summary, keep_from_uuid=keep, clear_tool_results_before_uuid=clear
    )


TALK = (
    prompt("a"),  # r1
    answer("b", "c1"),
    result("c1", "long 1"),  # r3
    answer("d", "c2"),
    result("c2", "long 2"),  # r5
    answer("e"),
)


def test_a_compaction_puts_a_summary_before_what_is_kept() -> None:
    records = (*TALK, compaction("sum", "r4"), prompt("f"))
    assert seen(*records) == ["sum", "d ?c2", "!c2=long 2", "e", "f"]
    state = state_of(*records)
    first = state.messages[0]
    assert isinstance(first, UserMessage)
    assert (first.origin.kind, first.origin.id) == ("summary", "r7")
    assert state.compaction is not None
    assert state.compaction.uuid == "r7"


def test_a_compaction_may_keep_nothing() -> None:
    assert seen(*TALK, compaction("sum", None), prompt("f")) == ["sum", "f"]


def test_a_compaction_may_begin_at_a_record_that_is_not_in_view() -> None:
    records = (*TALK, RunRecord(event="start", run_id="x"), prompt("f"), compaction("sum", "r7"))
    assert seen(*records) == ["sum", "f"]


def test_a_compaction_parts_no_pair() -> None:
    assert seen(*TALK, compaction("sum", "r5")) == ["sum", "e"]


def test_a_compaction_clears_old_results() -> None:
    records = (*TALK, compaction("sum", "r2", "r5"))
    assert seen(*records) == ["sum", "b ?c1", f"!c1={CLEARED}", "d ?c2", "!c2=long 2", "e"]


def test_clearing_alone_keeps_the_summary_that_is_there() -> None:
    records = (*TALK, compaction("sum", "r2"), prompt("f"), compaction("", "r2", "r4"))
    assert seen(*records) == [
        "sum", "b ?c1", f"!c1={CLEARED}", "d ?c2", "!c2=long 2", "e", "f"
    ]  # fmt: skip


def test_a_later_compaction_takes_the_place_of_the_one_before() -> None:
    records = (*TALK, compaction("one", "r4"), prompt("f"), compaction("two", "r8"))
    assert seen(*records) == ["two", "f"]


def test_a_rewind_goes_behind_a_compaction() -> None:
    records = (*TALK, compaction("sum", None), prompt("f"))
    back = RewindRecord(to_uuid="r6", reason="rewind")
    assert seen(*records, back) == seen(*TALK)
    assert seen(*records, back, RewindRecord(to_uuid="r8", reason="rewind")) == ["sum", "f"]


# ----------------------------------------------------------------- identity


def test_messages_stay_the_same_objects() -> None:
    state = SessionState()
    kept: list[Message] = []
    for record in chained(*TALK, prompt("f"), RunRecord(event="start", run_id="x"), answer("g")):
        state.apply(record)
        assert all(old is now for old, now in zip(kept, state.messages, strict=False))
        kept = list(state.messages)
    assert len(kept) == 8


def test_a_rewind_brings_back_the_same_objects() -> None:
    state = SessionState()
    for record in chained(*TALK):
        state.apply(record)
    before = list(state.messages)
    for record in chained(*TALK, prompt("x"), RewindRecord(to_uuid="r6", reason="edit"))[-2:]:
        state.apply(record)
    assert all(old is now for old, now in zip(before, state.messages, strict=True))


# ------------------------------------------------------------ settings, facts


def test_the_last_model_wins_however_it_is_named() -> None:
    change = ModelChangeRecord(provider="p", model="m")
    assert state_of(answer("a"), change).model == "p/m"
    assert state_of(change, answer("a")).model == "anthropic/claude"


def test_rules_come_and_go() -> None:
    state = state_of(
        PermissionRuleRecord(rules=(StoredRule("a", "*", "allow"), StoredRule("b", "*", "deny"))),
        PermissionRuleRecord(rules=(StoredRule("c", "*", "whatever"),)),
        PermissionRuleRecord(rules=(StoredRule("a", "*", "allow"),), removed=True),
    )
    assert state.permission_rules == [Rule("b", "*", "deny"), Rule("c", "*", "ask")]


def test_title_and_tag_are_set_and_cleared_apart() -> None:
    records = (SessionInfoRecord(title="t", tag="g"), SessionInfoRecord(tag=None))
    assert (state_of(*records).title, state_of(*records).tag) == ("t", "")


def test_system_sections_and_tools() -> None:
    state = state_of(
        SystemRecord(sections=(StoredSection("a", "1"),), tools_added=("x", "y")),
        SystemRecord(tools_added=("z",), tools_removed=("x",)),
    )
    assert [(s.name, s.text) for s in state.sections] == [("a", "1")]
    assert state.tools == ("y", "z")


def test_a_run_is_open_until_its_own_end() -> None:
    begin = RunRecord(event="start", run_id="one")
    other = RunRecord(event="end", run_id="other", status="completed")
    end = RunRecord(event="end", run_id="one", status="completed")
    assert state_of(begin).open_run == "one"
    assert state_of(begin, other).open_run == "one"
    assert state_of(begin, end).open_run == ""


def test_the_first_prompt_is_a_persons() -> None:
    records = (prompt("ctx", kind="context"), result("c"), prompt("mine"), prompt("next"))
    assert state_of(*records).first_prompt == "mine"


# ----------------------------------------------------------------- recovery


def settled(*records: Any) -> tuple[SessionState, list[Any]]:
    state = state_of(*records)
    due = recovery_records(state)
    for number, record in enumerate(due):
        state.apply(
            msgspec.structs.replace(
                record, uuid=f"x{number}", parent_uuid=state.last_uuid, session_id="s"
            )
        )
    return state, due


def test_recovery_tells_started_calls_from_others() -> None:
    state, due = settled(
        RunRecord(event="start", run_id="run"),
        prompt("a"),
        answer("b", "c1", "c2", "c3"),
        started("c1"),
        result("c1"),
        started("c2"),
    )
    assert [type(record).__name__ for record in due] == ["UserRecord", "UserRecord", "RunRecord"]
    assert [record.details for record in due[:2]] == [
        {"interrupted": True, "started": True},
        {"interrupted": True, "started": False},
    ]
    texts = [record.message.content[0].content for record in due[:2]]
    assert "unknown" in texts[0]
    assert "not run again" in texts[0]
    assert "not begun" in texts[1]
    assert due[2].status == "interrupted"
    assert [b.is_error for m in state.messages[-2:] for b in m.content] == [True, True]  # type: ignore[union-attr]
    assert recovery_records(state) == []
    assert (state.unanswered, state.open_calls, state.open_run) == ({}, {}, "")
    assert state.model_messages() is state.messages


def test_a_settled_session_needs_nothing() -> None:
    assert (
        settled(prompt("a"), answer("b", "c1"), started("c1"), result("c1"), answer("c"))[1] == []
    )


# ----------------------------------------------------- against a naive model

ids = st.sampled_from(["c1", "c2", "c3"])
some = st.one_of(
    st.builds(prompt, st.sampled_from(["a", "b", " "])),
    st.builds(lambda t, c, s: answer(t, *c, stop=s), st.sampled_from(["", "x"]), st.lists(ids, max_size=3), st.sampled_from([None, None, "aborted"])),
    st.builds(result, ids),
    st.builds(started, ids),
    st.builds(RunRecord, event=st.just("start"), run_id=st.just("run")),
    st.builds(CustomRecord, custom_type=st.just("x")),
    st.builds(TodoRecord, items=st.just((TodoItem("t"),))),
)  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    records: list[Any] = []
    for number in range(1, draw(st.integers(1, 25))):
        pick = draw(st.integers(0, 9))
        at = st.integers(0, number - 1).map(lambda n: f"r{n}")
        if pick == 0:
            records.append(RewindRecord(to_uuid=draw(at), reason="rewind"))
        elif pick == 1:
            clear = draw(st.none() | at)
            records.append(
                compaction(draw(st.sampled_from(["", "S"])), draw(st.none() | at), clear)
            )
        else:
            records.append(draw(some))
    return chained(*records)


def straight(records: list[Record]) -> list[Record]:
    """Return the records that are in view, as if nothing else had been written."""
    place = {record.uuid: n for n, record in enumerate(records)}
    path: list[Record] = []
    at = len(records) - 1
    while at >= 0:
        record = records[at]
        at -= 1
        if isinstance(record, RewindRecord):
            at = place[record.to_uuid]
        else:
            path.append(record)
    return path[::-1]


@given(histories())
def test_one_by_one_equals_all_at_once(records: list[Any]) -> None:
    state = SessionState()
    for count, record in enumerate(records, 1):
        state.apply(record)
        again = fold(records[:count])
        for name in ("messages", "message_uuids", "unanswered", "todos", "open_calls", "open_run"):
            assert getattr(state, name) == getattr(again, name)
        assert state.model_messages() == again.model_messages()


@given(histories())
def test_a_rewind_equals_never_having_gone_there(records: list[Any]) -> None:
    way = straight(records)
    if any(isinstance(r, CompactionRecord) for r in way):
        known = {record.uuid for record in way}
        pointers = [
            pointer
            for r in way
            if isinstance(r, CompactionRecord)
            for pointer in (r.keep_from_uuid, r.clear_tool_results_before_uuid)
            if pointer is not None
        ]
        if not known.issuperset(pointers):
            return  # it points to something that is out of view
    assert fold(records).messages == fold(way).messages


@given(histories())
def test_every_call_that_is_seen_has_its_result_before_the_next_answer(records: list[Any]) -> None:
    open_calls: set[str] = set()
    for message in fold(records).model_messages():
        assert message.content
        if isinstance(message, AssistantMessage):
            assert not open_calls
            calls = [call.id for call in message.tool_calls]
            assert len(calls) == len(set(calls))
            open_calls = set(calls)
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                open_calls.remove(block.tool_use_id)
    assert not open_calls


@given(histories())
def test_recovery_settles_everything_once(records: list[Any]) -> None:
    state = fold(records)
    for number, record in enumerate(recovery_records(state)):
        state.apply(msgspec.structs.replace(record, uuid=f"x{number}"))
    assert recovery_records(state) == []
    assert state.model_messages() is state.messages
