"""Results of a search as a model is shown them: a page, and what it leaves out. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from agent_sdk.core.errors import ToolError
from agent_sdk.tools.file_walk import Walked
from agent_sdk.tools.path_text import visible

NOTICES = 1_024
"""Bytes of a result kept free for notices."""

_NAMED = 3


class ResultPage(Struct, frozen=True):
    """Lines to show.

    Attributes:
        lines: The lines.
        first: Number of the first one, from 1; 0 for none.
        last: Number of the last one.
        total: How many lines there are.
    """

    lines: tuple[str, ...]
    first: int
    last: int
    total: int

    def notice(self, things: str, *, at_least: bool = False) -> list[str]:
        """Return a sentence about what is not shown; none if everything is."""
        total = f"{'at least ' if at_least else ''}{self.total:,}"
        if not self.lines or (self.first == 1 and self.last == self.total and not at_least):
            return []
        rest = f" Continue with offset={self.last}." if self.last < self.total else ""
        return [f"[Shown: {self.first:,}-{self.last:,} of {total} {things}.{rest}]"]


def page_of(
    lines: Sequence[str], *, offset: int, limit: int, budget: int, total: int | None = None
) -> ResultPage:
    """Return the lines after the first ``offset``: at most ``limit``, and ``budget`` bytes.

    Args:
        lines: All lines, or the first ones of ``total``.
        offset: Lines to skip.
        limit: Most lines.
        budget: Most bytes, line ends included.
        total: How many lines there are, if ``lines`` does not hold all.

    Raises:
        ToolError: If ``offset`` skips everything that there is.
    """
    count = len(lines) if total is None else total
    if offset and offset >= count:
        raise ToolError(
            f"There are only {count:,} results; offset={offset} skips all of them.",
            hint="Use a smaller offset.",
        )
    shown: list[str] = []
    room = budget
    for line in lines[offset : offset + limit]:
        room -= (len(line) if line.isascii() else len(line.encode(errors="replace"))) + 1
        if room < 0 and shown:
            break
        shown.append(line)
    first = offset + 1 if shown else 0
    return ResultPage(tuple(shown), first, offset + len(shown), count)


def walk_notices(walked: Walked, *, max_entries: int, seconds: float) -> list[str]:
    """Return sentences about what a walk could not or must not look at."""
    notices = []
    if walked.cut == "time":
        notices.append(
            f"[Not everything was looked at: {seconds:g} seconds were over."
            " Name a smaller folder in path.]"
        )
    elif walked.cut == "entries":
        notices.append(
            f"[Not everything was looked at: there are more than {max_entries:,} files."
            " Name a smaller folder in path.]"
        )
    if walked.unreadable:
        notices.append(f"[{walked.unreadable:,} files or folders could not be opened.]")
    if walked.withheld:
        notices.append(
            f"[Left out, since reading them needs the user's consent: {_named(walked.withheld)}."
            " Name such a file in path to ask for it.]"
        )
    return notices


def too_large_notice(paths: Sequence[str], *, limit: int) -> list[str]:
    """Return a sentence about files that were not searched for their size."""
    if not paths:
        return []
    return [f"[Not searched, larger than {limit // 2**20} MiB: {_named(paths)}.]"]


def _named(paths: Sequence[str]) -> str:
    named = ", ".join(f"'{visible(path)}'" for path in paths[:_NAMED])
    return f"{named} and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else named
