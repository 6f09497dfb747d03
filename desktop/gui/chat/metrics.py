"""Estimates of how high rows are, before they are measured."""

from collections.abc import Sequence
from typing import assert_never

from PySide6.QtGui import QFontMetrics

from desktop.gui.chat.cards import HEADER, PAD
from desktop.gui.chat.heights import text_height
from desktop.gui.chat.rows import (
    BlankItem,
    ErrorItem,
    FoldedItem,
    LineItem,
    Row,
    SummaryItem,
    ToolItem,
    UserItem,
    WorkingItem,
)
from desktop.gui.chat.segments import Segment
from desktop.gui.theme import Theme

_GAP = 10
_TURN = 26
_CLOSE = 6


class Metrics:
    """Sizes of text in the theme's fonts.

    Attributes:
        line: Pixels of a line of text.
        code_line: Pixels of a line of code.
    """

    def __init__(self, *, theme: Theme) -> None:
        text = QFontMetrics(theme.font())
        self.line = round(text.lineSpacing() * 1.4)
        self.code_line = QFontMetrics(theme.mono_font()).lineSpacing()
        self._advance = max(1.0, text.averageCharWidth() * 1.05)
        self._per_line = 100

    def set_width(self, width: int) -> None:
        """Take the width of cards in pixels."""
        self._per_line = max(10, int(width / self._advance))

    def unloaded(self, sizes: Sequence[int]) -> list[int]:
        """Return the heights of messages of which only the characters are counted.

        All messages of a session come at once, so it calls nothing for each.
        """
        per_line, line = self._per_line, self.line
        least = _TURN + 2 * line
        return [max(_TURN - (-size // per_line) * line, least) for size in sizes]

    def gap(self, row: Row, *, first: bool) -> int:
        """Return the pixels above a row."""
        if row.kind == "user" or (first and row.kind == "blank"):
            return _TURN
        return _CLOSE if row.kind in ("tool", "reasoning") else _GAP

    def estimate(self, row: Row) -> int:
        """Return the height of a row with its gap."""
        return row.gap + self._body(row)

    def _body(self, row: Row) -> int:
        item = row.item
        match item:
            case BlankItem():
                return self.unloaded((item.size,))[0] - row.gap
            case UserItem():
                return self._text(len(item.text), item.text.count("\n") + 1) + 2 * PAD
            case Segment():
                return self._segment(item)
            case FoldedItem():
                return HEADER
            case ToolItem():
                return HEADER + 2
            case LineItem() | SummaryItem() | WorkingItem():
                return self.line
            case ErrorItem():
                return 4 * self.line + 2 * PAD
            case _:
                assert_never(item)

    def _segment(self, item: Segment) -> int:
        lines = item.text.count("\n") + 1
        if item.kind == "code":
            return HEADER + PAD + lines * self.code_line
        return self._text(len(item.text), lines)

    def _text(self, characters: int, lines: int) -> int:
        return text_height(characters, lines=lines, per_line=self._per_line, line_height=self.line)
