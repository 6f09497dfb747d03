"""Unified diffs of two texts, quickly and within bounds. Pure.

What both texts have in common at their ends is left out first, then they are
cut at lines that are unique in both; only what remains between such lines is
compared in full, and if that is still large it counts as replaced.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

MAX_DIFF = 64 * 1024
"""Most bytes of a diff's text."""

_CONTEXT = 3
_MAX_COMPARED = 400
"""Most lines, of both sides together, that are compared in full."""


class Diff(Struct, frozen=True):
    """How one text became another.

    Attributes:
        text: The unified diff, with file names; empty if nothing changed.
        additions: Lines added.
        deletions: Lines removed.
        truncated: Whether ``text`` was cut at the limit.
    """

    text: str
    additions: int
    deletions: int
    truncated: bool = False


class _Block(NamedTuple):
    """Lines a..b of the old text became lines c..d of the new (from 0, end excluded)."""

    a: int
    b: int
    c: int
    d: int


def unified(old: str | None, new: str, *, path: str, limit: int = MAX_DIFF) -> Diff:
    """Return the difference between two texts with three lines of context.

    Args:
        old: The old text; None for a file that did not exist.
        new: The new text.
        path: The file's name in the header.
        limit: Most bytes of the text.
    """
    before, after = _split(old or ""), _split(new)
    blocks = changed_blocks(before, after)
    additions = sum(block.d - block.c for block in blocks)
    deletions = sum(block.b - block.a for block in blocks)
    if not blocks:
        return Diff("", 0, 0)
    header = ["--- /dev/null" if old is None else f"--- a/{path}", f"+++ b/{path}"]
    text: list[str] = []
    left = limit
    for line in (*header, *_hunks(before, after, blocks)):
        size = len(line) + 1 if line.isascii() else len(line.encode("utf-8", "replace")) + 1
        if size > left:
            text.append(_cut(line, left - 1))
            return Diff("\n".join(text), additions, deletions, truncated=True)
        left -= size
        text.append(line)
    return Diff("\n".join(text) + "\n", additions, deletions)


def changed_blocks(before: Sequence[str], after: Sequence[str]) -> list[_Block]:
    """Return where two lists of lines differ, in order, joined where they touch."""
    blocks: list[_Block] = []
    for block in _compare(before, after):
        if blocks and blocks[-1].b == block.a and blocks[-1].d == block.c:
            blocks[-1] = _Block(blocks[-1].a, block.b, blocks[-1].c, block.d)
        else:
            blocks.append(block)
    return blocks


def _split(text: str) -> list[str]:
    """Split after each LF, which stays: a last line without one is different."""
    lines = text.split("\n")
    last = lines.pop()
    lines = [line + "\n" for line in lines]
    return [*lines, last] if last else lines


def _compare(before: Sequence[str], after: Sequence[str]) -> Iterator[_Block]:
    """Yield the differing blocks: trimmed, cut at unique lines, then compared."""
    whole = _trim(before, after, _Block(0, len(before), 0, len(after)))
    a, c = whole.a, whole.c
    for x, y in [*_anchors(before, after, whole), (whole.b, whole.d)]:
        block = _trim(before, after, _Block(a, x, c, y))
        if block.a < block.b and block.c < block.d:
            yield from _compare_fully(before, after, block)
        elif block.a < block.b or block.c < block.d:
            yield block
        a, c = x, y


def _trim(before: Sequence[str], after: Sequence[str], block: _Block) -> _Block:
    a, b, c, d = block
    while a < b and c < d and before[a] == after[c]:
        a, c = a + 1, c + 1
    while a < b and c < d and before[b - 1] == after[d - 1]:
        b, d = b - 1, d - 1
    return _Block(a, b, c, d)


def _anchors(before: Sequence[str], after: Sequence[str], block: _Block) -> list[tuple[int, int]]:
    """Return pairs of equal lines, unique on both sides, that ascend on both."""
    if (block.b - block.a) + (block.d - block.c) <= _MAX_COMPARED:
        return []
    old, new = before[block.a : block.b], after[block.c : block.d]
    in_old, in_new = Counter(old), Counter(new)
    place = {line: at for at, line in enumerate(new) if in_new[line] == 1}
    pairs = [
        (at, place[line]) for at, line in enumerate(old) if in_old[line] == 1 and line in place
    ]
    return [(block.a + x, block.c + y) for x, y in _longest_ascending(pairs)]


def _longest_ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs, ascending in the first, that ascends in the second."""
    tails: list[int] = []  # smallest last value of a run of each length
    holders: list[int] = []  # the pair that holds it
    previous: list[int] = []
    for at, (_, value) in enumerate(pairs):
        length = bisect_left(tails, value)
        previous.append(holders[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            holders.append(at)
        else:
            tails[length], holders[length] = value, at
    run: list[tuple[int, int]] = []
    at = holders[-1] if holders else -1
    while at >= 0:
        run.append(pairs[at])
        at = previous[at]
    return run[::-1]


def _compare_fully(before: Sequence[str], after: Sequence[str], block: _Block) -> Iterator[_Block]:
    if (block.b - block.a) + (block.d - block.c) > _MAX_COMPARED or (
        block.b - block.a == 1 == block.d - block.c
    ):
        yield block
        return
    import difflib  # noqa: PLC0415 - most edits do not need it

    matcher = difflib.SequenceMatcher(
        None, before[block.a : block.b], after[block.c : block.d], autojunk=False
    )
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            yield _Block(block.a + a, block.a + b, block.c + c, block.c + d)


def _hunks(before: Sequence[str], after: Sequence[str], blocks: Sequence[_Block]) -> Iterator[str]:
    """Yield the lines of the hunks; blocks whose context touches share one."""
    group: list[_Block] = []
    for block in blocks:
        if group and block.a - group[-1].b > 2 * _CONTEXT:
            yield from _hunk(before, after, group)
            group = []
        group.append(block)
    if group:
        yield from _hunk(before, after, group)


def _hunk(before: Sequence[str], after: Sequence[str], group: Sequence[_Block]) -> Iterator[str]:
    lead = min(_CONTEXT, group[0].a)
    trail = min(_CONTEXT, len(before) - group[-1].b)
    a, c = group[0].a - lead, group[0].c - lead
    b, d = group[-1].b + trail, group[-1].d + trail
    yield f"@@ -{_range(a, b)} +{_range(c, d)} @@"
    for block in group:
        yield from _marked(" ", before[a : block.a])
        yield from _marked("-", before[block.a : block.b])
        yield from _marked("+", after[block.c : block.d])
        a = block.b
    yield from _marked(" ", before[a:b])


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.endswith("\n"):
            yield mark + line[:-1]
        else:
            yield mark + line
            yield "\\ No newline at end of file"


def _cut(line: str, size: int) -> str:
    return line.encode("utf-8", "replace")[: max(size, 0)].decode("utf-8", "ignore")
