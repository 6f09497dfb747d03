"""Numbered lines of a text, within bounds, and how to see the rest. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from agent_sdk.core.errors import ToolError

MAX_LINES = 2_000
MAX_COLUMNS = 2_000
"""Characters of a line that are shown."""

_NOTICES = 512
"""Bytes that are kept free for the notices at the end, also for one by the caller."""

_NAMED = 5


class Page(Struct, frozen=True):
    """Lines to show.

    Attributes:
        text: The lines with their numbers, and notices in brackets.
        first: Number of the first line shown, from 1; 0 for none.
        last: Number of the last line shown; 0 for none.
        total: How many lines there are.
    """

    text: str
    first: int
    last: int
    total: int


def page(
    lines: Sequence[str], *, name: str, offset: int = 1, limit: int = MAX_LINES, budget: int
) -> Page:
    """Return lines from ``offset`` on, at most ``limit`` of them and ``budget`` bytes.

    Args:
        lines: All lines of the text.
        name: The file's name, for messages.
        offset: Number of the first line wanted, from 1.
        limit: Most lines.
        budget: Most bytes of the page, notices included.

    Raises:
        ToolError: If the text has no line of that number.
    """
    total = len(lines)
    if offset > max(total, 1):
        count = "1 line" if total == 1 else f"{total} lines"
        raise ToolError(f"'{name}' has {count}; offset {offset} is past its end.")
    if not total:
        return Page(f"['{name}' is empty.]", 0, 0, 0)
    room = max(budget - _NOTICES, 64)
    columns = min(MAX_COLUMNS, room // 4)
    shown: list[str] = []
    cut: list[int] = []
    for number in range(offset, min(offset + min(limit, MAX_LINES), total + 1)):
        line = lines[number - 1]
        if len(line) > columns:
            cut.append(number)
            line = f"{line[:columns]}… [{len(line) - columns:,} more characters]"
        numbered = f"{number}\t{line}"
        room -= _size(numbered) + 1
        if room < 0 and shown:
            break
        shown.append(numbered)
    last = offset + len(shown) - 1
    notices = [*_continuation(lines, offset, last), *_cut_notice(cut, last, columns)]
    return Page("\n".join([*shown, *notices]), offset, last, total)


def _continuation(lines: Sequence[str], first: int, last: int) -> list[str]:
    total = len(lines)
    if last == total:
        return []
    rest = sum(map(_size, lines[last:])) + total - last
    return [
        f"[Lines {first}-{last} of {total}; about {rest:,} bytes follow."
        f" Continue with offset={last + 1}.]"
    ]


def _cut_notice(cut: Sequence[int], last: int, columns: int) -> list[str]:
    numbers = [n for n in cut if n <= last]
    if not numbers:
        return []
    named = ", ".join(map(str, numbers[:_NAMED]))
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return [
        f"[Cut at {columns:,} characters: line {named}{more}. See the rest of one with"
        f" sed -n '{numbers[0]}p' FILE | cut -c{columns + 1}- in bash.]"
    ]


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
