"""Code that is as high as it is long, scrolls sideways only, and is coloured bit by bit."""

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import (
    QFontMetricsF,
    QTextCharFormat,
    QTextCursor,
    QTextLayout,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QWidget
from typing_extensions import override

from desktop.gui.chat.code_highlight import Span, spans
from desktop.gui.theme import Theme

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_STEPS = 400
"""Tokens that are coloured before the event loop gets its turn."""


class CodeView(QPlainTextEdit):
    """Code that is as high as it is long and scrolls sideways only."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.theme = theme
        self._job: Iterator[Span | None] | None = None
        self._widest = 0.0
        self._plain = True
        self._framed = False
        self._tint = "text"
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._colour_some)
        self.setReadOnly(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setWordWrapMode(QTextOption.WrapMode.NoWrap)
        self.setUndoRedoEnabled(False)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.document().setDocumentMargin(0)
        self.restyle()

    def restyle(self) -> None:
        """Take fonts and colours of the theme."""
        theme = self.theme
        font = theme.mono_font()
        self._metrics = QFontMetricsF(font)
        box = "background: transparent; border: none;"
        if self._framed:
            box = (
                f"background: {theme.tokens.code}; border: 1px solid {theme.tokens.border};"
                " border-radius: 6px;"
            )
        names = ", ".join(f"'{name}'" for name in theme.mono_families())
        self.setStyleSheet(
            f"QPlainTextEdit {{ {box} font-family: {names}; font-size: {font.pixelSize()}px;"
            f" color: {getattr(theme.tokens, self._tint)};"
            f" selection-background-color: {theme.tokens.selection}; }}"
        )
        self.document().setDefaultFont(font)
        self.setTabStopDistance(self._metrics.horizontalAdvance(" ") * 4)

    def frame(self) -> None:
        """Stand in a box of its own that scrolls; long lines are wrapped, so that none hides."""
        self._framed = True
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        self.setViewportMargins(8, 6, 8, 6)
        self.restyle()

    def tint(self, token: str) -> None:
        """Use another colour for text that has none of its own."""
        if token != self._tint:
            self._tint = token
            self.restyle()

    def set_code(self, text: str) -> None:
        """Show other code, in one colour."""
        self.stop()
        self._widest, self._plain = 0.0, True
        self.setPlainText(text)
        self._widen(text.split("\n"))

    def add_code(self, text: str) -> None:
        """Add to the end."""
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        begun = cursor.block().text()
        cursor.insertText(text)
        first, *others = text.split("\n")
        self._widen([begun + first, *others])

    def natural_height(self, width: int) -> int:
        """Return the height of all lines, and of the scroll bar if one is too long."""
        height = self._lines_height()
        if not self._framed and self._widest + 2 > width:
            height += self.horizontalScrollBar().sizeHint().height()
        return int(height + 1.999)

    def _lines_height(self) -> float:
        """Return the height of the lines as they are laid out.

        All lines of plain text are alike; others may be taller, because
        their characters come from other fonts.
        """
        block = self.document().firstBlock()
        if self._plain and not self._framed:
            return self.blockBoundingRect(block).height() * self.blockCount()
        height = 0.0
        while block.isValid():
            height += self.blockBoundingRect(block).height()
            block = block.next()
        return height

    def _widen(self, lines: "Sequence[str]") -> None:
        """Measure the longest line; plain ones by their number of characters."""
        self._plain = self._plain and all(line.isascii() for line in lines)
        plain = max((len(line) for line in lines if line.isascii() and "\t" not in line), default=0)
        self._widest = max(self._widest, plain * self._metrics.horizontalAdvance("x"))
        for line in lines:
            if not line.isascii() or "\t" in line:
                width = self._metrics.horizontalAdvance(line.expandtabs(4))
                self._widest = max(self._widest, width)

    # ----------------------------------------------------------------- colours

    def colour(self, code: str, info: str) -> None:
        """Colour the code, a little at a time."""
        self._job = spans(code, info)
        self._timer.start()

    def stop(self) -> None:
        """Colour no more."""
        self._job = None
        self._timer.stop()

    @property
    def colouring(self) -> bool:
        """Whether colours are still being found."""
        return self._job is not None

    def _colour_some(self) -> None:
        if self._job is None:
            self._timer.stop()
            return
        found: dict[int, list[QTextLayout.FormatRange]] = {}
        for _ in range(_STEPS):
            try:
                span = next(self._job)
            except StopIteration:
                self.stop()
                break
            if span is not None:
                self._place(span, found)
        self._apply(found)

    def _place(self, span: Span, found: dict[int, list[QTextLayout.FormatRange]]) -> None:
        form = QTextCharFormat()
        form.setForeground(self.theme.colour(f"syntax_{span.role}"))
        start, end = span.start, span.start + span.length
        block = self.document().findBlock(start)
        while block.isValid() and block.position() < end:
            first = max(start - block.position(), 0)
            last = min(end - block.position(), block.length() - 1)
            if last > first:
                piece = QTextLayout.FormatRange()
                piece.start, piece.length, piece.format = first, last - first, form
                found.setdefault(block.blockNumber(), []).append(piece)
            block = block.next()

    def _apply(self, found: dict[int, list[QTextLayout.FormatRange]]) -> None:
        for number, ranges in found.items():
            block = self.document().findBlockByNumber(number)
            layout = block.layout()
            layout.setFormats([*layout.formats(), *ranges])
            self.document().markContentsDirty(block.position(), block.length())

    @override
    def wheelEvent(self, event: QWheelEvent, /) -> None:
        if self._framed or abs(event.angleDelta().x()) > abs(event.angleDelta().y()):
            super().wheelEvent(event)
        else:
            event.ignore()
