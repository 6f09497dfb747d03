"""The card of an error: a plain sentence, what the provider said, and what can be done."""

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget
from typing_extensions import override

from desktop.bridge.messages import ErrorInfo
from desktop.gui.chat.cards import PAD, Card, CardTools
from desktop.gui.chat.rows import ErrorItem, Row, item_of
from desktop.gui.error_text import error_text
from desktop.gui.i18n import tr
from desktop.gui.text import soft_split, visible
from desktop.gui.widgets.base import PlainLabel, button

_LONGEST = 2000


class ErrorCard(Card):
    """An error of a run or of the session."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(tools, parent)
        self.title = PlainLabel(kind="header", wrap=True, parent=self)
        self.detail = PlainLabel(kind="muted", wrap=True, parent=self)
        for label in (self.title, self.detail):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.retry = button(parent=self)
        self.retry.clicked.connect(tools.go_on)
        self.copy = button("link", parent=self)
        self.copy.clicked.connect(self._copy)

    @override
    def show_row(self, row: Row) -> None:
        item = item_of(row, ErrorItem)
        shown = error_text(ErrorInfo(code=item.code, text=item.text, hint=item.hint))
        sentence = shown.title if shown.title != item.text else tr("The run ended with an error.")
        detail = shown.detail or "\n".join(filter(None, (item.text, shown.hint)))
        self.title.setText(visible(sentence))
        self.detail.setText(soft_split(visible(detail[:_LONGEST])))
        self.retry.setText(tr("Retry"))
        self.copy.setText(tr("Copy details"))
        self.retry.setVisible(item.can_retry)
        self.setAccessibleName(f"{sentence} {detail}")

    @override
    def arrange(self, width: int) -> int:
        left = PAD + 26
        inner = max(60, width - left - PAD)
        y = PAD
        for label in (self.title, self.detail):
            height = label.heightForWidth(inner)
            label.setGeometry(left, y, inner, height)
            y += height + 4
        y += 6
        x = left
        tall = max(self.retry.sizeHint().height(), self.copy.sizeHint().height())
        for made in (self.retry, self.copy):
            if not made.isHidden():
                size = made.sizeHint()
                made.setGeometry(x, y + (tall - size.height()) // 2, size.width(), size.height())
                x += size.width() + 8
        return y + tall + PAD

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        painter = QPainter(self)
        self.box(painter, QRectF(self.rect()), fill="danger_soft", line="danger")
        self.tools.icons.icon("error", "danger").paint(painter, PAD, PAD + 1, 16, 16)

    def _copy(self) -> None:
        item = self.row.item if self.row is not None else None
        if isinstance(item, ErrorItem):
            self.tools.copy(f"{item.code}: {item.text}" if item.code else item.text)
