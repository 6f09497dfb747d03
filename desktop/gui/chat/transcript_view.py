"""The transcript: only the rows that can be seen are widgets.

The view puts cards of a pool where ``RowLayout`` says that rows are. It looks
at what has changed at most once a frame; at rest nothing runs. Rows that come
into view many at once get their cards over several frames, so that none is late.
"""

import time
from collections.abc import Callable, Iterable

from PySide6.QtCore import QEvent, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget
from typing_extensions import override

from desktop.gui.chat.card_pool import CardPool
from desktop.gui.chat.cards import CardTools
from desktop.gui.chat.metrics import Metrics
from desktop.gui.chat.row_layout import Anchor, Placed, RowLayout
from desktop.gui.chat.rows import Row
from desktop.gui.chat.transcript_model import Changes, TranscriptModel

MEASURE = 860
"""Pixels that lines of text are wide at most."""

MARGIN = 20
"""Pixels left and right of cards at least."""

FRAME_MS = 10
"""Milliseconds from a change until it is shown. The host joins what arrives for 33 ms
already; together there is a frame within 50 ms."""

LOOK_SECONDS = 0.008
"""Time after which a look gives no more rows their first card: the next frame goes on."""

PAGES_MS = 40
"""Milliseconds for which what is seen and not loaded is gathered before it is asked for."""

PAGE = 20
"""Messages that are asked for at a time."""


class TranscriptView(QAbstractScrollArea):
    """Shows a ``TranscriptModel``.

    Args:
        model: The transcript.
        tools: What cards need.
        need_page: Called with index and count of messages that are seen but
            not loaded; once for each, until they come or ``page_failed``.
        clock: Seconds, monotonic.
    """

    moved = Signal()
    """After each look: other rows may be seen, or more has come below."""

    def __init__(
        self,
        *,
        model: TranscriptModel,
        tools: CardTools,
        need_page: Callable[[int, int], None],
        clock: Callable[[], float] = time.perf_counter,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._model = model
        self._tools = tools
        self._need_page = need_page
        self._clock = clock
        self._until = 0.0
        self._asked: set[int] = set()
        self._metrics = Metrics(theme=tools.theme)
        self.pool = CardPool(tools=tools, parent=self.viewport())
        self.places = RowLayout(make=self._make, measure=self._measure, may_wait=self._may_wait)
        self._unseen = 0
        self._busy = False
        self._value = 0
        self._frame = _single_shot(self, FRAME_MS, self.flush)
        self._rest = _single_shot(self, FRAME_MS, self.relayout)
        self._pages = _single_shot(self, PAGES_MS, self._ask_pages)
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
        model, layout = self._model, self.places
        self.pool.release_all()
        self._asked.clear()
        self._unseen = 0
        self._set_width()
        layout.reset([*self._metrics.unloaded(model.sizes), 0])
        for entry in model.loaded():
            layout.rebuild(entry)
        layout.rebuild(model.count)
        if not self.isVisible():
            self._rest.start()  # a resize comes as it is shown: not in this turn, too

    def _take(self, changes: Changes) -> None:
        self.places.append(changes.appended)
        if not self.places.sticks:
            self._unseen += changes.appended
        for entry in sorted(changes.entries):
            if entry < len(self.places.heights):
                self.pool.release(self.places.rebuild(entry))
                self._asked.discard(entry)

    def _make(self, entry: int) -> list[Row]:
        rows = self._model.rows(entry)
        for at, row in enumerate(rows):
            row.gap = self._metrics.gap(row, first=at == 0)
            if not row.width:
                row.height = self._metrics.estimate(row)
        return rows

    def _measure(self, row: Row, width: int) -> int:
        if row.kind == "blank":
            return self._metrics.estimate(row)
        return self.pool.card_for(row).arrange(width) + row.gap

    def _may_wait(self, row: Row) -> bool:
        """Whether a row may get its card with the next frame: one that has none yet."""
        return self._clock() >= self._until and self.pool.shown(row) is None

    def page_failed(self, first: int) -> None:
        """Messages that were asked for do not come; they may be asked for again."""
        self._asked -= set(range(first, first + PAGE))

    # ------------------------------------------------------------------ places

    def _text_width(self) -> int:
        """Return how wide cards are: the same with and without the bar, which fits the margin."""
        return max(120, min(MEASURE, self.width() - 2 * MARGIN))

    @property
    def complete(self) -> bool:
        """Whether all rows in view have their cards; else the next frame goes on."""
        return not self.places.behind

    @property
    def unseen(self) -> int:
        """Messages that came while the reader was elsewhere."""
        return self._unseen

    def to_bottom(self) -> None:
        """Go to the end and stay there."""
        self.places.sticks = True
        self.relayout()

    def go_to(self, place: Anchor) -> None:
        """Put a place at the top edge, one that ``anchor`` was before."""
        self.places.go_to(place)
        self.relayout()

    def to_prompt(self, step: int) -> None:
        """Go to the previous (-1) or next (1) prompt of the user."""
        here = self.places.anchor.entry
        if step < 0 and (self.places.anchor.row or self.places.anchor.offset > 4):
            here += 1
        found = self._model.prompt_near(here, step)
        if found is not None:
            self.go_to(Anchor(found, 0, 0))
        elif step > 0:
            self.to_bottom()

    def restyle(self) -> None:
        """Measure and draw everything again, after the theme or language has changed."""
        self._metrics = Metrics(theme=self._tools.theme)
        self.pool.refresh()
        self.places.forget_measures()
        self._set_width()
        self.relayout()

    def remeasure(self, row: Row) -> None:
        """A card has changed its height by itself; the reader stays where they click."""
        row.width = 0
        self.places.sticks = False
        self.relayout()

    def _set_width(self) -> None:
        self.places.width = self._text_width()
        self.places.view = self.viewport().height()
        self._metrics.set_width(self._text_width())

    # ------------------------------------------------------------------ layout

    def relayout(self) -> None:
        """Put cards on what can be seen, and take them from what cannot."""
        if self._busy or not len(self.places.heights) or not self.isVisible():
            return
        self._busy = True
        self._until = self._clock() + LOOK_SECONDS
        try:
            self.places.settle()
            placed = list(self.places.visible())
            self._place(placed)
            self._set_bar()
        finally:
            self._busy = False
        if self.places.behind:
            self._rest.start()
        if self.places.sticks:
            self._unseen = 0
        if any(row.kind == "blank" for _, row, _ in placed) and not self._pages.isActive():
            self._pages.start()
        self.moved.emit()

    def _place(self, placed: Iterable[Placed]) -> None:
        width = self._text_width()
        left = (self.width() - width) // 2
        for _, row, y in placed:
            if row.width != self.places.width or self._may_wait(row):
                self.places.behind = True
                continue
            card = self.pool.card_for(row)
            place = QRect(left, y + row.gap, width, row.height - row.gap)
            if card.geometry() != place:
                card.setGeometry(place)
                card.arrange(width)
            if card.isHidden():
                card.show()
        self.pool.keep_only(row for _, row, _ in placed)

    def _set_bar(self) -> None:
        bar = self.verticalScrollBar()
        most = self.places.range
        bar.blockSignals(True)
        bar.setRange(0, most)
        bar.setPageStep(self.places.view)
        bar.setSingleStep(self._metrics.line * 3)
        bar.setValue(most if self.places.sticks else min(self.places.position, most))
        bar.blockSignals(False)
        self._value = bar.value()

    # --------------------------------------------------------------- scrolling

    def _scrolled(self, value: int) -> None:
        """The bar was moved: by a little from where we are, or to somewhere else."""
        by = value - self._value
        if by == 0:
            return
        if by > 0 and value >= self.verticalScrollBar().maximum():
            self.places.sticks = True
        elif abs(by) <= 3 * self.places.view:
            self.places.scroll_by(by)
        else:
            self.places.scroll_to(value)
        self.relayout()

    @override
    def scrollContentsBy(self, dx: int, dy: int, /) -> None:
        pass  # cards are placed by relayout

    @override
    def resizeEvent(self, event: QResizeEvent, /) -> None:
        self._set_width()
        if not self._rest.isActive():
            self.relayout()

    @override
    def showEvent(self, event: QShowEvent, /) -> None:
        super().showEvent(event)
        self._set_width()
        self._rest.start()

    @override
    def keyPressEvent(self, event: QKeyEvent, /) -> None:
        control = event.modifiers() == Qt.KeyboardModifier.ControlModifier
        if control and event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self.to_prompt(-1 if event.key() == Qt.Key.Key_Up else 1)
        elif event.key() == Qt.Key.Key_End:
            self.to_bottom()
        elif event.key() == Qt.Key.Key_Home:
            self.go_to(Anchor(0, 0, 0))
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
        for entry in [entry for entry, row, _ in self.places.visible() if row.kind == "blank"]:
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
