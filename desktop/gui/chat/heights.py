"""Heights of many entries, most of them estimates: where one is, and what is at a place. Pure.

A binary indexed tree: changing a height, the top of an entry and the entry at
a position each take O(log n) steps, so that 20,000 entries cost no more than 20.
"""

from collections.abc import Iterable


class Heights:
    """Heights in pixels, at least 0.

    Args:
        heights: The entries from the top.
    """

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights = list(heights)
        self._tree = [0, *self._heights]
        for at in range(1, len(self._tree)):
            above = at + (at & -at)
            if above < len(self._tree):
                self._tree[above] += self._tree[at]
        self._total = sum(self._heights)

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    @property
    def total(self) -> int:
        """All heights together."""
        return self._total

    def append(self, height: int) -> None:
        """Add an entry at the end."""
        at = len(self._tree)
        value, below = height, at - 1
        stop = at - (at & -at)
        while below > stop:
            value += self._tree[below]
            below -= below & -below
        self._tree.append(value)
        self._heights.append(height)
        self._total += height

    def set(self, index: int, height: int) -> int:
        """Change a height; return by how much it grew."""
        grown = height - self._heights[index]
        if grown:
            self._heights[index] = height
            self._total += grown
            at = index + 1
            while at < len(self._tree):
                self._tree[at] += grown
                at += at & -at
        return grown

    def top(self, index: int) -> int:
        """Return where an entry begins; ``len`` is allowed and gives the total."""
        at, above = index, 0
        while at > 0:
            above += self._tree[at]
            at -= at & -at
        return above

    def at(self, y: int) -> tuple[int, int]:
        """Return the entry that covers a position, and the offset within it.

        Positions outside give the first or the last entry.

        Raises:
            IndexError: If there are no entries.
        """
        if not self._heights:
            raise IndexError("no entries")
        y = min(max(y, 0), max(self._total - 1, 0))
        at, rest = 0, y
        step = 1 << (len(self._tree) - 1).bit_length()
        while step:
            forward = at + step
            if forward < len(self._tree) and self._tree[forward] <= rest:
                at = forward
                rest -= self._tree[forward]
            step >>= 1
        at = min(at, len(self._heights) - 1)
        return at, y - self.top(at)


def text_height(characters: int, *, lines: int = 1, per_line: int, line_height: int) -> int:
    """Return an estimate of how high text becomes when it is wrapped.

    Args:
        characters: Its length.
        lines: Lines that it has at least.
        per_line: Characters that fit into a line.
        line_height: Pixels of a line.
    """
    return max(lines, -(-characters // max(per_line, 1))) * line_height
