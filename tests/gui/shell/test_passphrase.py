"""The settings' box for a passphrase, and what the window says while keys are locked by one."""

import pytest
from msgspec import structs
from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton
from pytestqt.qtbot import QtBot

from desktop.bridge.messages import ErrorInfo, KeyStoreInfo
from desktop.bridge.protocol import (
    ChangePassphrase,
    Done,
    Failed,
    ForgetPassphrase,
    SetPassphrase,
    UnlockKeys,
)
from desktop.gui import i18n
from desktop.gui.settings.passphrase_box import PassphraseBox, Step, step_of
from desktop.gui.theme import Theme
from desktop.gui.widgets.confirm import Confirmation
from tests.support.fake_bridge import FakeBridge
from tests.support.shell import Shell, locked_models, models, row, shell

PHRASE = "four words that nobody knows"
NEW_PHRASE = "and four others that nobody knows"
SESSION = KeyStoreInfo(mode="session")
OPEN = KeyStoreInfo(mode="passphrase", locked_by="passphrase")
LOCKED = KeyStoreInfo(mode="locked", locked_by="passphrase")


@pytest.fixture
def made(qtbot: QtBot, fake_bridge: FakeBridge, theme: Theme, store: QSettings) -> Shell:
    made = shell(bridge=fake_bridge, theme=theme, store=store)
    qtbot.addWidget(made.window)
    made.window.show()
    qtbot.waitExposed(made.window)
    return made


def box_with(made: Shell, info: KeyStoreInfo) -> PassphraseBox:
    made.start(row("a"), models_state=models(store=info))
    made.window.show_settings()
    return made.window.settings_page.models.passphrase


def notices(made: Shell) -> str:
    bar = made.window.notices
    return "\n".join(label.text() for label in bar.findChildren(QLabel) if label.isVisible())


@pytest.mark.parametrize(
    ("info", "editing", "step"),
    [
        (None, False, "none"),
        (KeyStoreInfo(mode="pending"), True, "none"),
        (KeyStoreInfo(mode="keyring"), True, "none"),
        (KeyStoreInfo(mode="locked"), True, "none"),
        (SESSION, False, "offer"),
        (SESSION, True, "set"),
        (OPEN, False, "open"),
        (OPEN, True, "change"),
        (LOCKED, True, "locked"),
    ],
)
def test_it_is_offered_only_where_there_is_no_key_ring(
    info: KeyStoreInfo | None, editing: bool, step: Step
) -> None:
    assert step_of(info, editing=editing) == step


def test_with_a_key_ring_there_is_no_box(made: Shell) -> None:
    box = box_with(made, KeyStoreInfo(mode="keyring"))
    assert not box.isVisible()
    assert notices(made) == ""


def test_keys_are_protected(made: Shell) -> None:
    box = box_with(made, SESSION)
    assert box.begin.isVisible()
    assert not box.phrase.isVisible()
    box.begin.click()
    assert box.phrase.hasFocus()
    for line in (box.phrase, box.again):
        assert line.echoMode() == QLineEdit.EchoMode.Password
    QTest.keyClicks(box.phrase, PHRASE)
    QTest.keyClicks(box.again, PHRASE)
    made.bridge.hold = True
    box.submit.click()
    box.submit.click()
    QTest.keyClick(box.again, Qt.Key.Key_Return)
    assert made.bridge.of(SetPassphrase) == [SetPassphrase(passphrase=PHRASE)]
    assert not box.submit.isEnabled()
    made.bridge.publish(models(store=OPEN))
    made.bridge.answer(Done())
    assert (box.step, box.phrase.text(), box.again.text()) == ("open", "", "")
    assert box.change.isVisible()
    assert box.forget.isEnabled()
    assert not box.submit.isVisible()


@pytest.mark.parametrize(
    ("phrase", "again", "problem"),
    [
        ("", "", "at least 12 characters"),
        ("eleven char", "eleven char", "would soon find a short one"),
        (PHRASE, "", "not the same"),
        (PHRASE, PHRASE + " ", "not the same"),
    ],
)
def test_what_cannot_be_used_is_said_and_not_sent(
    made: Shell, phrase: str, again: str, problem: str
) -> None:
    box = box_with(made, SESSION)
    box.begin.click()
    box.phrase.setText(phrase)
    box.again.setText(again)
    box.submit.click()
    assert problem in box.problem.text()
    assert made.bridge.of(SetPassphrase) == []
    QTest.keyClicks(box.again, "x")
    assert not box.problem.isVisible()


def test_the_length_is_shown_as_one_types(made: Shell) -> None:
    box = box_with(made, SESSION)
    box.begin.click()
    assert box.length.text() == "0 of at least 12 characters"
    QTest.keyClicks(box.phrase, "four")
    assert box.length.text() == "4 of at least 12 characters"
    box.phrase.setText(PHRASE)
    assert box.length.text() == f"{len(PHRASE)} characters"


def test_giving_it_up_leaves_nothing_in_the_fields(made: Shell) -> None:
    box = box_with(made, SESSION)
    box.begin.click()
    box.phrase.setText(PHRASE)
    box.cancel.click()
    assert box.begin.isVisible()
    box.begin.click()
    assert box.phrase.text() == ""


def test_a_new_state_of_the_same_kind_leaves_what_is_typed(made: Shell) -> None:
    box = box_with(made, SESSION)
    box.begin.click()
    box.phrase.setText(PHRASE)
    made.bridge.publish(models(store=SESSION, key="none"))
    assert box.phrase.text() == PHRASE


# ------------------------------------------------------------------- unlocking


def test_locked_keys_are_told_at_once_with_the_next_step(made: Shell) -> None:
    made.start(row("a"), models_state=locked_models())
    assert "locked" in notices(made)
    assert "Enter your passphrase" in notices(made)
    (act,) = [
        each
        for each in made.window.notices.findChildren(QPushButton)
        if each.isVisible() and each.text() == "Unlock…"
    ]
    act.click()
    box = made.window.settings_page.models.passphrase
    assert box.phrase.hasFocus()
    QTest.keyClicks(box.phrase, PHRASE)
    QTest.keyClick(box.phrase, Qt.Key.Key_Return)
    assert made.bridge.of(UnlockKeys) == [UnlockKeys(passphrase=PHRASE)]
    made.bridge.publish(models(store=OPEN))
    assert notices(made) == ""
    assert box.phrase.text() == ""


def test_the_composer_says_what_is_to_be_done(made: Shell) -> None:
    made.start(row("a"), models_state=locked_models())
    made.window.navigator.open("a")
    composer = made.window.area.composer
    assert composer.remedy.text() == "Unlock…"
    composer.remedy.click()
    assert made.window.settings_page.models.passphrase.phrase.hasFocus()


def test_a_notice_that_was_put_away_comes_back_with_the_next_lock_only(made: Shell) -> None:
    made.start(row("a"), models_state=locked_models())
    made.window.notices.drop("keys_locked")
    made.bridge.publish(structs.replace(locked_models(), default=""))
    assert notices(made) == ""
    made.bridge.publish(models(store=OPEN))
    made.bridge.publish(locked_models())  # the host was started again
    assert "locked" in notices(made)


def test_where_nothing_is_stored_there_is_nothing_to_tell(made: Shell) -> None:
    made.start(row("a"), models_state=models(store=LOCKED, key="none"))
    assert notices(made) == ""


def test_a_wrong_passphrase_is_said_and_can_be_typed_again(made: Shell) -> None:
    box = box_with(made, LOCKED)
    made.bridge.fail(UnlockKeys, code="wrong_passphrase", text="The passphrase is not it.")
    box.submit.click()
    assert box.problem.text() == "Enter the passphrase."
    assert made.bridge.of(UnlockKeys) == []
    box.phrase.setText("not this one")
    box.submit.click()
    assert "not the passphrase" in box.problem.text()
    assert box.phrase.hasFocus()
    assert box.phrase.selectedText() != ""
    assert box.submit.isEnabled()
    QTest.keyClicks(box.phrase, PHRASE)
    assert box.phrase.text() == PHRASE
    assert not box.problem.isVisible()


def test_any_other_failure_is_said_in_the_hosts_words(made: Shell) -> None:
    box = box_with(made, LOCKED)
    made.bridge.hold = True
    box.phrase.setText(PHRASE)
    box.submit.click()
    error = ErrorInfo(code="out_of_memory", text="There is no room.", hint="Close something.")
    made.bridge.answer(Failed(error=error))
    assert box.problem.text() == "There is no room. Close something."
    assert box.phrase.text() == PHRASE


def test_a_key_ring_that_took_over_is_told(made: Shell) -> None:
    box = box_with(made, LOCKED)
    made.bridge.publish(models(store=KeyStoreInfo(mode="keyring", replaced=True)))
    assert not box.isVisible()
    assert "not needed any more" in notices(made)
    assert "not needed any more" in made.window.settings_page.models.key_store.text()
    made.window.notices.drop("passphrase_replaced")
    made.bridge.publish(models(store=KeyStoreInfo(mode="keyring", replaced=True), default=""))
    assert notices(made) == ""


# --------------------------------------------------------- changing, forgetting


def test_it_is_changed(made: Shell) -> None:
    box = box_with(made, OPEN)
    box.change.click()
    assert box.current.hasFocus()
    box.phrase.setText(NEW_PHRASE)
    box.again.setText(NEW_PHRASE)
    box.submit.click()
    assert box.problem.text() == "Enter the current passphrase."
    box.current.setText(PHRASE)
    made.bridge.fail(ChangePassphrase, code="wrong_passphrase", text="no")
    box.submit.click()
    assert box.current.hasFocus()
    assert box.phrase.text() == NEW_PHRASE
    del made.bridge.script[ChangePassphrase]
    box.submit.click()
    assert made.bridge.last(ChangePassphrase) == ChangePassphrase(
        passphrase=PHRASE, new_passphrase=NEW_PHRASE
    )
    assert box.step == "open"
    assert [line.text() for line in (box.current, box.phrase, box.again)] == [""] * 3


@pytest.mark.parametrize("info", [OPEN, LOCKED], ids=["open", "locked"])
def test_it_is_forgotten_after_a_question_and_that_is_confirmed(
    made: Shell, info: KeyStoreInfo
) -> None:
    box = box_with(made, info)

    def asked() -> Confirmation:
        box.forget.click()
        return made.window.findChildren(Confirmation)[-1]

    asked().no.click()
    assert made.bridge.of(ForgetPassphrase) == []

    def forget(_command: ForgetPassphrase) -> Done:
        made.bridge.publish(models(store=SESSION, key="none"))
        return Done()

    made.bridge.script[ForgetPassphrase] = forget
    asked().yes.click()
    assert len(made.bridge.of(ForgetPassphrase)) == 1
    assert box.step == "offer"
    assert "deleted" in box.done.text()
    assert box.done.isVisible()
    box.begin.click()
    assert not box.done.isVisible()


def test_it_speaks_the_users_language(made: Shell) -> None:
    box = box_with(made, LOCKED)
    i18n.set_language("zh")
    i18n.announce()
    assert box.submit.text() == "解锁"
    assert box.phrase.accessibleName() == "口令"
