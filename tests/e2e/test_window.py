"""The window through the real host process, on the mocked model: what a user does and sees."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QProcess, QProcessEnvironment, Qt
from PySide6.QtGui import QInputMethodEvent, QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from agent_sdk.testing.mock_server import MockRule, MockScript
from agent_sdk.testing.mock_wire import MockCall, MockTurn
from desktop.gui.chat.cards import LineCard
from desktop.gui.chat.code_view import CodeView
from desktop.gui.chat.error_card import ErrorCard
from desktop.gui.single_instance import InstanceServer, socket_name
from tests.support.window import Desk, MockThread, desk, variables

pytestmark = [
    pytest.mark.slow,
    pytest.mark.qt_log_level_fail("WARNING"),
    pytest.mark.qt_log_ignore("This plugin does not support"),  # raising and size hints
]

READ = MockCall(name="read", input={"file_path": "a.txt"}, id="read_1")
EDIT = MockCall(
    name="edit",
    input={"file_path": "a.txt", "old_string": "value 0", "new_string": "value 1"},
    id="edit_1",
)
SCRIPT = MockScript(
    rules=(
        MockRule(
            when="[edit]",
            turns=(
                MockTurn(text="I look first.", calls=(READ,)),
                MockTurn(text="Now I change it.", calls=(EDIT,)),
                MockTurn(text="It is done. The model was told: {last_result}", deltas=4),
            ),
        ),
        MockRule(when="[slow]", turns=(MockTurn(text="slowly " * 200, deltas=200, rate=20),)),
        MockRule(when="[one]", turns=(MockTurn(text="First answer.", delay=1.0),)),
        MockRule(when="[two]", turns=(MockTurn(text="Second answer."),)),
        MockRule(when="[three]", turns=(MockTurn(text="Third answer."),)),
        MockRule(when="[tunnel]", turns=(MockTurn(text="No.", fault="unauthorized"),)),
    ),
    turns=tuple(MockTurn(text="Hello.") for _ in range(9)),
)


class World:
    """A home with a folder to work in, and a mocked model."""

    def __init__(self, root: Path, mock: MockThread, patch: pytest.MonkeyPatch) -> None:
        self.home = root / "home"
        self.project = self.home / "我的 project"
        self.project.mkdir(parents=True)
        (self.project / "a.txt").write_text("value 0\n")
        self.mock = mock
        self.variables = variables(self.home, mock.server.url)
        for name, value in self.variables.items():
            patch.setenv(name, value)

    @property
    def content(self) -> str:
        return (self.project / "a.txt").read_text()

    def desk(self) -> AbstractContextManager[Desk]:
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        return desk(app, self.home)


@pytest.fixture
def world(tmp_path: Path, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    assert qapp is not None
    with MockThread(SCRIPT) as mock:
        yield World(tmp_path, mock, monkeypatch)


# ------------------------------------------------------------------ the main job


def test_from_the_composer_to_an_edited_file_and_back(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        shown.send("[edit] Raise the value.")
        shown.wait_asked()
        assert world.content == "value 0\n"
        assert "a.txt" in shown.request.where.text() + shown.request.title.text()
        shown.until(  # the call may come after the question
            lambda: "-value0" in shown.request.diff.toPlainText().replace(" ", ""), "the diff"
        )
        shown.wait_status("waiting")
        shown.allow()
        shown.wait_status("idle")
        assert not shown.request.isVisible()
        assert world.content == "value 1\n"
        card = shown.tool_card("edit")
        shown.click(card.header)
        shown.until(lambda: "+value 1" in _diff_of(shown), "the edit is shown as a diff")
        assert "-value 0" in _diff_of(shown)
        told = shown.texts()
        assert told[0] == "[edit] Raise the value."
        assert told[-1].startswith("It is done.")
        stored = shown.session_file().read_text(encoding="utf-8")
        assert '"value 1"' in stored
        assert "It is done." in stored
        assert str(world.project) in stored
    with world.desk() as shown:
        shown.until(lambda: shown.model.count, "what was there is shown again")
        assert shown.texts() == told
        assert shown.status == "idle"
        assert shown.composer.edit.toPlainText() == ""


def _diff_of(shown: Desk) -> str:
    card = shown.tool_card("edit")
    views = [v for section in card.sections for v in section.findChildren(CodeView)]
    return "\n".join(view.toPlainText() for view in views if view.isVisible())


def test_denied_with_a_reason_that_the_model_gets(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        shown.send("[edit] Raise the value.")
        shown.wait_asked()
        shown.request.instead.setFocus()
        QTest.keyClicks(shown.request.instead, "Ask my cat instead.")
        QTest.keyClick(shown.request.instead, Qt.Key.Key_Return)
        shown.wait_status("idle")
        assert world.content == "value 0\n"
        results = [r.asked.last_result for r in world.mock.requests if r.asked is not None]
        assert "Ask my cat instead." in results[-1]
        assert shown.last.startswith("It is done.")
        part = shown.model.call("edit_1")
        assert part is not None
        assert part.state.denied  # type: ignore[union-attr]


def test_denied_without_a_reason_ends_the_run(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        shown.send("[edit] Raise the value.")
        shown.wait_asked()
        shown.click(shown.request.deny)
        shown.wait_status("idle")
        assert world.content == "value 0\n"
        assert not shown.request.isVisible()


def test_stopped_while_it_streams(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        shown.send("[slow] Go on.")
        shown.until(lambda: shown.last.startswith("slowly"), "the answer streams")
        shown.until(shown.composer.stop.isVisible, "stop is offered")
        shown.click(shown.composer.stop)
        shown.wait_status("idle")
        shown.until(lambda: not shown.composer.stop.isVisible(), "stop has gone")
        assert 0 < len(shown.last) < 200 * 7
        before = shown.texts()
        shown.send("[two] And now?")
        shown.until(lambda: shown.texts()[-1] == "Second answer.", "it goes on after a stop")
        assert shown.texts()[: len(before)] == before


def test_queue_while_it_runs(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        shown.send("[one] First.")
        shown.wait_status("running")
        shown.send("[two] Second.")
        shown.send("[three] Third.")
        bar = shown.composer.queue
        shown.until(lambda: len(bar._state.queued) == 2, "both are queued")
        assert bar.isVisible()
        assert [prompt.text for prompt in bar._state.queued] == ["[two] Second.", "[three] Third."]
        bar.remove_wanted.emit(bar._state.queued[0].id)
        shown.until(lambda: len(bar._state.queued) == 1, "one was removed")
        shown.until(lambda: shown.last == "Third answer.", "the other one is delivered")
        shown.wait_status("idle")
        assert shown.texts() == [
            *("[one] First.", "First answer.", "[three] Third.", "Third answer.")
        ]
        assert not bar.isVisible()


# ------------------------------------------------------------------------ errors


def one_error(shown: Desk) -> ErrorCard:
    """Return the one card of an error, once the run has failed."""
    shown.wait_status("failed")
    shown.until(lambda: shown.cards(ErrorCard), "an error is shown")
    QTest.qWait(200)  # a second card would come now
    (card,) = shown.cards(ErrorCard)
    return card


def said(card: ErrorCard) -> str:
    return f"{card.title.text()} {card.detail.text()}"


def test_refused_key_is_one_card_with_the_next_step(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        world.mock.server.push(MockTurn(fault="unauthorized"))
        shown.send("[two] Hello.")
        card = one_error(shown)
        assert "key" in said(card).lower()
        assert shown.notes() == []
        assert shown.texts() == ["[two] Hello."]
        shown.click(card.retry)
        shown.until(lambda: shown.last == "Second answer.", "it is tried again")
        shown.wait_status("idle")
        told = shown.texts()
        assert told == ["[two] Hello.", "Second answer."]
        shown.send("[three] More.")
        shown.until(lambda: shown.last == "Third answer.", "it goes on after an error")
        shown.wait_status("idle")


def test_unreachable_server_is_one_card_with_the_next_step(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZPI_BASE_URL", "http://127.0.0.1:9/v1")
    with world.desk() as shown:
        shown.open_folder(world.project)
        shown.send("[two] Hello.")
        shown.until(lambda: shown.status in ("retry", "failed"), "it is noticed", seconds=10)
        shown.until(lambda: shown.status == "failed", "it gives up", seconds=60)
        card = one_error(shown)
        assert "127.0.0.1:9" in said(card)
        assert card.retry.isVisible()
        assert shown.notes() == []
    with world.desk() as shown:
        shown.until(lambda: shown.status == "failed", "the failure is remembered")
        shown.until(lambda: shown.cards(ErrorCard), "and shown")
        (card,) = shown.cards(ErrorCard)
        assert "127.0.0.1:9" in said(card)
        assert card.retry.isVisible()


def test_folder_that_has_gone(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        shown.send("[two] Hello.")
        shown.until(lambda: shown.last == "Second answer.", "an answer")
        shown.wait_status("idle")
        away = world.home / "elsewhere"
        world.project.rename(away)
        shown.send("[three] More.")
        shown.until(lambda: shown.notes() or shown.cards(ErrorCard), "it is said")
        QTest.qWait(300)
        told = [*shown.notes(), *map(said, shown.cards(ErrorCard))]
        assert len(told) == 1, told
        assert str(world.project) in told[0]
        assert shown.composer.edit.toPlainText() == "[three] More."
        away.rename(world.project)
        QTest.keyClick(shown.composer.edit, Qt.Key.Key_Return)
        shown.until(lambda: shown.last == "Third answer.", "it goes on")
        shutil.move(world.project, away)
    with world.desk() as shown:
        shown.until(lambda: shown.model.count == 4, "it can be read without its folder")
        assert not shown.composer.send.isEnabled()
        assert str(world.project) in shown.composer.note.text()


def test_damaged_session_can_be_read(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        shown.send("[two] Hello.")
        shown.until(lambda: shown.last == "Second answer.", "an answer")
        shown.send("[three] More.")
        shown.until(lambda: shown.last == "Third answer.", "an answer")
        shown.wait_status("idle")
        path = shown.session_file()
    lines = path.read_bytes().split(b"\n")
    middle = next(at for at, line in enumerate(lines) if b"Second answer." in line)
    lines[middle] = lines[middle][:-20]
    path.write_bytes(b"\n".join(lines))
    kept = path.read_bytes()
    with world.desk() as shown:
        shown.until(lambda: shown.model.count, "the session is shown")
        shown.until(lambda: "can only be read" in shown.composer.note.text(), "it says so")
        shown.type("More?")
        assert not shown.composer.send.isEnabled()
        assert shown.texts()[0] == "[two] Hello."
    assert path.read_bytes() == kept


def test_session_that_cannot_be_stored(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        folder = shown.paths.sessions
        shutil.rmtree(folder, ignore_errors=True)
        folder.write_text("in the way")
        shown.send("[two] Hello.")
        shown.until(lambda: shown.notes() or shown.cards(ErrorCard), "it is said")
        QTest.qWait(300)
        told = [*shown.notes(), *map(said, shown.cards(ErrorCard))]
        assert len(told) == 1, told
        assert str(folder) in told[0]
        assert shown.host_pid
        folder.unlink()
        shown.composer.edit.clear()
        shown.open_folder(world.project)
        shown.send("[three] More.")
        shown.until(lambda: shown.last == "Third answer.", "it goes on")


# ------------------------------------------------------------- input, second start


def test_enter_while_composing_does_not_send(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        edit = shown.composer.edit
        shown.until(shown.composer.model.isEnabled, "it is ready")
        QCoreApplication.sendEvent(edit, QInputMethodEvent("ni hao", []))
        QTest.keyClick(edit, Qt.Key.Key_Return)
        chosen = QInputMethodEvent("", [])
        chosen.setCommitString("你好")
        QCoreApplication.sendEvent(edit, chosen)
        # Some platforms deliver the Enter that chose the candidate as well, at once.
        QCoreApplication.sendEvent(edit, _enter())
        QTest.qWait(300)
        assert edit.toPlainText() == "你好"
        assert world.mock.requests == []
        QTest.keyClick(edit, Qt.Key.Key_Return)
        shown.until(lambda: shown.last == "Hello.", "the next Enter sends")
        assert shown.texts()[0] == "你好"


def _enter() -> QKeyEvent:
    return QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Return, Qt.KeyboardModifier.NoModifier, "\r")


def test_second_start_raises_the_first_window_and_ends(
    world: World, request: pytest.FixtureRequest
) -> None:
    raised: list[bool] = []
    with world.desk() as shown:

        def forward() -> None:
            raised.append(True)
            shown.window.come_forward()

        server = InstanceServer(name=socket_name(shown.paths.data), on_raise=forward)
        request.addfinalizer(server.deleteLater)
        shown.main.showMinimized()
        shown.until(shown.main.isMinimized, "it is minimised")
        code, errors = run_second(shown, world.variables)
        assert (code, errors) == (0, "")
        assert raised == [True]
        assert not shown.main.isMinimized()
        assert shown.lost == []


def run_second(shown: Desk, environ: dict[str, str]) -> tuple[int, str]:
    """Start the program once more while the window's event loop runs."""
    process = QProcess()
    around = QProcessEnvironment()
    for name, value in environ.items():
        around.insert(name, value)
    process.setProcessEnvironment(around)
    process.start(sys.executable, ["-m", "desktop"])
    ended: Callable[[], bool] = lambda: process.state() == QProcess.ProcessState.NotRunning  # noqa: E731
    shown.until(ended, "the second program ends")
    return process.exitCode(), bytes(process.readAllStandardError().data()).decode()


def test_interrupted_run_is_continued(world: World) -> None:
    with world.desk() as shown:
        shown.open_folder(world.project)
        shown.send("[edit] Raise the value.")
        shown.wait_asked()
    with world.desk() as shown:
        shown.until(lambda: shown.status == "interrupted", "it shows as interrupted")
        shown.until(lambda: shown.cards(LineCard), "a line says so")
        card = shown.cards(LineCard)[-1]
        assert "interrupted" in card.label.text().lower()
        shown.click(card.action)
        shown.until(lambda: shown.last.startswith("It is done."), "it goes on")
        shown.wait_status("idle")
        assert shown.texts().count("[edit] Raise the value.") == 1
        assert "Not run" in shown.last  # what the model was told of the call
        assert world.content == "value 0\n"
        shown.until(lambda: not shown.cards(LineCard), "the line has gone")
