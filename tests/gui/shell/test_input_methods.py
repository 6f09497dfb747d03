"""Enter while an input method composes never submits, in every field that submits."""

from collections.abc import Callable
from typing import Literal

import pytest
from PySide6.QtCore import QCoreApplication, QSettings, Qt
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from desktop.bridge.messages import KeyStoreInfo
from desktop.bridge.protocol import (
    ChangePassphrase,
    ProviderTested,
    RenameSession,
    SetPassphrase,
    SubmitPrompt,
    TestProvider,
    UnlockKeys,
)
from desktop.gui.theme import Theme
from desktop.gui.widgets.ime import SubmitLine
from tests.support.fake_bridge import FakeBridge
from tests.support.repository import ROOT
from tests.support.shell import Shell, models, row, shell


def compose(field: QWidget, text: str) -> None:
    """Let an input method show a text that is not decided yet."""
    QCoreApplication.sendEvent(field, QInputMethodEvent(text, []))


def commit(field: QWidget, text: str) -> None:
    """Let an input method decide."""
    event = QInputMethodEvent("", [])
    event.setCommitString(text)
    QCoreApplication.sendEvent(field, event)


@pytest.fixture
def made(qtbot: QtBot, fake_bridge: FakeBridge, theme: Theme, store: QSettings) -> Shell:
    made = shell(bridge=fake_bridge, theme=theme, store=store)
    qtbot.addWidget(made.window)
    made.window.show()
    qtbot.waitExposed(made.window)
    made.start(row("a"))
    return made


Case = tuple[QWidget, Callable[[], int]]
Finder = Callable[[Shell], Case]


def prompt(made: Shell) -> Case:
    made.window.navigator.open("a")
    return made.window.area.composer.edit, lambda: len(made.bridge.of(SubmitPrompt))


def rename(made: Shell) -> Case:
    bar = made.window.sidebar
    bar.list.setCurrentIndex(bar.model.index(bar.model.row_of("a")))
    bar.list.edit(bar.list.currentIndex())
    editor = bar.list.findChild(SubmitLine)
    assert editor is not None
    editor.clear()
    return editor, lambda: len(made.bridge.of(RenameSession))


def form_field(name: str) -> Callable[[Shell], Case]:
    def field(made: Shell) -> Case:
        made.window.show_settings()
        made.bridge.script[TestProvider] = ProviderTested(reached=True, answered=True)
        page = made.window.settings_page.models
        page.edit(None)
        form = page.form
        form.preset.setCurrentIndex(form.preset.count() - 1)
        model = form.model.lineEdit()
        assert model is not None
        lines: dict[str, QLineEdit] = {
            "name": form.name,
            "address": form.address,
            "key": form.key,
            "model": model,
        }
        good = {"name": "mine", "address": "https://x.example/v1", "key": "k", "model": "m"}
        for each, line in lines.items():
            if each != name:
                line.setText(good[each])
        return lines[name], lambda: len(made.bridge.of(TestProvider))

    field.__name__ = f"form_{name}"
    return field


def passphrase_field(name: str, mode: Literal["session", "passphrase", "locked"]) -> Finder:
    def field(made: Shell) -> Case:
        info = KeyStoreInfo(mode=mode, locked_by="passphrase")
        made.bridge.publish(models(store=info))
        made.window.show_settings()
        box = made.window.settings_page.models.passphrase
        if mode != "locked":
            (box.begin if mode == "session" else box.change).click()
        lines = {"current": box.current, "phrase": box.phrase, "again": box.again}
        for each, line in lines.items():
            if each != name:
                line.setText(PHRASE)
        kinds = (SetPassphrase, UnlockKeys, ChangePassphrase)
        return lines[name], lambda: sum(isinstance(each, kinds) for each in made.bridge.sent)

    return field


PHRASE = "四个没有人知道的词语组成的口令"
FIELDS = {
    "prompt": (prompt, "你好"),
    "rename": (rename, "你好"),
    "name": (form_field("name"), "mine"),
    "address": (form_field("address"), "https://x.example"),
    "key": (form_field("key"), "key"),
    "model": (form_field("model"), "模型"),
    "set passphrase": (passphrase_field("phrase", "session"), PHRASE),
    "set again": (passphrase_field("again", "session"), PHRASE),
    "unlock": (passphrase_field("phrase", "locked"), PHRASE),
    "current": (passphrase_field("current", "passphrase"), PHRASE),
    "changed": (passphrase_field("phrase", "passphrase"), PHRASE),
    "changed again": (passphrase_field("again", "passphrase"), PHRASE),
}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter], ids=["return", "enter"])
def test_enter_confirms_the_candidate_and_nothing_else(
    made: Shell, qtbot: QtBot, name: str, key: Qt.Key
) -> None:
    find, text = FIELDS[name]
    field, submitted = find(made)
    compose(field, "ni hao")
    QTest.keyClick(field, key)
    assert submitted() == 0
    assert field.isVisible()
    # Some platforms deliver the key that confirmed the candidate right after the text.
    commit(field, text)
    QTest.keyClick(field, key)
    assert submitted() == 0
    qtbot.wait(1)
    # The next Enter is the user's own.
    QTest.keyClick(field, key)
    qtbot.waitUntil(lambda: submitted() == 1)


def test_a_composition_that_is_given_up_leaves_enter_alone(made: Shell, qtbot: QtBot) -> None:
    field, submitted = prompt(made)
    made.window.area.composer.edit.setPlainText("hello")
    compose(field, "ni")
    compose(field, "")
    qtbot.wait(1)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert submitted() == 1


def test_escape_while_composing_leaves_the_title_open(made: Shell, qtbot: QtBot) -> None:
    editor, _submitted = rename(made)
    compose(editor, "ni")
    QTest.keyClick(editor, Qt.Key.Key_Escape)
    assert editor.isVisible()


def test_shift_enter_makes_no_line_while_composing(made: Shell, qtbot: QtBot) -> None:
    field, _submitted = prompt(made)
    compose(field, "ni")
    QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert made.window.area.composer.edit.toPlainText() == ""


def test_only_the_shared_field_listens_to_enter() -> None:
    """Whoever else connects to ``returnPressed`` would submit while an input method composes."""
    sources = (ROOT / "desktop" / "gui").rglob("*.py")
    found = [path.name for path in sources if "returnPressed" in path.read_text("utf-8")]
    assert found == ["ime.py"]


def test_fields_that_submit_are_the_shared_kind(made: Shell) -> None:
    """The search field, which filters as one types, is the only other line."""
    lines = {
        line.objectName() or line.accessibleName()
        for line in made.window.findChildren(QLineEdit)
        if not isinstance(line, SubmitLine)
    }
    assert lines <= {"search", "qt_spinbox_lineedit"}
