"""The box in which prompts are written: grows with its text, then scrolls."""

from PySide6.QtCore import QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QInputMethodEvent, QKeyEvent, QResizeEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget
from typing_extensions import override

from desktop.gui.widgets.ime import ENTER, Composition

MAX_HEIGHT = 200
"""Pixels."""

MIN_LINES = 2
MAX_CHARACTERS = 200_000
"""More than that is a file's work; what is pasted beyond it is refused, and said."""


class PromptEdit(QPlainTextEdit):
    """Enter submits, Shift+Enter makes a line, and neither while an input method composes."""

    submitted = Signal(bool)
    """Whether with Ctrl."""
    older_wanted = Signal()
    newer_wanted = Signal()
    too_long = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.composition = Composition(self)
        self.setObjectName("prompt")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def put(self, text: str) -> None:
        """Replace the text, so that it can be undone, with the caret at its end."""
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text[:MAX_CHARACTERS])
        self.setTextCursor(cursor)

    @override
    def inputMethodEvent(self, event: QInputMethodEvent, /) -> None:
        self.composition.take(event)
        super().inputMethodEvent(event)

    @override
    def keyPressEvent(self, event: QKeyEvent, /) -> None:
        if self.composition.swallows(event):
            event.accept()
            return
        if event.key() in ENTER and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            event.accept()
            self.submitted.emit(bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier))
            return
        if not self._walks(event):
            super().keyPressEvent(event)

    @override
    def insertFromMimeData(self, source: QMimeData, /) -> None:
        text = source.text()
        if len(text) + self.document().characterCount() > MAX_CHARACTERS:
            self.too_long.emit()
            return
        self.insertPlainText(text)

    @override
    def resizeEvent(self, event: QResizeEvent, /) -> None:
        super().resizeEvent(event)
        self._fit()

    @override
    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self.height())

    def _walks(self, event: QKeyEvent) -> bool:
        """Walk the history with Up in the first line and Down in the last one."""
        plain = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if plain != Qt.KeyboardModifier.NoModifier or self.textCursor().hasSelection():
            return False
        if event.key() == Qt.Key.Key_Up and self._at_edge(QTextCursor.MoveOperation.Up):
            self.older_wanted.emit()
            return True
        if event.key() == Qt.Key.Key_Down and self._at_edge(QTextCursor.MoveOperation.Down):
            self.newer_wanted.emit()
            return True
        return False

    def _at_edge(self, way: QTextCursor.MoveOperation) -> bool:
        return not QTextCursor(self.textCursor()).movePosition(way)

    def _fit(self) -> None:
        spacing = self.fontMetrics().lineSpacing()
        lines = max(MIN_LINES, int(self.document().size().height()))
        margins = self.contentsMargins()
        inner = lines * spacing + 2 * round(self.document().documentMargin()) + 2
        wanted = inner + margins.top() + margins.bottom()
        height = min(MAX_HEIGHT, wanted)
        if height != self.minimumHeight():
            self.setFixedHeight(height)
        policy = (
            Qt.ScrollBarPolicy.ScrollBarAsNeeded
            if wanted > MAX_HEIGHT
            else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        )
        if policy != self.verticalScrollBarPolicy():
            self.setVerticalScrollBarPolicy(policy)
