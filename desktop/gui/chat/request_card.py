"""The card that asks for permission. It lies between the transcript and the composer.

An answer carries the id of the question and the hash of what was shown. What
is too long for the card must be scrolled to its end before it can be allowed.
"""

import time
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget
from typing_extensions import override

from agent_sdk.events.wire import PermissionAskedEvent, ToolPart
from desktop.gui.chat.code_view import CodeView
from desktop.gui.chat.diff_view import DiffView
from desktop.gui.chat.request_text import (
    always_means,
    content,
    expired_text,
    heading,
    places,
    reason,
)
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.text import visible
from desktop.gui.widgets.base import PlainLabel, button
from desktop.gui.widgets.ime import SubmitLine

Reply: TypeAlias = Literal["once", "always", "reject"]

TALLEST = 220
"""Pixels of what is shown of a command or a diff before it scrolls."""

TOO_SOON = 0.4
"""Seconds after it has appeared in which Enter allows nothing: it was meant for something else."""


class Answered(NamedTuple):
    """An answer to a question."""

    request_id: str
    input_hash: str
    reply: Reply
    reason: str


class RequestCard(QWidget):
    """Asks one question.

    Attributes:
        answered: Signal: an ``Answered``.
        dismissed: Signal: id of an expired question that the user has read.
    """

    answered = Signal(object)
    dismissed = Signal(str)

    def __init__(
        self,
        *,
        icons: Icons,
        clock: Callable[[], float] = time.monotonic,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._icons = icons
        self._clock = clock
        self._since = 0.0
        self._part: ToolPart | None = None
        self.asked: PermissionAskedEvent | None = None
        self.expired = False
        self.sent = False
        self._seen = False
        self._shown = ""
        self.setObjectName("request")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.icon = QLabel(self)
        self.title = PlainLabel(kind="header", wrap=True, parent=self)
        self.count = PlainLabel(kind="muted", parent=self)
        self.why = PlainLabel(kind="muted", wrap=True, parent=self)
        self.where = PlainLabel(wrap=True, parent=self)
        self.code = CodeView(icons.theme, self)
        self.diff = DiffView(icons.theme, self)
        self.means = PlainLabel(kind="muted", wrap=True, parent=self)
        self.hint = PlainLabel(kind="warning", wrap=True, parent=self)
        self.instead = SubmitLine(self)
        self.once = button("primary", parent=self)
        self.always = button(parent=self)
        self.deny = button(parent=self)
        self.dismiss = button(parent=self)
        self._lay_out()
        self._connect()
        self._restyle()
        self.hide()

    # ---------------------------------------------------------------- contents

    def ask(self, asked: PermissionAskedEvent, part: ToolPart | None, *, waiting: int = 1) -> None:
        """Ask a question; one that is shown already keeps what was typed and seen.

        Args:
            asked: The question.
            part: The call that it is about, if it is known.
            waiting: How many questions wait, with this one.
        """
        fresh = self.asked is None or self.asked.request_id != asked.request_id or self.expired
        if fresh:
            self.instead.clear()
            self._since = self._clock()
            self.expired = self.sent = self._seen = False
        changed = fresh or part != self._part or asked != self.asked
        self.asked, self._part = asked, part
        self.count.setText(tr("1 of {count}", count=waiting) if waiting > 1 else "")
        if changed:
            self._show()
        self.show()
        self._judge()

    def expire(self, why: str = "", asked: PermissionAskedEvent | None = None) -> None:
        """Say that it is too late to answer, in place of the buttons."""
        self.asked = asked or self.asked
        self.expired = True
        self._show()
        self.hint.setText(expired_text(why))
        self.show()
        self._judge()

    def refuse(self, text: str) -> None:
        """Say why an answer was not taken; it can be given again."""
        self.sent = False
        self.hint.setText(visible(text))
        self._judge()

    def close_question(self) -> None:
        """Ask nothing."""
        self.asked = self._part = None
        self.expired = self.sent = False
        self.hide()

    @property
    def view(self) -> CodeView:
        """Where the command or the diff is shown."""
        return self.diff if not self.diff.isHidden() else self.code

    def can_allow(self) -> bool:
        """Return whether all of it was seen, and it was not answered."""
        return self.asked is not None and self._seen and not self.sent and not self.expired

    # ----------------------------------------------------------------- answers

    def allow(self) -> None:
        """Allow this call, once."""
        if self.can_allow():
            self._answer("once")

    def allow_always(self) -> None:
        """Allow this call and its like in this session."""
        if self.can_allow() and self.asked is not None and self.asked.can_always:
            self._answer("always")

    def reject(self) -> None:
        """Refuse, with what was typed as the reason."""
        if not self.sent and not self.expired:
            self._answer("reject")

    def _answer(self, reply: Reply) -> None:
        if self.asked is None:
            return
        self.sent = True
        text = self.instead.text().strip() if reply == "reject" else ""
        self._judge()
        self.answered.emit(Answered(self.asked.request_id, self.asked.input_hash, reply, text))

    def _dismiss(self) -> None:
        if self.asked is not None:
            self.dismissed.emit(self.asked.request_id)

    # ------------------------------------------------------------------ events

    @override
    def keyPressEvent(self, event: QKeyEvent, /) -> None:
        key = event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            soon = self._clock() - self._since < TOO_SOON
            if not event.isAutoRepeat() and not soon:
                self._dismiss() if self.expired else self.allow()
        elif key == Qt.Key.Key_Escape and self.asked is not None:
            self._dismiss() if self.expired else self.reject()
        elif key in (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp):
            bar = self.view.verticalScrollBar()
            step = bar.pageStep() if key in (Qt.Key.Key_PageDown, Qt.Key.Key_PageUp) else 1
            down = key in (Qt.Key.Key_Down, Qt.Key.Key_PageDown)
            bar.setValue(bar.value() + (step if down else -step))
        else:
            super().keyPressEvent(event)

    @override
    def resizeEvent(self, event: QResizeEvent, /) -> None:
        super().resizeEvent(event)
        self._fit()

    @override
    def changeEvent(self, event: QEvent, /) -> None:
        if event.type() == QEvent.Type.LanguageChange and self.asked is not None:
            self._show()
        super().changeEvent(event)

    # ----------------------------------------------------------------- drawing

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.icon, 0, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self.title, 1)
        head.addWidget(self.count, 0, Qt.AlignmentFlag.AlignTop)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        for made in (self.once, self.always, self.deny, self.dismiss):
            buttons.addWidget(made)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(6)
        column.addLayout(head)
        for each in (self.why, self.where, self.code, self.diff, self.means, self.hint):
            column.addWidget(each)
        column.addWidget(self.instead)
        column.addLayout(buttons)
        for view in (self.code, self.diff):
            view.frame()
        self.where.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)

    def _connect(self) -> None:
        self.once.clicked.connect(self.allow)
        self.always.clicked.connect(self.allow_always)
        self.deny.clicked.connect(self.reject)
        self.dismiss.clicked.connect(self._dismiss)
        self.instead.submitted.connect(self.reject)
        for view in (self.code, self.diff):
            view.verticalScrollBar().valueChanged.connect(self._judge)
            view.verticalScrollBar().rangeChanged.connect(self._judge)
        self._icons.theme.changed.connect(self._restyle)

    def _restyle(self) -> None:
        self.icon.setPixmap(self._icons.icon("shield", "warning", size=18).pixmap(18, 18))
        mono = self._icons.theme.mono_font()
        names = ", ".join(f"'{name}'" for name in self._icons.theme.mono_families())
        self.where.setStyleSheet(f"font-family: {names}; font-size: {mono.pixelSize()}px;")
        for view in (self.code, self.diff):
            view.restyle()
        tokens = self._icons.theme.tokens
        self.setStyleSheet(
            f"#request {{ background: {tokens.surface}; border: 1px solid {tokens.warning};"
            " border-radius: 10px; }"
        )
        if self.asked is not None:
            self._show()

    def _show(self) -> None:
        asked = self.asked
        if asked is None:
            return
        self.title.setText(heading(asked))
        self.why.setText(reason(asked))
        self.where.setText(places(asked))
        self.where.setVisible(bool(self.where.text()))
        section = content(asked, self._part)
        same = section.text == self.where.text()
        self.diff.setVisible(section.kind == "diff")
        self.code.setVisible(section.kind != "diff" and not same)
        self.view.set_code(section.text)
        if section.text != self._shown:  # of the call itself, which came after the question
            self._shown, self._since = section.text, self._clock()
            self._seen = False
        if section.language:
            self.view.colour(section.text, section.language)
        self.means.setText(always_means(asked))
        self.hint.setText("")
        self.once.setText(tr("Allow once"))
        self.once.setToolTip(tr("Enter"))
        self.always.setText(tr("Always"))
        self.deny.setText(tr("Deny"))
        self.deny.setToolTip(tr("Esc"))
        self.dismiss.setText(tr("Dismiss"))
        self.instead.setPlaceholderText(tr("Tell it what to do instead…"))
        self.instead.setAccessibleName(tr("What to do instead"))
        self.setAccessibleName(f"{self.title.text()} {self.why.text()}")
        self._fit()

    def _fit(self) -> None:
        if self.asked is None:
            return
        view = self.view
        view.resize(max(60, self.width() - 28), TALLEST)
        view.setFixedHeight(min(TALLEST, view.natural_height(0) + 16))
        self._judge()

    def _judge(self) -> None:
        """Enable what can be answered now."""
        asked = self.asked
        if asked is None:
            return
        bar = self.view.verticalScrollBar()
        if self.view.isHidden() or (self.isVisible() and bar.value() >= bar.maximum()):
            self._seen = True
        open_question = not self.expired
        self.once.setVisible(open_question)
        self.deny.setVisible(open_question)
        self.instead.setVisible(open_question)
        self.always.setVisible(open_question and asked.can_always)
        self.means.setVisible(open_question and bool(self.means.text()))
        self.dismiss.setVisible(self.expired)
        self.once.setEnabled(self.can_allow())
        self.always.setEnabled(self.can_allow())
        self.deny.setEnabled(not self.sent)
        self.instead.setEnabled(not self.sent)
        if open_question and not self._seen and not self.sent:
            self.hint.setText(tr("Scroll to the end to allow it."))
        elif (
            open_question
            and self._seen
            and self.hint.text() == tr("Scroll to the end to allow it.")
        ):
            self.hint.setText("")
        self.hint.setVisible(bool(self.hint.text()))
