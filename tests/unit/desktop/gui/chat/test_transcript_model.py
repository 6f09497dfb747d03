"""The model: pages and events become messages and rows."""

import pytest

from agent_sdk.events.wire import (
    PermissionRepliedEvent,
    SessionError,
    SessionStatus,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolPending,
    ToolRunning,
)
from desktop.bridge.messages import ErrorInfo, TranscriptPage
from desktop.gui.chat.messages_store import MAX_LIVE_OUTPUT
from desktop.gui.chat.rows import (
    BlankItem,
    ErrorItem,
    FoldedItem,
    LineItem,
    Row,
    SummaryItem,
    ToolItem,
    WorkingItem,
)
from desktop.gui.chat.segments import Segment
from desktop.gui.chat.tool_text import look_of
from desktop.gui.chat.transcript_model import TranscriptModel
from tests.support import chat_samples as make


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def model(clock: Clock) -> TranscriptModel:
    return TranscriptModel(clock=clock)


@pytest.fixture
def events() -> make.Events:
    return make.Events()


def kinds(model: TranscriptModel, entry: int) -> list[str]:
    return [row.kind for row in model.rows(entry)]


def only(rows: list[Row], kind: str) -> Row:
    (row,) = [row for row in rows if row.kind == kind]
    return row


class TestOpening:
    def test_the_tail_is_loaded_and_the_rest_is_known_by_size(self, model: TranscriptModel) -> None:
        model.open(make.opened([make.user("u", "hi")], before=[70, 80]))
        assert (model.count, model.sizes[0]) == (3, 70)
        assert model.take_changes().reset
        (row,) = model.rows(1)
        assert row.item == BlankItem(80)
        assert kinds(model, 2) == ["user"]

    def test_a_page_is_taken_once(self, model: TranscriptModel) -> None:
        model.open(make.opened([make.user("u", "hi")], before=[1, 1]))
        model.take_changes()
        model.load(TranscriptPage(first=0, messages=(make.user("a", "one"), make.user("b", "two"))))
        changed = model.take_changes()
        assert changed.entries >= {0, 1}
        assert kinds(model, 0) == ["user"]
        first = model.message(0)
        model.load(TranscriptPage(first=0, messages=(make.user("a", "other"),)))
        assert model.message(0) is first

    def test_a_page_past_the_end_does_no_harm(self, model: TranscriptModel) -> None:
        model.open(make.opened([make.user("u", "hi")]))
        model.load(TranscriptPage(first=5, messages=(make.user("x", "?"),)))
        assert model.count == 1

    def test_opened_again_what_was_loaded_stays(self, model: TranscriptModel) -> None:
        model.open(make.opened([make.user("u", "hi")], before=[1]))
        model.load(TranscriptPage(first=0, messages=(make.user("a", "one"),)))
        kept = model.message(0)
        model.open(
            make.opened(
                [make.user("u", "hi"), make.answer("r.1", make.text("r.1.0", "yo"))], before=[1]
            )
        )
        assert model.message(0) is kept
        assert model.count == 3

    def test_another_session_forgets(self, model: TranscriptModel) -> None:
        model.open(make.opened([make.user("u", "hi")], before=[1]))
        model.open(make.opened([make.user("u", "hi")], before=[1], session_id="s2"))
        assert model.message(0) is None

    def test_a_failed_run_is_told_with_its_hint(self, model: TranscriptModel) -> None:
        error = ErrorInfo(code="provider", text="no", hint="Wait.")
        model.open(
            make.opened([make.user("u", "hi")], status="failed", can_continue=True, error=error)
        )
        item = only(model.rows(0), "error").item
        assert item == ErrorItem("provider", "no", "Wait.", can_retry=True)
        assert model.rows(1) == []

    def test_an_interrupted_run_can_be_continued(self, model: TranscriptModel) -> None:
        call = make.tool("r.1.0", "bash", ToolRunning(input={"command": "x"}))
        model.open(
            make.opened(
                [make.user("u", "hi"), make.answer("r.1", call)],
                status="interrupted",
                can_continue=True,
            )
        )
        item = only(model.rows(1), "tool").item
        assert isinstance(item, ToolItem)
        assert look_of(item) == "cut"
        assert only(model.rows(2), "line").item == LineItem("interrupted", level="warning")


class TestStreaming:
    def test_text_grows_and_ends_as_sent(self, model: TranscriptModel, events: make.Events) -> None:
        model.open(make.opened([make.user("u", "hi")]))
        words = "Some *words*.\n\n" * 300
        model.apply(events.running())
        model.apply(events.begin("r1.1"))
        model.apply(events.part("r1.1", make.text("r1.1.0", "")))
        for at in range(0, len(words), 37):
            model.apply(events.delta("r1.1", "r1.1.0", words[at : at + 37]))
        message = model.message(1)
        assert message is not None
        assert message.markdown() == words.strip("\n")
        model.apply(events.part("r1.1", make.text("r1.1.0", words)))
        model.apply(events.finish("r1.1", ["r1.1.0"]))
        assert message.markdown() == words.strip("\n")
        assert all(
            isinstance(r.item, Segment) and r.item.closed
            for r in model.rows(1)
            if r.kind == "prose"
        )

    def test_rows_that_stay_are_the_same_objects(
        self, model: TranscriptModel, events: make.Events
    ) -> None:
        model.open(make.opened([]))
        model.apply(events.begin("r1.1"))
        model.apply(events.part("r1.1", make.text("r1.1.0", "a paragraph\n\n" * 500)))
        before = model.rows(0)
        for row in before:
            row.width, row.expanded = 800, True
        model.apply(events.delta("r1.1", "r1.1.0", "more"))
        after = model.rows(0)
        assert [id(row) for row in before] == [id(row) for row in after[: len(before)]]
        assert all(row.width == 800 for row in after[: len(before) - 1])
        assert after[len(before) - 1].width == 0  # it has grown, and is measured again

    def test_a_delta_marks_its_entry_and_nothing_else(
        self, model: TranscriptModel, events: make.Events
    ) -> None:
        model.open(make.opened([make.user("u", "hi")]))
        model.apply(events.begin("r1.1"))
        model.apply(events.part("r1.1", make.text("r1.1.0", "")))
        model.take_changes()
        model.apply(events.delta("r1.1", "r1.1.0", "x"))
        changes = model.take_changes()
        assert (changes.entries, changes.appended, changes.reset) == ({1}, 0, False)

    def test_a_finished_answer_keeps_only_its_parts(
        self, model: TranscriptModel, events: make.Events
    ) -> None:
        model.open(make.opened([]))
        model.apply(events.begin("r1.1"))
        model.apply(events.part("r1.1", make.text("r1.1.0", "kept")))
        model.apply(events.part("r1.1", make.tool("r1.1.1", "bash", ToolPending())))
        model.apply(events.finish("r1.1", ["r1.1.0"], error="aborted"))
        assert kinds(model, 0) == ["prose", "line"]
        model.apply(events.part("r1.1", make.tool("r1.1.1", "bash", ToolPending())))
        assert kinds(model, 0) == ["prose", "line"]

    def test_parts_of_a_prompt_may_follow_it(
        self, model: TranscriptModel, events: make.Events
    ) -> None:
        model.open(make.opened([]))
        for event in events.message(make.user("u1", "later")):
            model.apply(event)
        assert kinds(model, 0) == ["user"]

    def test_live_output_is_bounded_and_replaced_by_the_result(
        self, model: TranscriptModel, events: make.Events
    ) -> None:
        model.open(make.opened([]))
        model.apply(events.running())
        model.apply(events.begin("r1.1"))
        model.apply(events.part("r1.1", make.tool("r1.1.0", "bash", ToolRunning())))
        for _ in range(20):
            model.apply(events.delta("r1.1", "r1.1.0", "x" * 10_000))
        item = only(model.rows(0), "tool").item
        assert isinstance(item, ToolItem)
        assert len(item.live) == MAX_LIVE_OUTPUT
        assert look_of(item) == "running"
        model.apply(events.part("r1.1", make.tool("r1.1.0", "bash", ToolCompleted(output="done"))))
        item = only(model.rows(0), "tool").item
        assert isinstance(item, ToolItem)
        assert (item.live, look_of(item)) == ("", "done")

    def test_reasoning_grows_folded(self, model: TranscriptModel, events: make.Events) -> None:
        model.open(make.opened([]))
        model.apply(events.running())
        model.apply(events.begin("r1.1"))
        model.apply(events.part("r1.1", make.reasoning("r1.1.0", "")))
        model.apply(events.delta("r1.1", "r1.1.0", "First"))
        assert only(model.rows(0), "reasoning").item == FoldedItem("thinking", "First", active=True)
        model.apply(events.part("r1.1", make.reasoning("r1.1.0", "First, look.")))
        model.apply(events.finish("r1.1", ["r1.1.0"]))
        assert only(model.rows(0), "reasoning").item == FoldedItem("reasoning", "First, look.")


class TestOddEvents:
    def test_what_is_known_already_changes_nothing(self, model: TranscriptModel) -> None:
        model.open(make.opened([make.user("u", "hi")]))  # seq 10
        model.take_changes()
        model.apply(make.Events(seq=3).begin("old"))
        assert model.count == 1
        assert not model.take_changes()

    def test_other_sessions_are_not_shown(
        self, model: TranscriptModel, events: make.Events
    ) -> None:
        model.open(make.opened([], session_id="s2"))
        model.apply(events.begin("r1.1"))
        assert model.count == 0

    def test_deltas_of_the_unknown_are_left_out(
        self, model: TranscriptModel, events: make.Events
    ) -> None:
        model.open(make.opened([]))
        model.apply(events.delta("nobody", "nobody.0", "x"))
        model.apply(events.begin("r1.1"))
        model.apply(events.delta("r1.1", "r1.1.9", "x"))
        assert model.rows(0) == []

    def test_a_part_before_its_message(self, model: TranscriptModel, events: make.Events) -> None:
        model.open(make.opened([]))
        model.apply(events.part("r1.1", TextPart(id="r1.1.0", text="early")))
        assert kinds(model, 0) == ["prose"]

    def test_children_and_others_have_a_line(
        self, model: TranscriptModel, events: make.Events
    ) -> None:
        model.open(make.opened([]))
        model.apply(events.part("r1.1", SubtaskPart(id="r1.1.0", session_id="x", title="t")))
        assert only(model.rows(0), "line").item == LineItem("subagent", "t")


class TestTheRun:
    def test_it_works_and_ends_with_a_summary(
        self, model: TranscriptModel, events: make.Events, clock: Clock
    ) -> None:
        model.open(make.opened([make.user("u", "hi")]))
        model.apply(events.running())
        (row,) = model.rows(1)
        assert row.item == WorkingItem(100.0)
        model.apply(events.begin("r1.1"))
        change = make.edited("a.py", "", plus=3, minus=1)
        model.apply(events.part("r1.1", make.tool("r1.1.0", "edit", change)))
        model.apply(events.part("r1.1", make.tool("r1.1.1", "edit", change)))
        model.apply(events.finish("r1.1", ["r1.1.0", "r1.1.1"]))
        assert "summary" not in kinds(model, 1)
        clock.now = 172.0
        model.apply(events.idle())
        assert only(model.rows(1), "summary").item == SummaryItem(72.0, 1, 6, 2, 2)
        assert model.rows(2) == []

    def test_words_need_no_summary(self, model: TranscriptModel) -> None:
        model.open(
            make.opened([make.user("u", "hi"), make.answer("r.1", make.text("r.1.0", "yo"))])
        )
        assert kinds(model, 1) == ["prose"]

    def test_no_summary_of_a_turn_that_is_not_loaded_whole(self, model: TranscriptModel) -> None:
        done = make.tool("r.2.0", "bash", ToolCompleted())
        model.open(make.opened([make.answer("r.2", done)], before=[5]))
        assert "summary" not in kinds(model, 1)
        model.load(TranscriptPage(first=0, messages=(make.user("u", "hi"),)))
        assert 1 in model.take_changes().entries
        assert "summary" in kinds(model, 1)

    def test_a_retry_says_why(self, model: TranscriptModel, events: make.Events) -> None:
        model.open(make.opened([make.user("u", "hi")]))
        model.apply(events.running())
        retry = SessionStatus(session_id="s1", status="retry", run_id="r1", reason="busy")
        model.apply(events.of(retry))
        assert model.rows(1)[0].item == WorkingItem(100.0, "busy")

    def test_an_error_is_shown_once_and_can_be_retried_when_it_is_last(
        self, model: TranscriptModel, events: make.Events
    ) -> None:
        model.open(make.opened([make.user("u", "hi")]))
        model.apply(events.running())
        for event in events.message(
            make.answer("r1.1", make.text("r1.1.0", "cut"), error="overloaded", stop="error")
        ):
            model.apply(event)
        model.apply(
            events.of(SessionError(session_id="s1", code="provider", text="529: overloaded"))
        )
        model.apply(events.idle("error"))
        assert only(model.rows(1), "error").item == ErrorItem(
            "provider", "529: overloaded", can_retry=True
        )
        assert model.rows(2) == []
        for event in events.message(make.user("u2", "again")):
            model.apply(event)
        assert only(model.rows(1), "error").item == ErrorItem("provider", "529: overloaded")

    def test_what_was_cut_in_an_earlier_run_stays_cut_in_the_next(
        self, model: TranscriptModel, events: make.Events
    ) -> None:
        call = make.tool("r0.1.0", "bash", ToolPending(input={"command": "x"}))
        model.open(make.opened([make.user("u", "hi"), make.answer("r0.1", call)]))
        model.apply(events.running("r1"))
        item = only(model.rows(1), "tool").item
        assert isinstance(item, ToolItem)
        assert look_of(item) == "cut"

    def test_a_question_marks_its_call(self, model: TranscriptModel, events: make.Events) -> None:
        model.open(make.opened([make.user("u", "hi")]))
        part = make.tool("r1.1.0", "bash", ToolPending(input={"command": "x"}))
        for event in (events.running(), events.begin("r1.1"), events.part("r1.1", part)):
            model.apply(event)
        model.apply(events.of(make.asked("bash", part.call_id, patterns=("x",))))
        item = only(model.rows(1), "tool").item
        assert isinstance(item, ToolItem)
        assert look_of(item) == "waiting"
        assert model.rows(2) == []  # not working: waiting
        model.apply(
            events.of(PermissionRepliedEvent(session_id="s1", request_id="q1", reply="once"))
        )
        item = only(model.rows(1), "tool").item
        assert isinstance(item, ToolItem)
        assert look_of(item) == "pending"

    def test_prompts_before_and_after(self, model: TranscriptModel) -> None:
        model.open(
            make.opened(
                [
                    make.user("a", "1"),
                    make.answer("r.1"),
                    make.user("b", "2"),
                    make.answer("r.2"),
                    make.user("h", "x", origin="hook"),
                ]
            )
        )
        assert model.prompt_near(3, -1) == 2
        assert model.prompt_near(2, -1) == 0
        assert model.prompt_near(0, 1) == 2
        assert model.prompt_near(2, 1) is None
