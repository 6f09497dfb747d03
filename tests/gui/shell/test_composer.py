"""The composer in the window: sending, queueing, stopping, drafts, history."""

import pytest
from PySide6.QtCore import QMimeData, QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from agent_sdk.events.wire import Event, SessionInfo, SessionStatus, SessionUpdated
from desktop.bridge.messages import (
    ModelsState,
    ProjectInfo,
    ProjectsState,
    QueuedPrompt,
    QueueState,
    SessionsState,
    SettingsState,
)
from desktop.bridge.protocol import (
    ChooseModel,
    ChoosePermissionMode,
    Done,
    Interrupt,
    PromptTaken,
    QueuedRemoved,
    RemoveQueued,
    ResumeQueue,
    SubmitPrompt,
)
from desktop.gui.chat.composer import Composer
from desktop.gui.chat.prompt_edit import MAX_CHARACTERS, MAX_HEIGHT
from desktop.gui.theme import Theme
from tests.support.fake_bridge import FakeBridge
from tests.support.shell import EMBEDDED, GPT, SONNET, Shell, models, row, shell

RETURN = Qt.Key.Key_Return
CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def made(qtbot: QtBot, fake_bridge: FakeBridge, theme: Theme, store: QSettings) -> Shell:
    made = shell(bridge=fake_bridge, theme=theme, store=store)
    qtbot.addWidget(made.window)
    made.window.show()
    qtbot.waitExposed(made.window)
    made.start(row("a"), row("b", minutes=6), row("run", minutes=7, status="running"))
    made.window.navigator.open("a")
    return made


def box(made: Shell) -> Composer:
    return made.window.area.composer


def write(made: Shell, qtbot: QtBot, text: str) -> None:
    QTest.keyClicks(box(made).edit, text)


def texts(menu: QMenu) -> dict[str, bool]:
    return {action.text(): action.isEnabled() for action in menu.actions() if action.text()}


class TestSending:
    def test_enter_sends_and_empties_the_box(self, made: Shell, qtbot: QtBot) -> None:
        write(made, qtbot, "hello")
        QTest.keyClick(box(made).edit, RETURN)
        sent = made.bridge.last(SubmitPrompt)
        assert (sent.session_id, sent.text, sent.follow_up) == ("a", "hello", "queue")
        assert box(made).edit.toPlainText() == ""

    def test_shift_enter_makes_a_line(self, made: Shell, qtbot: QtBot) -> None:
        write(made, qtbot, "one")
        QTest.keyClick(box(made).edit, RETURN, SHIFT)
        write(made, qtbot, "two")
        assert box(made).edit.toPlainText() == "one\ntwo"
        assert made.bridge.of(SubmitPrompt) == []

    @pytest.mark.parametrize("text", ["", "   "])
    def test_nothing_is_not_sent(self, made: Shell, qtbot: QtBot, text: str) -> None:
        write(made, qtbot, text)
        assert not box(made).send.isEnabled()
        QTest.keyClick(box(made).edit, RETURN)
        assert made.bridge.of(SubmitPrompt) == []

    def test_the_button_sends_too(self, made: Shell, qtbot: QtBot) -> None:
        write(made, qtbot, "hello")
        QTest.mouseClick(box(made).send, Qt.MouseButton.LeftButton)
        assert made.bridge.last(SubmitPrompt).text == "hello"

    def test_what_was_not_taken_comes_back_and_keeps_its_id(
        self, made: Shell, qtbot: QtBot
    ) -> None:
        made.bridge.fail(SubmitPrompt, code="host_lost", text="gone")
        write(made, qtbot, "hello")
        QTest.keyClick(box(made).edit, RETURN)
        assert box(made).edit.toPlainText() == "hello"
        made.bridge.script[SubmitPrompt] = PromptTaken(prompt_id="x", became="running")
        QTest.keyClick(box(made).edit, RETURN)
        first, second = made.bridge.of(SubmitPrompt)
        assert first.prompt_id == second.prompt_id
        assert box(made).edit.toPlainText() == ""

    def test_what_comes_back_does_not_overwrite(self, made: Shell, qtbot: QtBot) -> None:
        made.bridge.hold = True
        write(made, qtbot, "first")
        QTest.keyClick(box(made).edit, RETURN)
        write(made, qtbot, "second")
        made.bridge.hold = False
        made.bridge.fail(SubmitPrompt, code="storage", text="no")
        made.bridge.answer(made.bridge.script[SubmitPrompt])  # type: ignore[arg-type]
        assert box(made).edit.toPlainText() == "second\n\nfirst"

    def test_what_comes_back_late_waits_in_its_session(self, made: Shell, qtbot: QtBot) -> None:
        made.bridge.hold = True
        write(made, qtbot, "for a")
        QTest.keyClick(box(made).edit, RETURN)
        made.bridge.hold = False
        made.window.navigator.open("b")
        made.bridge.fail(SubmitPrompt, code="storage", text="no")
        made.bridge.answer(made.bridge.script[SubmitPrompt])  # type: ignore[arg-type]
        assert box(made).edit.toPlainText() == ""
        made.window.navigator.open("a")
        assert box(made).edit.toPlainText() == "for a"

    def test_a_first_prompt_needs_no_settings(self, made: Shell, qtbot: QtBot) -> None:
        none = models(key="none")
        made.bridge.publish(none)
        made.window.navigator.new("p1")
        write(made, qtbot, "hello")
        QTest.keyClick(box(made).edit, RETURN)
        chosen = made.bridge.last(ChooseModel)
        assert (chosen.session_id, chosen.model) == ("new1", EMBEDDED.key)
        assert made.bridge.last(SubmitPrompt).session_id == "new1"


class TestWhileRunning:
    @pytest.fixture(autouse=True)
    def running(self, made: Shell) -> None:
        made.window.navigator.open("run")

    @pytest.mark.parametrize(
        ("setting", "modifier", "expected"),
        [
            ("queue", Qt.KeyboardModifier.NoModifier, "queue"),
            ("queue", CONTROL, "steer"),
            ("steer", Qt.KeyboardModifier.NoModifier, "steer"),
            ("steer", CONTROL, "queue"),
        ],
    )
    def test_enter_does_as_the_settings_say(
        self,
        made: Shell,
        qtbot: QtBot,
        setting: str,
        modifier: Qt.KeyboardModifier,
        expected: str,
    ) -> None:
        made.bridge.publish(SettingsState(revision=2, follow_up=setting))  # type: ignore[arg-type]
        write(made, qtbot, "more")
        QTest.keyClick(box(made).edit, RETURN, modifier)
        assert made.bridge.last(SubmitPrompt).follow_up == expected

    def test_stop_is_pressed_once(self, made: Shell, qtbot: QtBot) -> None:
        assert box(made).stop.isVisible()
        QTest.mouseClick(box(made).stop, Qt.MouseButton.LeftButton)
        assert made.bridge.last(Interrupt).session_id == "run"
        assert not box(made).stop.isEnabled()
        made.bridge.publish(SessionsState(rows=(row("run"),)))
        assert not box(made).stop.isVisible()
        made.bridge.publish(SessionsState(rows=(row("run", status="running"),)))
        assert box(made).stop.isEnabled()

    def test_a_refused_stop_can_be_tried_again(self, made: Shell, qtbot: QtBot) -> None:
        made.bridge.fail(Interrupt, code="x", text="no")
        QTest.mouseClick(box(made).stop, Qt.MouseButton.LeftButton)
        assert box(made).stop.isEnabled()

    def test_escape_stops(self, made: Shell, qtbot: QtBot) -> None:
        QTest.keyClick(box(made).edit, Qt.Key.Key_Escape)
        assert made.bridge.last(Interrupt).session_id == "run"

    def test_events_of_the_session_count_at_once(self, made: Shell) -> None:
        idle = Event(
            seq=1,
            id="e",
            at="",
            session_id="run",
            body=SessionStatus(session_id="run", status="idle"),
        )
        made.bridge.tell(idle)
        assert not box(made).stop.isVisible()

    def test_events_of_other_sessions_do_not(self, made: Shell) -> None:
        made.bridge.tell(
            Event(
                seq=1,
                id="e",
                at="",
                session_id="a",
                body=SessionStatus(session_id="a", status="idle"),
            )
        )
        assert box(made).stop.isVisible()


def test_escape_stops_nothing_where_nothing_runs(made: Shell, qtbot: QtBot) -> None:
    QTest.keyClick(box(made).edit, Qt.Key.Key_Escape)
    assert made.bridge.of(Interrupt) == []


class TestQueue:
    def queue(self, made: Shell, *, paused: bool = False, count: int = 2) -> None:
        made.bridge.publish(
            QueueState(
                session_id="a",
                paused=paused,
                queued=tuple(QueuedPrompt(id=f"q{n}", text=f"text {n}") for n in range(count)),
            )
        )

    def test_is_shown_for_its_session(self, made: Shell) -> None:
        self.queue(made)
        assert box(made).queue.isVisible()
        made.window.navigator.open("b")
        assert not box(made).queue.isVisible()

    def test_goes_when_it_is_empty(self, made: Shell) -> None:
        self.queue(made)
        self.queue(made, count=0)
        assert not box(made).queue.isVisible()

    def test_a_prompt_is_taken_back(self, made: Shell) -> None:
        self.queue(made)
        made.bridge.script[RemoveQueued] = QueuedRemoved(text="text 1")
        box(made).queue.edit_wanted.emit("q1")
        assert made.bridge.last(RemoveQueued).prompt_id == "q1"
        assert box(made).edit.toPlainText() == "text 1"

    def test_a_prompt_is_removed_for_good(self, made: Shell) -> None:
        self.queue(made)
        made.bridge.script[RemoveQueued] = QueuedRemoved(text="text 1")
        box(made).queue.remove_wanted.emit("q1")
        assert box(made).edit.toPlainText() == ""

    def test_a_paused_queue_goes_on(self, made: Shell) -> None:
        self.queue(made, paused=True)
        box(made).queue.resume_wanted.emit()
        assert made.bridge.last(ResumeQueue).session_id == "a"


class TestBlocked:
    def reason(self, made: Shell) -> str:
        return box(made).note.text() if box(made).note.isVisible() else ""

    def test_it_says_nothing_when_all_is_well(self, made: Shell) -> None:
        assert self.reason(made) == ""

    def test_without_a_host(self, made: Shell, qtbot: QtBot) -> None:
        write(made, qtbot, "kept")
        made.bridge.host_lost.emit("killed")
        assert "background process" in self.reason(made)
        QTest.keyClick(box(made).edit, RETURN)
        assert made.bridge.of(SubmitPrompt) == []
        assert box(made).edit.toPlainText() == "kept"
        made.bridge.host_back.emit()
        assert self.reason(made) == ""
        assert box(made).edit.toPlainText() == "kept"

    def test_without_the_folder(self, made: Shell) -> None:
        gone = ProjectInfo(id="p1", path="/gone", name="gone", missing=True)
        made.bridge.publish(ProjectsState(projects=(gone,)))
        assert "/gone" in self.reason(made)

    def test_without_a_key(self, made: Shell, qtbot: QtBot) -> None:
        made.bridge.publish(models(key="none"))
        assert "anthropic" in self.reason(made)
        with qtbot.waitSignal(box(made).setup_wanted):
            QTest.mouseClick(box(made).remedy, Qt.MouseButton.LeftButton)
        assert made.window.pages.currentWidget() is made.window.settings_page

    def test_without_any_model(self, made: Shell) -> None:
        state = models()
        made.bridge.publish(ModelsState(models=(GPT,), providers=(), key_store=state.key_store))
        assert "No model" in self.reason(made)

    def test_a_damaged_session(self, made: Shell) -> None:
        made.bridge.publish(SessionsState(rows=(row("a", problem="line 3 is damaged"),)))
        assert "line 3 is damaged" in self.reason(made)


class TestMenus:
    def test_models_without_a_key_are_not_chosen(self, made: Shell) -> None:
        found = texts(box(made).model.entries())
        assert found["Claude Sonnet 5.5"] is True
        assert found["GPT-6 – no key"] is False

    def test_a_model_is_chosen(self, made: Shell) -> None:
        menu = box(made).model.entries()
        next(a for a in menu.actions() if "SmolLM2" in a.text()).trigger()
        assert made.bridge.last(ChooseModel).model == EMBEDDED.key
        assert made.window.area.link.model == EMBEDDED.key
        assert not box(made).thinking.isVisible()

    def test_a_refused_choice_changes_nothing(self, made: Shell) -> None:
        made.bridge.fail(ChooseModel, code="model_not_found", text="no")
        made.window.area.link.choose_model(EMBEDDED.key)
        assert made.window.area.link.model == SONNET.key

    def test_an_answer_for_another_session_changes_nothing(self, made: Shell) -> None:
        made.bridge.hold = True
        made.window.area.link.choose_model(EMBEDDED.key)
        made.bridge.hold = False
        made.window.navigator.open("b")
        made.bridge.answer(Done())
        assert made.window.area.link.model == SONNET.key

    def test_reasoning_is_kept_only_where_it_is_known(self, made: Shell) -> None:
        made.window.area.link.choose_thinking("high")
        assert made.bridge.last(ChooseModel).thinking == "high"
        made.window.area.link.choose_model(EMBEDDED.key)
        assert made.bridge.last(ChooseModel).thinking == ""

    def test_the_permission_mode(self, made: Shell) -> None:
        menu = box(made).mode.entries()
        assert not any("auto" in action.text() for action in menu.actions())
        next(a for a in menu.actions() if a.text().startswith("Plan only")).trigger()
        assert made.bridge.last(ChoosePermissionMode).mode == "plan"
        assert box(made).mode.text() == "Plan only"

    def test_the_host_has_the_last_word_on_the_model(self, made: Shell) -> None:
        info = SessionInfo(id="a", workspace="/x", model=EMBEDDED.key)
        made.bridge.tell(
            Event(seq=1, id="e", at="", session_id="a", body=SessionUpdated(session=info))
        )
        assert made.window.area.link.model == EMBEDDED.key


class TestDrafts:
    def test_are_kept_by_session(self, made: Shell, qtbot: QtBot) -> None:
        write(made, qtbot, "for a")
        made.window.navigator.open("b")
        assert box(made).edit.toPlainText() == ""
        write(made, qtbot, "for b")
        made.window.navigator.open("a")
        assert box(made).edit.toPlainText() == "for a"

    def test_are_on_disk_soon_after_the_last_key(self, made: Shell, qtbot: QtBot) -> None:
        write(made, qtbot, "for a")
        qtbot.waitUntil(lambda: made.settings.drafts() == {"a": "for a"})

    def test_survive_the_window(
        self, made: Shell, qtbot: QtBot, theme: Theme, store: QSettings
    ) -> None:
        write(made, qtbot, "for a")
        box(made).save()
        again = shell(bridge=FakeBridge(), theme=theme, store=store)
        qtbot.addWidget(again.window)
        again.start(row("a"))
        again.window.navigator.open("a")
        assert box(again).edit.toPlainText() == "for a"

    def test_go_with_the_prompt(self, made: Shell, qtbot: QtBot) -> None:
        write(made, qtbot, "for a")
        box(made).save()
        QTest.keyClick(box(made).edit, RETURN)
        assert made.settings.drafts() == {}

    def test_follow_a_new_session_to_a_new_host(self, made: Shell, qtbot: QtBot) -> None:
        made.window.navigator.new("p1")
        write(made, qtbot, "begun")
        made.bridge.host_lost.emit("killed")
        made.bridge.host_back.emit()
        assert made.window.navigator.current_id == "new2"
        assert box(made).edit.toPlainText() == "begun"
        QTest.keyClick(box(made).edit, RETURN)
        assert made.bridge.last(SubmitPrompt).session_id == "new2"


class TestHistory:
    def test_is_walked_at_the_edges(self, made: Shell, qtbot: QtBot) -> None:
        edit = box(made).edit
        write(made, qtbot, "typed")
        QTest.keyClick(edit, Qt.Key.Key_Up)
        assert edit.toPlainText() == "Hello"  # the prompt that is in the transcript
        QTest.keyClick(edit, Qt.Key.Key_Down)
        assert edit.toPlainText() == "typed"

    def test_arrows_move_within_a_text_first(self, made: Shell, qtbot: QtBot) -> None:
        edit = box(made).edit
        edit.setPlainText("one\ntwo")
        edit.moveCursor(edit.textCursor().MoveOperation.End)
        QTest.keyClick(edit, Qt.Key.Key_Up)
        assert edit.toPlainText() == "one\ntwo"
        QTest.keyClick(edit, Qt.Key.Key_Up)
        assert edit.toPlainText() == "Hello"


class TestBox:
    def test_grows_and_then_scrolls(self, made: Shell, qtbot: QtBot) -> None:
        edit = box(made).edit
        small = edit.height()
        edit.setPlainText("\n".join("line" for _ in range(6)))
        grown = edit.height()
        assert small < grown < MAX_HEIGHT
        edit.setPlainText("\n".join("line" for _ in range(60)))
        qtbot.waitUntil(lambda: edit.height() == MAX_HEIGHT)
        assert edit.verticalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAsNeeded
        edit.clear()
        assert edit.height() == small

    def test_what_is_pasted_is_plain_text(self, made: Shell) -> None:
        data = QMimeData()
        data.setHtml("<b>bold</b><img src='file:///etc/passwd'>")
        data.setText("bold")
        box(made).edit.insertFromMimeData(data)
        assert box(made).edit.toPlainText() == "bold"

    def test_far_too_much_is_refused_and_said(self, made: Shell) -> None:
        data = QMimeData()
        data.setText("x" * (MAX_CHARACTERS + 1))
        box(made).edit.insertFromMimeData(data)
        assert box(made).edit.toPlainText() == ""
        assert "too long" in box(made).note.text()
