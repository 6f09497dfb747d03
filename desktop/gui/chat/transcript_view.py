"""The transcript: only the rows that can be seen are widgets.

The view owns the heights of all entries, most of them estimates, and a pool of
cards. A row is measured when it is shown. What the reader looks at stays where
it is: the *anchor* is the row at the top edge and how much of it is above. At
the bottom the view sticks to the bottom instead, until the reader scrolls up.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from PySide6.QtCore import QEvent, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget
from typing_extensions import override

from desktop.gui.chat.card_pool import CardPool
from desktop.gui.chat.cards import Card, CardTools
from desktop.gui.chat.heights import Heights
from desktop.gui.chat.metrics import Metrics
from desktop.gui.chat.rows import Row
from desktop.gui.chat.transcript_model import Changes, TranscriptModel

MEASURE = 860
"""Pixels that lines of text are wide at most."""

MARGIN = 20
FRAME_MS = 40
"""Milliseconds between two looks at what has changed, while something does."""

PAGE = 50
"""Messages that are asked for at a time."""


class Anchor(NamedTuple):
    """A place: entry, row in it, and pixels of the row that are above the place."""

    entry: int
    row: int
    offset: int


class TranscriptView(QAbstractScrollArea):
    """Shows a ``TranscriptModel``.

    Args:
        model: The transcript.
        tools: What cards need.
        need_page: Called with index and count of messages that are seen but
            not loaded; once for each, until they come or ``page_failed``.
    """

    left_bottom = Signal()
    """The reader has scrolled away from the bottom, or more has come below."""

    def __init__(
        self,
        *,
        model: TranscriptModel,
        tools: CardTools,
        need_page: Callable[[int, int], None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._model = model
        self._tools = tools
        self._need_page = need_page
        self._asked: set[int] = set()
        self._rows: dict[int, list[Row]] = {}
        self._heights = Heights()
        self._metrics = Metrics(theme=tools.theme)
        self.pool = CardPool(tools=tools, parent=self.viewport())
        self._anchor = Anchor(0, 0, 0)
        self._sticks = True
        self._unseen = 0
        self._busy = False
        self._value = 0
        self._frame = _single_shot(self, FRAME_MS, self.flush)
        self._pages = _single_shot(self, FRAME_MS, self._ask_pages)
        self._second = QTimer(self)
        self._second.setInterval(1000)
        self._second.timeout.connect(self._tick)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        tools.theme.changed.connect(self.restyle)

    # ---------------------------------------------------------------- contents

    def model_changed(self) -> None:
        """The model has changed; it is looked at with the next frame."""
        if not self._frame.isActive():
            self._frame.start()

    def flush(self) -> None:
        """Show what has changed now."""
        self._frame.stop()
        changes = self._model.take_changes()
        if changes.reset:
            self._begin()
        elif changes:
            self._take(changes)
        if self._model.running != self._second.isActive():
            self._second.start() if self._model.running else self._second.stop()
        if changes:
            self.relayout()

    def _begin(self) -> None:
        self.pool.release_all()
        self._rows.clear()
        self._asked.clear()
        self._unseen = 0
        self._sticks = True
        self._metrics.set_width(self.text_width())
        estimate = self._metrics.unloaded
        self._heights = Heights(estimate(self._model.size(i)) for i in range(self._model.count))
        self._heights.append(0)
        for entry in range(self._model.count + 1):
            if entry == self._model.count or self._model.message(entry) is not None:
                self._rebuild(entry)

    def _take(self, changes: Changes) -> None:
        last = len(self._heights) - 1
        for _ in range(changes.appended):
            self._rows.pop(last, None)
            self._heights.append(0)
            last += 1
        if changes.appended and not self._sticks:
            self._unseen += changes.appended
        for entry in sorted(changes.entries):
            if entry < len(self._heights):
                self._rebuild(entry)

    def _rebuild(self, entry: int) -> None:
        """Make an entry's rows again; the anchor stays on its row."""
        before = self._rows.get(entry, [])
        held = self._held(entry, before)
        rows = self._model.rows(entry)
        self._rows[entry] = rows
        for at, row in enumerate(rows):
            row.gap = self._metrics.gap(row, first=at == 0)
            if not row.width:
                row.height = self._metrics.estimate(row)
        gone = {id(row) for row in before} - {id(row) for row in rows}
        self.pool.release(row for row in before if id(row) in gone)
        self._heights.set(entry, sum(row.height for row in rows))
        if entry < self._model.count and self._model.message(entry) is not None:
            self._asked.discard(entry)
        if held is not None:
            self._hold(entry, rows, held)

    def _held(self, entry: int, rows: list[Row]) -> tuple[str, int] | None:
        """Return what the anchor is on: the row's key, and how much of the entry is below it."""
        if self._anchor.entry != entry or self._anchor.row >= len(rows):
            return None
        below = sum(row.height for row in rows[self._anchor.row :]) - self._anchor.offset
        return rows[self._anchor.row].key, below

    def _hold(self, entry: int, rows: list[Row], held: tuple[str, int]) -> None:
        """Keep the anchor on its row; if that has gone, keep what is below it in place."""
        key, below = held
        at = next((i for i, row in enumerate(rows) if row.key == key), None)
        if at is not None:
            self._anchor = self._anchor._replace(row=at)
        elif entry + 1 < len(self._heights):
            self._anchor = Anchor(entry + 1, 0, -below)

    def rows_of(self, entry: int) -> list[Row]:
        """Return the rows of an entry, made when they are first needed."""
        if entry not in self._rows:
            self._rebuild(entry)
        return self._rows[entry]

    def page_failed(self, first: int) -> None:
        """Messages that were asked for do not come; they may be asked for again."""
        self._asked -= set(range(first, first + PAGE))

    # ------------------------------------------------------------------ places

    def text_width(self) -> int:
        """Return how wide cards are."""
        return max(120, min(MEASURE, self.viewport().width() - 2 * MARGIN))

    @property
    def anchor(self) -> Anchor:
        """What is at the top edge."""
        return self._anchor

    @property
    def sticks(self) -> bool:
        """Whether the bottom stays in view as the transcript grows."""
        return self._sticks

    @property
    def unseen(self) -> int:
        """Messages that came while the reader was elsewhere."""
        return self._unseen

    def to_bottom(self) -> None:
        """Go to the end and stay there."""
        self._sticks = True
        self._unseen = 0
        self.relayout()

    def to_entry(self, entry: int) -> None:
        """Put the beginning of an entry at the top edge."""
        self._sticks = False
        self._anchor = Anchor(entry, 0, 0)
        self.relayout()

    def go_to(self, place: Anchor) -> None:
        """Put a place at the top edge, one that ``anchor`` was before."""
        self._sticks = False
        self._anchor = place
        self.relayout()

    def to_prompt(self, step: int) -> None:
        """Go to the previous (-1) or next (1) prompt of the user."""
        here = self._anchor.entry
        if step < 0 and (self._anchor.row or self._anchor.offset > 4):
            here += 1
        found = self._model.prompt_near(here, step)
        if found is not None:
            self.to_entry(found)
        elif step > 0:
            self.to_bottom()

    def card_of(self, row: Row) -> Card | None:
        """Return the card that shows a row now."""
        return self.pool.shown(row)

    def restyle(self) -> None:
        """Measure and draw everything again, after the theme or language has changed."""
        self._metrics = Metrics(theme=self._tools.theme)
        self._metrics.set_width(self.text_width())
        self.pool.refresh()
        self._forget_measures()
        self.relayout()

    def _forget_measures(self) -> None:
        for rows in self._rows.values():
            for row in rows:
                row.width = 0

    def remeasure(self, row: Row) -> None:
        """A card has changed its height by itself; the reader stays where they click."""
        row.width = 0
        self._sticks = False
        self.relayout()

    # ------------------------------------------------------------------ layout

    def relayout(self) -> None:
        """Put cards on what can be seen, and take them from what cannot."""
        if self._busy or not len(self._heights):
            return
        self._busy = True
        try:
            self._settle()
            placed = list(self._visible())
            self._place(placed)
            self._set_bar()
        finally:
            self._busy = False
        if any(row.kind == "blank" for _, row, _ in placed) and not self._pages.isActive():
            self._pages.start()
        self.left_bottom.emit()

    def _settle(self) -> None:
        """Bring the anchor to where the rows, once measured, really are."""
        height = self.viewport().height()
        if self._sticks:
            self._anchor = self._climb(len(self._heights) - 1, height)
            return
        self._anchor = self._normal(self._anchor)
        if self._below(self._anchor, height) < height:
            self._sticks, self._unseen = True, 0
            self._anchor = self._climb(len(self._heights) - 1, height)

    def _climb(self, entry: int, height: int) -> Anchor:
        """Return the anchor at which the end of an entry is at the bottom edge."""
        left = height - MARGIN
        while entry >= 0:
            rows = self.rows_of(entry)
            for at in range(len(rows) - 1, -1, -1):
                left -= self._measured(entry, at)
                if left <= 0:
                    return Anchor(entry, at, -left)
            entry -= 1
        return Anchor(0, 0, 0)

    def _normal(self, anchor: Anchor) -> Anchor:
        """Return the same place with an offset that lies within its row."""
        entry = min(max(anchor.entry, 0), len(self._heights) - 1)
        row, offset = anchor.row, anchor.offset
        while True:
            rows = self.rows_of(entry)
            if row < 0 or (offset < 0 and row == 0):
                if entry == 0:
                    return Anchor(0, 0, 0)
                entry -= 1
                row = len(self.rows_of(entry))
                if row == 0:
                    continue
            if offset < 0:
                row -= 1
                offset += self._measured(entry, row)
            elif row >= len(rows):
                if entry == len(self._heights) - 1:
                    return Anchor(entry, max(0, len(rows) - 1), offset)
                entry, row = entry + 1, 0
            elif offset >= (height := self._measured(entry, row)):
                offset -= height
                row += 1
            else:
                return Anchor(entry, row, offset)

    def _below(self, anchor: Anchor, enough: int) -> int:
        """Return how much there is below the anchor, at most a little more than ``enough``."""
        found = -anchor.offset + MARGIN
        for entry, at in self._from(anchor):
            found += self._measured(entry, at)
            if found >= enough:
                break
        return found

    def _from(self, anchor: Anchor) -> Iterator[tuple[int, int]]:
        row = anchor.row
        for entry in range(anchor.entry, len(self._heights)):
            for at in range(row, len(self.rows_of(entry))):
                yield entry, at
            row = 0

    def _visible(self) -> Iterator[tuple[int, Row, int]]:
        """Yield the rows that can be seen: entry, row, and its top in the viewport."""
        y = -self._anchor.offset
        for entry, at in self._from(self._anchor):
            if y >= self.viewport().height():
                break
            height = self._measured(entry, at)
            yield entry, self._rows[entry][at], y
            y += height

    def _measured(self, entry: int, at: int) -> int:
        """Return the height of a row at the width in force, measured if it was not."""
        row = self._rows[entry][at]
        width = self.text_width()
        if row.width != width:
            before = row.height
            if row.kind == "blank":
                row.height = self._metrics.estimate(row)
            else:
                card = self.pool.card_for(row)
                row.height = card.arrange(width) + row.gap
            row.width = width
            self._heights.set(entry, self._heights[entry] + row.height - before)
        return row.height

    def _place(self, placed: list[tuple[int, Row, int]]) -> None:
        width = self.text_width()
        left = (self.viewport().width() - width) // 2
        for _, row, y in placed:
            card = self.pool.card_for(row)
            size = QRect(left, y + row.gap, width, row.height - row.gap)
            if card.geometry() != size:
                card.setGeometry(size)
                card.arrange(width)
            if card.isHidden():
                card.show()
        self.pool.keep_only(row for _, row, _ in placed)

    def _set_bar(self) -> None:
        bar = self.verticalScrollBar()
        view = self.viewport().height()
        most = max(0, self._heights.total + MARGIN - view)
        bar.blockSignals(True)
        bar.setRange(0, most)
        bar.setPageStep(view)
        bar.setSingleStep(self._metrics.line * 3)
        bar.setValue(most if self._sticks else min(self._position(), most))
        bar.blockSignals(False)
        self._value = bar.value()

    def _position(self) -> int:
        above = sum(row.height for row in self._rows[self._anchor.entry][: self._anchor.row])
        return self._heights.top(self._anchor.entry) + above + self._anchor.offset

    # --------------------------------------------------------------- scrolling

    def _scrolled(self, value: int) -> None:
        """The bar was moved: by a little from where we are, or to somewhere else."""
        delta = value - self._value
        bar = self.verticalScrollBar()
        if delta == 0:
            return
        self._sticks = delta > 0 and value >= bar.maximum()
        if self._sticks:
            self._unseen = 0
        elif abs(delta) <= 3 * self.viewport().height():
            moved = self._anchor._replace(offset=self._anchor.offset + delta)
            self._anchor = self._normal(moved)
        else:
            entry, offset = self._heights.at(value)
            self._anchor = self._normal(Anchor(entry, 0, offset))
        self.relayout()

    @override
    def scrollContentsBy(self, dx: int, dy: int, /) -> None:
        pass  # cards are placed by relayout

    @override
    def resizeEvent(self, event: QResizeEvent, /) -> None:
        self._metrics.set_width(self.text_width())
        self.relayout()

    @override
    def wheelEvent(self, event: QWheelEvent, /) -> None:
        self.verticalScrollBar().event(event)

    @override
    def keyPressEvent(self, event: QKeyEvent, /) -> None:
        control = event.modifiers() == Qt.KeyboardModifier.ControlModifier
        if control and event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self.to_prompt(-1 if event.key() == Qt.Key.Key_Up else 1)
        elif event.key() == Qt.Key.Key_End:
            self.to_bottom()
        elif event.key() == Qt.Key.Key_Home:
            self.to_entry(0)
        else:
            super().keyPressEvent(event)

    @override
    def changeEvent(self, event: QEvent, /) -> None:
        if event.type() == QEvent.Type.LanguageChange:
            self.restyle()
        super().changeEvent(event)

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), self._tools.theme.colour("window"))

    # ------------------------------------------------------------------- timers

    def _tick(self) -> None:
        for card in self.pool.visible():
            card.tick()

    def _ask_pages(self) -> None:
        """Ask for what is seen and not loaded, in whole pages."""
        for entry in [entry for entry, row, _ in self._visible() if row.kind == "blank"]:
            if entry in self._asked:
                continue
            first = max(0, min(entry - PAGE // 2, self._model.count - PAGE))
            span = [
                at
                for at in range(first, min(first + PAGE, self._model.count))
                if self._model.message(at) is None and at not in self._asked
            ]
            self._asked.update(span)
            self._need_page(span[0], span[-1] - span[0] + 1)


def _single_shot(owner: QWidget, milliseconds: int, call: Callable[[], None]) -> QTimer:
    timer = QTimer(owner)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(call)
    return timer
