"""The page of one session: its transcript, and below it the question that waits."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget
from typing_extensions import override

from agent_sdk.events.wire import (
    Event,
    MessageUpdated,
    PermissionAskedEvent,
    PermissionRepliedEvent,
    SessionStatus,
)
from desktop.bridge.messages import OpenedSession, PermissionsState
from desktop.bridge.protocol import (
    Answer,
    ContinueRun,
    Failed,
    MessagesRead,
    ReadMessages,
    ReplyPermission,
    Subscribe,
)
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.chat.cards import CardTools
from desktop.gui.chat.request_card import Answered, RequestCard
from desktop.gui.chat.rows import ErrorItem, Row
from desktop.gui.chat.transcript_model import TranscriptModel
from desktop.gui.chat.transcript_view import MARGIN, MEASURE, TranscriptView
from desktop.gui.error_text import error_text
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons

if TYPE_CHECKING:
    from desktop.gui.chat.row_layout import Anchor

_BELOW = 10
"""Pixels between a question and the composer."""


class ChatPage(QWidget):
    """Shows a session as the bridge tells of it; implements ``ChatLike``.

    Args:
        bridge: The window's end of the channel.
        icons: Icons in the colours of the theme.
        open_link: Opens a web page or mail address.
        composer_empty: Whether nothing is being written, so that a question
            may take the keyboard.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        *,
        bridge: BridgeLike,
        icons: Icons,
        open_link: Callable[[str], None],
        composer_empty: Callable[[], bool],
        clock: Callable[[], float],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._composer_empty = composer_empty
        self._waiting: tuple[PermissionAskedEvent, ...] = ()
        self._expired: list[PermissionAskedEvent] = []
        self._places: dict[str, Anchor] = {}
        self.model = TranscriptModel(clock=clock)
        self.tools = CardTools(
            theme=icons.theme,
            icons=icons,
            open_link=open_link,
            copy=_copy,
            go_on=self._go_on,
            remeasure=self._remeasure,
            clock=clock,
        )
        self.view = TranscriptView(
            model=self.model, tools=self.tools, need_page=self._need_page, parent=self
        )
        self.request = RequestCard(icons=icons, clock=clock, parent=self)
        self.jump = QPushButton(self)
        self.jump.setObjectName("jump")
        self.jump.setCursor(Qt.CursorShape.PointingHandCursor)
        self.jump.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.jump.hide()
        self._lay_out()
        self._restyle()
        icons.theme.changed.connect(self._restyle)
        self.view.moved.connect(self._show_jump)
        self.view.viewport().installEventFilter(self)
        self.request.installEventFilter(self)
        self.jump.clicked.connect(self.view.to_bottom)
        self.request.answered.connect(self._reply)
        self.request.dismissed.connect(self._dismissed)
        bridge.wire_event.connect(self._event)
        bridge.state.connect(self._state)
        bridge.send(Subscribe(topic="permissions"))

    # ---------------------------------------------------------------- ChatLike

    def widget(self) -> QWidget:
        """The widget to put into the window."""
        return self

    def show_session(self, opened: OpenedSession) -> None:
        """Show a session from its tail, or from where its reader has left it."""
        self._remember()
        same = opened.session.id == self.model.session_id
        self.model.open(opened)
        self._expired = list(opened.expired)
        self.view.flush()
        place = self._places.get(opened.session.id)
        if place is not None and place.entry < self.model.count:
            self.view.go_to(place)
        if not same:
            self.request.close_question()
        self._ask()

    def clear(self) -> None:
        """Show no session."""
        self._remember()
        self.model.clear()
        self._expired = []
        self.view.flush()
        self.request.close_question()

    def _remember(self) -> None:
        session_id = self.model.session_id
        self._places.pop(session_id, None)
        if session_id and not self.view.places.sticks:
            self._places[session_id] = self.view.places.anchor

    # ------------------------------------------------------------------ events

    def _event(self, event: Event) -> None:
        if event.session_id != self.model.session_id:
            return
        self.model.apply(event)
        body = event.body
        if isinstance(body, MessageUpdated) and body.message.origin == "human":
            self.view.to_bottom()  # the reader has just sent it
        self.view.model_changed()
        if isinstance(body, SessionStatus) and body.status == "running" and self._expired:
            self._expired = []  # the session goes on
            self._ask()
        elif isinstance(body, PermissionRepliedEvent):
            self._settled(body)
        elif self.request.asked is not None and not self.request.expired:
            self._ask()  # the call that it is about may have come

    def _state(self, state: object) -> None:
        if isinstance(state, PermissionsState):
            self._waiting = state.waiting
            self.model.set_waiting(state.waiting)
            self.view.model_changed()
            self._ask()

    def _settled(self, replied: PermissionRepliedEvent) -> None:
        self._waiting = tuple(a for a in self._waiting if a.request_id != replied.request_id)
        asked = self.request.asked
        if asked is None or asked.request_id != replied.request_id:
            return
        if replied.reply == "expired" and not self.request.sent:
            self._expired.append(asked)
        self._ask()

    # --------------------------------------------------------------- questions

    def _ask(self) -> None:
        """Show the oldest question, or one that has expired, or none."""
        mine = [a for a in self._waiting if a.session_id == self.model.session_id]
        if mine:
            fresh = self.request.asked is None or self.request.asked != mine[0]
            self.request.ask(mine[0], self.model.call(mine[0].call_id), waiting=len(mine))
            if fresh and self._composer_empty() and self.isVisible():
                self.request.setFocus()
        elif self._expired:
            self.request.expire(asked=self._expired[0])
        else:
            self.request.close_question()

    def _reply(self, answered: Answered) -> None:
        command = ReplyPermission(
            session_id=self.model.session_id,
            request_id=answered.request_id,
            input_hash=answered.input_hash,
            reply=answered.reply,
            reason=answered.reason,
        )

        def done(answer: Answer) -> None:
            asked = self.request.asked
            if isinstance(answer, Failed) and asked and asked.request_id == answered.request_id:
                self.request.refuse(error_text(answer.error).title)

        self._bridge.send(command, done)

    def _dismissed(self, request_id: str) -> None:
        self._expired = [each for each in self._expired if each.request_id != request_id]
        self._ask()

    # ---------------------------------------------------------------- commands

    def _need_page(self, first: int, count: int) -> None:
        session_id = self.model.session_id

        def read(answer: Answer) -> None:
            if session_id != self.model.session_id:
                return
            if isinstance(answer, MessagesRead):
                self.model.load(answer.page)
                self.view.model_changed()
            else:
                self.view.page_failed(first)

        self._bridge.send(ReadMessages(session_id=session_id, first=first, count=count), read)

    def _go_on(self) -> None:
        session_id = self.model.session_id

        def done(answer: Answer) -> None:
            if isinstance(answer, Failed) and session_id == self.model.session_id:
                error = answer.error
                self.model.add_error(ErrorItem(error.code, error.text, error.hint))
                self.view.model_changed()

        self._bridge.send(ContinueRun(session_id=session_id), done)

    def _remeasure(self, row: Row) -> None:
        self.view.remeasure(row)

    # ----------------------------------------------------------------- drawing

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.view, 1)
        row = self._dock = QHBoxLayout()
        row.setContentsMargins(MARGIN, 0, MARGIN, 0)
        self.request.setMaximumWidth(MEASURE)
        row.addStretch(1)
        row.addWidget(self.request, 1000)
        row.addStretch(1)
        column.addLayout(row)

    def _restyle(self) -> None:
        tokens = self.tools.theme.tokens
        self.jump.setStyleSheet(
            f"#jump {{ background: {tokens.surface}; border: 1px solid {tokens.border_strong};"
            f" border-radius: 14px; padding: 5px 14px; color: {tokens.text}; }}"
            f"#jump:hover {{ background: {tokens.hover}; }}"
            f"#jump:focus {{ border-color: {tokens.accent}; }}"
        )

    def _show_jump(self) -> None:
        shown = not self.view.places.sticks and self.model.count > 0
        if shown:
            new = self.view.unseen
            text = tr("Jump to latest ({count} new)", count=new) if new else tr("Jump to latest")
            self.jump.setText(f"↓ {text}")
            self._place_jump()
        self.jump.setVisible(shown)

    def _place_jump(self) -> None:
        size = self.jump.sizeHint()
        area = self.view.geometry()
        at = QPoint(area.center().x() - size.width() // 2, area.bottom() - size.height() - 12)
        self.jump.setGeometry(at.x(), at.y(), size.width(), size.height())
        self.jump.raise_()

    @override
    def eventFilter(self, watched: QObject, event: QEvent, /) -> bool:
        if watched is self.request:
            if event.type() in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent):
                below = 0 if self.request.isHidden() else _BELOW
                self._dock.setContentsMargins(MARGIN, 0, MARGIN, below)
        elif event.type() == QEvent.Type.Resize and not self.jump.isHidden():
            self._place_jump()
        return super().eventFilter(watched, event)

    @override
    def resizeEvent(self, event: QResizeEvent, /) -> None:
        super().resizeEvent(event)
        if not self.jump.isHidden():
            self._place_jump()

    @override
    def keyPressEvent(self, event: QKeyEvent, /) -> None:
        control = event.modifiers() == Qt.KeyboardModifier.ControlModifier
        if control and event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self.view.to_prompt(-1 if event.key() == Qt.Key.Key_Up else 1)
        else:
            super().keyPressEvent(event)


def _copy(text: str) -> None:
    QGuiApplication.clipboard().setText(text)
