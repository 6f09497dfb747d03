"""Questions: what is shown is what is answered, and nothing is allowed by accident."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QInputMethodEvent, QKeyEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from agent_sdk.events.wire import PermissionAskedEvent, PermissionRepliedEvent, ToolPending
from desktop.bridge.messages import PermissionsState
from desktop.bridge.protocol import ContinueRun, ReplyPermission
from desktop.gui.chat.chat_page import ChatPage
from tests.gui.chat.conftest import Desk
from tests.support import chat_samples as make
from tests.support.fake_bridge import FakeBridge

Settle = Callable[[], None]
COMMAND = "rm -rf \u202e/tmp"


def ask(
    page: ChatPage, bridge: FakeBridge, command: str = COMMAND, **more: object
) -> PermissionAskedEvent:
    part = make.tool("r1.1.0", "bash", ToolPending(input={"command": command}))
    page.show_session(
        make.opened([make.user("u", "Do it."), make.answer("r1.1", part)], status="waiting")
    )
    asked = make.asked("bash", part.call_id, patterns=(command,), **more)
    bridge.publish(PermissionsState(waiting=(asked,)))
    QApplication.processEvents()
    return asked


def press(widget: QWidget, key: Qt.Key, *, repeated: bool = False) -> None:
    event = QKeyEvent(QEvent.Type.KeyPress, key, Qt.KeyboardModifier.NoModifier, "", repeated)
    QApplication.sendEvent(widget, event)


def replies(bridge: FakeBridge) -> list[ReplyPermission]:
    return bridge.of(ReplyPermission)


def test_an_answer_carries_the_question_and_the_hash(
    page: ChatPage, fake_bridge: FakeBridge, desk: Desk
) -> None:
    ask(page, fake_bridge)
    assert page.request.view.toPlainText() == "rm -rf ‹U+202E›/tmp"
    desk.clock.now += 1
    press(page.request, Qt.Key.Key_Return)
    assert replies(fake_bridge) == [
        ReplyPermission(session_id="s1", request_id="q1", input_hash="hash", reply="once")
    ]
    press(page.request, Qt.Key.Key_Return)
    press(page.request, Qt.Key.Key_Escape)
    assert len(replies(fake_bridge)) == 1


def test_enter_that_was_meant_for_something_else_allows_nothing(
    page: ChatPage, fake_bridge: FakeBridge, desk: Desk
) -> None:
    ask(page, fake_bridge)
    press(page.request, Qt.Key.Key_Return)
    desk.clock.now += 1
    press(page.request, Qt.Key.Key_Return, repeated=True)
    assert replies(fake_bridge) == []


def test_escape_denies_with_what_to_do_instead(page: ChatPage, fake_bridge: FakeBridge) -> None:
    ask(page, fake_bridge)
    page.request.instead.setText("Use git rm.")
    press(page.request, Qt.Key.Key_Escape)
    reply = fake_bridge.last(ReplyPermission)
    assert (reply.reply, reply.reason) == ("reject", "Use git rm.")


def test_enter_in_the_field_denies_but_not_while_composing(
    page: ChatPage, fake_bridge: FakeBridge
) -> None:
    ask(page, fake_bridge)
    field = page.request.instead
    QApplication.sendEvent(field, QInputMethodEvent("ni", []))
    press(field, Qt.Key.Key_Return)
    assert replies(fake_bridge) == []
    commit = QInputMethodEvent("", [])
    commit.setCommitString("你")
    QApplication.sendEvent(field, commit)
    QApplication.processEvents()
    press(field, Qt.Key.Key_Return)
    assert fake_bridge.last(ReplyPermission).reason == "你"


def test_always_only_where_it_may_be_and_it_says_what_it_means(
    page: ChatPage, fake_bridge: FakeBridge
) -> None:
    ask(page, fake_bridge)
    assert page.request.always.isHidden()
    page.request.allow_always()
    assert replies(fake_bridge) == []
    ask(page, fake_bridge, request_id="q2", can_always=True, always=("bash git push*",))
    assert not page.request.always.isHidden()
    assert "bash git push*" in page.request.means.text()
    page.request.always.click()
    assert fake_bridge.last(ReplyPermission).reply == "always"


def test_what_is_long_must_be_seen_to_its_end(
    page: ChatPage, fake_bridge: FakeBridge, desk: Desk
) -> None:
    ask(page, fake_bridge, "\n".join(f"echo {n}" for n in range(200)), can_always=True)
    desk.clock.now += 1
    card = page.request
    assert not card.once.isEnabled()
    assert not card.always.isEnabled()
    assert card.deny.isEnabled()
    assert "Scroll" in card.hint.text()
    press(card, Qt.Key.Key_Return)
    assert replies(fake_bridge) == []
    for _ in range(100):
        press(card, Qt.Key.Key_PageDown)
    assert card.once.isEnabled()
    assert card.hint.isHidden()
    press(card, Qt.Key.Key_Return)
    assert fake_bridge.last(ReplyPermission).reply == "once"


def test_what_came_after_the_question_must_be_seen_too(
    page: ChatPage, fake_bridge: FakeBridge, desk: Desk
) -> None:
    asked = ask(page, fake_bridge, "short")
    card = page.request
    card.ask(asked, None)
    desk.clock.now += 1
    assert card.once.isEnabled()
    command = "\n".join(f"echo {n}" for n in range(200))
    card.ask(asked, make.tool("r1.1.0", "bash", ToolPending(input={"command": command})))
    assert not card.once.isEnabled()
    assert "Scroll" in card.hint.text()
    for _ in range(100):
        press(card, Qt.Key.Key_PageDown)
    assert card.once.isEnabled()
    press(card, Qt.Key.Key_Return)
    assert replies(fake_bridge) == []  # Enter was meant for what stood there before
    desk.clock.now += 1
    press(card, Qt.Key.Key_Return)
    assert fake_bridge.last(ReplyPermission).reply == "once"


def test_a_long_line_is_wrapped_so_that_none_of_it_hides(
    page: ChatPage, fake_bridge: FakeBridge
) -> None:
    ask(page, fake_bridge, "echo " + "x" * 3000)
    view = page.request.view
    assert view.horizontalScrollBar().maximum() < 8  # less than a character
    assert view.verticalScrollBar().maximum() > 0
    assert not page.request.once.isEnabled()


def test_it_takes_the_keyboard_only_from_an_empty_composer(
    page: ChatPage, fake_bridge: FakeBridge, desk: Desk, qtbot: QtBot
) -> None:
    page.view.setFocus()
    desk.composer = "I am writing"
    ask(page, fake_bridge)
    assert not page.request.hasFocus()
    desk.composer = ""
    ask(page, fake_bridge, request_id="q2")
    assert page.window().focusWidget() is page.request


@pytest.mark.parametrize("reply", ["once", "always", "reject"])
def test_an_answer_from_elsewhere_closes_it(
    page: ChatPage, fake_bridge: FakeBridge, reply: str
) -> None:
    ask(page, fake_bridge)
    event = PermissionRepliedEvent(session_id="s1", request_id="q1", reply=reply)  # type: ignore[arg-type]
    fake_bridge.tell(make.Events().of(event))
    assert page.request.isHidden()


def test_an_expired_question_says_so_and_has_no_dead_button(
    page: ChatPage, fake_bridge: FakeBridge, desk: Desk
) -> None:
    ask(page, fake_bridge)
    event = PermissionRepliedEvent(session_id="s1", request_id="q1", reply="expired")
    fake_bridge.tell(make.Events().of(event))
    fake_bridge.publish(PermissionsState())
    card = page.request
    assert not card.isHidden()
    assert "expired" in card.hint.text()
    assert [b.isHidden() for b in (card.once, card.always, card.deny, card.instead)] == [True] * 4
    card.dismiss.click()
    assert card.isHidden()
    assert replies(fake_bridge) == []


def test_after_a_restart_what_was_asked_is_shown_as_expired(
    page: ChatPage, fake_bridge: FakeBridge
) -> None:
    question = make.asked("bash", "c", patterns=("make deploy",))
    page.show_session(
        make.opened(
            [make.user("u", "Deploy.")],
            status="interrupted",
            expired=(question,),
            can_continue=True,
        )
    )
    assert "expired" in page.request.hint.text()
    assert page.request.view.toPlainText() == "make deploy"
    press(page.request, Qt.Key.Key_Escape)
    assert page.request.isHidden()


def test_an_answer_that_is_refused_can_be_given_again(
    page: ChatPage, fake_bridge: FakeBridge, desk: Desk
) -> None:
    fake_bridge.fail(ReplyPermission, code="invalid_input", text="It was about something else.")
    ask(page, fake_bridge)
    desk.clock.now += 1
    page.request.once.click()
    assert "something else" in page.request.hint.text()
    assert page.request.once.isEnabled()


def test_a_question_takes_room_only_while_it_is_there(
    page: ChatPage, fake_bridge: FakeBridge
) -> None:
    page.show_session(make.opened([]))
    QApplication.processEvents()
    assert page.view.height() == page.height()
    ask(page, fake_bridge)
    assert page.request.geometry().bottom() < page.height() - 5
    fake_bridge.publish(PermissionsState())
    QApplication.processEvents()
    assert page.view.height() == page.height()


def test_questions_of_other_sessions_are_not_asked_here(
    page: ChatPage, fake_bridge: FakeBridge
) -> None:
    page.show_session(make.opened([]))
    other = make.asked("bash", "c", patterns=("x",), session_id="s2")
    fake_bridge.publish(PermissionsState(waiting=(other,)))
    assert page.request.isHidden()


def test_questions_come_one_after_the_other(page: ChatPage, fake_bridge: FakeBridge) -> None:
    first = ask(page, fake_bridge)
    second = make.asked("bash", "c2", patterns=("ls",), request_id="q2")
    fake_bridge.publish(PermissionsState(waiting=(first, second)))
    assert page.request.count.text() == "1 of 2"
    fake_bridge.publish(PermissionsState(waiting=(second,)))
    assert page.request.count.text() == ""
    assert page.request.view.toPlainText() == "ls"


def test_buttons_are_named_and_reached_in_order(page: ChatPage, fake_bridge: FakeBridge) -> None:
    ask(page, fake_bridge, can_always=True)
    card = page.request
    assert card.accessibleName()
    assert card.instead.accessibleName()
    order = []
    widget: QWidget | None = card
    for _ in range(40):
        widget = widget.nextInFocusChain() if widget is not None else None
        if widget in (card.once, card.always, card.deny, card.instead):
            order.append(widget)
    assert order[:3] in (
        [card.instead, card.once, card.always],
        [card.once, card.always, card.deny],
    )


def test_a_failed_continue_is_told(page: ChatPage, fake_bridge: FakeBridge, settle: Settle) -> None:
    fake_bridge.fail(ContinueRun, code="storage", text="The disk said no.", hint="Try later.")
    page.show_session(make.opened([make.user("u", "Hi")], status="interrupted", can_continue=True))
    settle()
    page.tools.go_on()
    settle()
    assert [row.kind for row in page.view.places.rows(0)] == ["user", "error"]
