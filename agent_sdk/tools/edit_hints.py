"""Why a text was not found: the nearest thing that the file has. Pure.

The search is bounded; a hint that would take long is not worth it.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence

_MAX_TEXT = 1_000_000
_MAX_LINES = 3_000
_MAX_LINE = 300
_TYPOGRAPHY = str.maketrans("‘’“”‐‑–—−", "''\"\"-----")
_NUMBERED = re.compile(r"\s*\d+\t")


def explain_miss(text: str, old: str) -> str:
    """Return what would help to find ``old`` in a text; line breaks are LF in it.

    Args:
        text: The file's text, any line endings.
        old: What was looked for.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    wanted = old.split("\n")
    if all(_NUMBERED.match(line) for line in wanted if line.strip()) and _NUMBERED.match(old):
        return "Leave out the line numbers and the tab that read puts before each line."
    if len(text) > _MAX_TEXT:
        return "Read the part of the file again and copy it exactly."
    lines = text.split("\n")
    return (
        _differs_in(lines, wanted, simplify=_dense, what="white space")
        or _differs_in(
            lines, wanted, simplify=_simple, what="quotes, dashes, case or composed characters"
        )
        or _nearest(lines, wanted)
        or "Nothing like it is in the file; read it again."
    )


def _differs_in(
    lines: Sequence[str], wanted: Sequence[str], *, simplify: Callable[[str], str], what: str
) -> str:
    """Name the first lines that are the same once both are simplified."""
    needle = [simplify(line) for line in wanted]
    while needle and not needle[0]:
        needle.pop(0)
    while needle and not needle[-1]:
        needle.pop()
    if not needle:
        return ""
    hay = [simplify(line) for line in lines]
    for at, line in enumerate(hay):
        inner = len(needle) == 1 and needle[0] in line
        if inner or (line == needle[0] and hay[at : at + len(needle)] == needle):
            return f"{_lines(at, at + len(needle))} only in {what}; copy exactly what is there."
    return ""


def _lines(start: int, end: int) -> str:
    if end - start == 1:
        return f"Line {start + 1} differs from it"
    return f"Lines {start + 1} to {end} differ from it"


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """Name a line that both have, or else the most similar one."""
    longest = max((line.strip() for line in wanted), key=len)
    if not longest:
        return ""
    for at, line in enumerate(lines):
        if line.strip() == longest:
            return f"Line {at + 1} fits, but the lines around it differ; read it again."
    import difflib  # noqa: PLC0415 - only for a miss

    some = [line for line in lines[:_MAX_LINES] if len(line) <= _MAX_LINE]
    close = difflib.get_close_matches(longest[:_MAX_LINE], some, n=1, cutoff=0.7)
    if not close:
        return ""
    return f"The nearest is line {lines.index(close[0]) + 1}: {close[0].strip()!r}."


def _dense(line: str) -> str:
    return "".join(line.split())


def _simple(line: str) -> str:
    return _dense(unicodedata.normalize("NFKC", line).translate(_TYPOGRAPHY).casefold())
