"""Where rows are: heights, the anchor, and what can be seen. Pure, no widgets.

Rows are measured, through a callback, when they come into view; until then
their heights are estimates. What the reader looks at does not move because of
that: places are counted from the *anchor*, the row at the top edge. At the
bottom the layout sticks to the bottom instead.

Measuring is the dear part, so a look may be cut short: what is then still not
measured keeps its estimate, ``behind`` says so, and one looks again.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from desktop.gui.chat.heights import Heights
from desktop.gui.chat.rows import Row

MARGIN = 20
"""Pixels below the last row."""


class Anchor(NamedTuple):
    """A place: entry, row in it, and pixels of the row that are above the place."""

    entry: int
    row: int
    offset: int


class Placed(NamedTuple):
    """A row that can be seen, and where its top is, from the top edge."""

    entry: int
    row: Row
    y: int


class RowLayout:
    """The rows of all entries, of which most are never made.

    Args:
        make: Returns the rows of an entry, each with gap and estimated height.
        measure: Returns the height of a row at a width, gap included.
        may_wait: Whether a row in view need not be measured in this look.

    Attributes:
        heights: Of all entries.
        anchor: What is at the top edge.
        sticks: Whether the bottom stays in view.
        width: Pixels that rows are wide.
        view: Pixels that can be seen from top to bottom.
        behind: Whether rows in view were left for the next look.
    """

    def __init__(
        self,
        *,
        make: Callable[[int], list[Row]],
        measure: Callable[[Row, int], int],
        may_wait: Callable[[Row], bool] = lambda _: False,
    ) -> None:
        self._make = make
        self._measure = measure
        self._may_wait = may_wait
        self._rows: dict[int, list[Row]] = {}
        self.heights = Heights()
        self.anchor = Anchor(0, 0, 0)
        self.sticks = True
        self.width = 0
        self.view = 0
        self.behind = False

    # ---------------------------------------------------------------- contents

    def reset(self, estimates: Iterable[int]) -> None:
        """Begin again with entries of these heights, at the bottom."""
        self._rows.clear()
        self.heights = Heights(estimates)
        self.anchor = Anchor(0, 0, 0)
        self.sticks = True

    def append(self, count: int) -> None:
        """Add entries before the last one, which is the end; all must be made again.

        The end keeps its rows until then: when it is made again, those that
        have gone are told, and their cards are taken back.
        """
        end = len(self.heights) - 1
        for _ in range(count):
            self.heights.append(0)
        if count and (rows := self._rows.pop(end, None)) is not None:
            self._rows[end + count] = rows

    def rebuild(self, entry: int) -> list[Row]:
        """Make the rows of an entry again; return those that have gone."""
        before = self._rows.get(entry, [])
        held = self._held(entry, before)
        rows = self._rows[entry] = self._make(entry)
        self.heights.set(entry, sum(row.height for row in rows))
        if held is not None:
            self._hold(entry, rows, held)
        still = {id(row) for row in rows}
        return [row for row in before if id(row) not in still]

    def rows(self, entry: int) -> list[Row]:
        """Return the rows of an entry, made when they are first needed."""
        if entry not in self._rows:
            self.rebuild(entry)
        return self._rows[entry]

    def forget_measures(self) -> None:
        """Measure all rows again before they are shown."""
        for rows in self._rows.values():
            for row in rows:
                row.width = 0

    def _held(self, entry: int, rows: list[Row]) -> tuple[str, int] | None:
        """Return what the anchor is on: the row's key, and how much of the entry is below it."""
        at = self.anchor
        if at.entry != entry or at.row >= len(rows) or (at.row == 0 and at.offset == 0):
            return None
        below = sum(row.height for row in rows[at.row :]) - at.offset
        return rows[at.row].key, below

    def _hold(self, entry: int, rows: list[Row], held: tuple[str, int]) -> None:
        """Keep the anchor on its row; if that has gone, keep what is below it in place."""
        key, below = held
        at = next((i for i, row in enumerate(rows) if row.key == key), None)
        if at is not None:
            self.anchor = self.anchor._replace(row=at)
        elif entry + 1 < len(self.heights):
            self.anchor = Anchor(entry + 1, 0, -below)

    # ------------------------------------------------------------------ places

    @property
    def position(self) -> int:
        """How far the top edge is from the top of everything."""
        above = sum(row.height for row in self.rows(self.anchor.entry)[: self.anchor.row])
        return self.heights.top(self.anchor.entry) + above + self.anchor.offset

    @property
    def range(self) -> int:
        """The largest position."""
        return max(0, self.heights.total + MARGIN - self.view)

    def go_to(self, anchor: Anchor) -> None:
        """Put a place at the top edge."""
        self.sticks = False
        self.anchor = anchor

    def scroll_by(self, pixels: int) -> None:
        """Move from where the reader is, past rows whose heights are only now measured."""
        self.sticks = False
        self.anchor = self._normal(self.anchor._replace(offset=self.anchor.offset + pixels))

    def scroll_to(self, position: int) -> None:
        """Go to a position among the estimates."""
        self.sticks = False
        entry, offset = self.heights.at(position)
        self.anchor = self._normal(Anchor(entry, 0, offset))

    def settle(self) -> None:
        """Begin a look: bring the anchor to where the rows, once measured, really are."""
        self.behind = False
        if not self.sticks:
            self.anchor = self._normal(self.anchor)
            self.sticks = self._reach() <= self.view
        if self.sticks:
            self.anchor = self._bottom()

    def visible(self) -> Iterator[Placed]:
        """Yield the rows that can be seen, from the top."""
        y = -self.anchor.offset
        for entry, at in self._from(self.anchor):
            if y >= self.view:
                break
            height = self._in_view(entry, at)
            yield Placed(entry, self._rows[entry][at], y)
            y += height

    def _bottom(self) -> Anchor:
        """Return the anchor at which the end is at the bottom edge."""
        left = self.view - MARGIN
        for entry in range(len(self.heights) - 1, -1, -1):
            for at in range(len(self.rows(entry)) - 1, -1, -1):
                left -= self._in_view(entry, at)
                if left <= 0:
                    return Anchor(entry, at, -left)
        return Anchor(0, 0, 0)

    def _normal(self, anchor: Anchor) -> Anchor:
        """Return the same place with an offset that lies within its row."""
        entry = min(max(anchor.entry, 0), len(self.heights) - 1)
        row, offset = anchor.row, anchor.offset
        while offset < 0:
            if row == 0:
                if entry == 0:
                    return Anchor(0, 0, 0)
                entry -= 1
                row = len(self.rows(entry))
                continue
            row -= 1
            offset += self._measured(entry, row)
        while True:
            rows = self.rows(entry)
            if row >= len(rows):
                if entry == len(self.heights) - 1:
                    return Anchor(entry, len(rows), offset)
                entry, row = entry + 1, 0
            elif offset >= (height := self._measured(entry, row)):
                offset -= height
                row += 1
            else:
                return Anchor(entry, row, offset)

    def _reach(self) -> int:
        """Return how much there is below the anchor, as far as it matters."""
        found = MARGIN - self.anchor.offset
        for entry, at in self._from(self.anchor):
            found += self._in_view(entry, at)
            if found > self.view:
                break
        return found

    def _from(self, anchor: Anchor) -> Iterator[tuple[int, int]]:
        row = anchor.row
        for entry in range(anchor.entry, len(self.heights)):
            for at in range(row, len(self.rows(entry))):
                yield entry, at
            row = 0

    def _in_view(self, entry: int, at: int) -> int:
        """Return the height of a row that is seen; an estimate if it is left for later."""
        row = self.rows(entry)[at]
        if row.width != self.width and self._may_wait(row):
            self.behind = True
            return row.height
        return self._measured(entry, at)

    def _measured(self, entry: int, at: int) -> int:
        """Return the height of a row at the width in force, measured if it was not."""
        row = self.rows(entry)[at]
        if row.width != self.width:
            before = row.height
            row.height = self._measure(row, self.width)
            row.width = self.width
            self.heights.set(entry, self.heights[entry] + row.height - before)
        return row.height
