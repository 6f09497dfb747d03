"""From replacements of text to splices of a file. Pure.

All replacements are matched against the original; each must fit exactly one
place (or be meant for all), none may overlap, and something must change. The
match is exact but for line endings: a line break in the text that is looked
for fits LF, CRLF and a bare CR, and what is inserted gets the ending of the
line it goes into. There is no fuzzy matching: a near miss is explained instead,
so that nothing is ever changed that was not meant.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.tools.edit_hints import explain_miss
from agent_sdk.tools.text_codec import Splice, TextFile, encode, is_unknown_byte

_ENDING = r"(?:\r\n|(?<!\r)\n|\r(?!\n))"
_MAX_PLACES = 100_000


class Replacement(Struct, frozen=True):
    """One wish: ``old`` becomes ``new``, in one place or ``everywhere``."""

    old: str
    new: str
    everywhere: bool = False


class _Match(Struct, frozen=True):
    wish: int
    start: int
    end: int


def plan_edits(file: TextFile, wishes: Sequence[Replacement], *, name: str) -> list[Splice]:
    """Return the smallest changes that fulfil the wishes, in ascending order.

    Args:
        file: The original.
        wishes: What is to be replaced.
        name: The file's name, for messages.

    Raises:
        InvalidToolInput: If a wish is empty or changes nothing.
        ToolError: If one does not fit, fits several places, overlaps another,
            or cannot be written in the file's encoding.
    """
    matches: list[_Match] = []
    for number, wish in enumerate(wishes):
        label = f"edit {number + 1}: " if len(wishes) > 1 else ""
        _check(wish, label)
        matches += [_Match(number, a, b) for a, b in _places(file, wish, name=name, label=label)]
    matches.sort(key=lambda m: (m.start, m.end))
    for one, other in pairwise(matches):
        if other.start < one.end:
            raise ToolError(
                f"Edits {one.wish + 1} and {other.wish + 1} overlap in '{name}'.",
                hint="Join them into one.",
            )
    splices = [_splice(file.text, m, wishes[m.wish]) for m in matches]
    splices = [s for s in splices if file.text[s.start : s.end] != s.text]
    if not splices:
        raise ToolError(f"The edit would change nothing in '{name}'.")
    return splices


def _check(wish: Replacement, label: str) -> None:
    if not wish.old:
        raise InvalidToolInput(
            f"{label}old_string is empty.", hint="Use write to create a file or to replace all."
        )
    if wish.old == wish.new:
        raise InvalidToolInput(f"{label}old_string and new_string are the same.")


def _places(file: TextFile, wish: Replacement, *, name: str, label: str) -> list[tuple[int, int]]:
    encode(wish.old, file)  # raises for what the file cannot contain
    encode(wish.new, file)
    old = _plain(wish.old)
    places = _find_all(file.text, old) if wish.everywhere else _find_two(file.text, old)
    if not places:
        hint = explain_miss(file.printable, old)
        raise ToolError(f"{label}old_string was not found in '{name}'.", hint=hint)
    if len(places) > 1 and not wish.everywhere:
        lines = [_plain(file.text[:start]).count("\n") + 1 for start, _ in places]
        raise ToolError(
            f"{label}old_string fits several places in '{name}', the first two in lines"
            f" {lines[0]} and {lines[1]}.",
            hint="Add lines around it until it is unique, or set replace_all.",
        )
    if file.encoding == "unknown":
        for start, _ in places:
            _require_boundary(file.text, start, name)
    return places


def _require_boundary(text: str, start: int, name: str) -> None:
    """Refuse a match that may begin with the second byte of a character.

    In encodings such as GBK or Shift JIS that byte can look like ASCII.
    """
    if start and is_unknown_byte(text[start - 1]) and "0" <= text[start] <= "~":
        raise ToolError(
            f"The encoding of '{name}' is unknown, and old_string fits right behind a byte"
            " that may belong to its first character.",
            hint="Let old_string begin somewhere else, or convert the file first (iconv).",
        )


def _find_all(text: str, old: str) -> list[tuple[int, int]]:
    """Return all places, from the left, that do not overlap."""
    found: list[tuple[int, int]] = []
    place = _find(text, old, 0)
    while place:
        found.append(place)
        if len(found) > _MAX_PLACES:
            raise ToolError(
                f"old_string fits more than {_MAX_PLACES:,} places.", hint="Use sed in bash."
            )
        place = _find(text, old, place[1])
    return found


def _find_two(text: str, old: str) -> list[tuple[int, int]]:
    """Return the first two places; a second one counts even if it overlaps."""
    first = _find(text, old, 0)
    second = _find(text, old, first[0] + 1) if first else None
    return [place for place in (first, second) if place]


def _find(text: str, old: str, start: int) -> tuple[int, int] | None:
    if "\r" not in text:
        at = text.find(old, start)
        return (at, at + len(old)) if at >= 0 else None
    # re keeps what it compiled, so the loop over all places compiles once.
    match = re.compile(_ENDING.join(map(re.escape, old.split("\n")))).search(text, start)
    return match.span() if match else None


def _splice(text: str, match: _Match, wish: Replacement) -> Splice:
    """Leave out of a match what old and new have in common at both ends."""
    matched = text[match.start : match.end]
    old, new = _plain(matched), wish.new.replace("\r\n", "\n")
    shorter = min(len(old), len(new))
    head = _common(old, new, shorter)
    tail = _common(old[::-1], new[::-1], shorter - head)
    start, end = match.start + head, match.end - tail
    if len(old) != len(matched):  # a CRLF is one line break but two characters
        offsets = _offsets(matched)
        start, end = match.start + offsets[head], match.start + offsets[len(old) - tail]
    bare = Splice(start, end, new[head : len(new) - tail])
    return Splice(start, end, _with_endings(text, bare))


def _with_endings(text: str, change: Splice) -> str:
    """Give inserted line breaks the endings of those they replace, or near them."""
    start, end, inserted = change.start, change.end, change.text
    if "\n" not in inserted or "\r" not in text:
        return inserted
    replaced = re.findall(_ENDING, text[start:end])
    first, *others = inserted.split("\n")
    last = replaced[-1] if replaced else _ending_near(text, start)
    wanted = replaced + [last] * (len(others) - len(replaced))
    result = text[:start][-1:] + first
    before = len(result) - len(first)
    for number, line in enumerate(others, 1):
        following = line or ("" if number < len(others) else text[end : end + 1])
        result += _apart(wanted[number - 1], result, following) + line
    return result[before:]


def _apart(ending: str, before: str, after: str) -> str:
    """Return an ending that does not become one with a CR before or an LF after it."""
    for choice in (ending, "\r", "\n"):
        if not (before.endswith("\r") and choice == "\n") and not (
            choice == "\r" and after.startswith("\n")
        ):
            return choice
    return "\r\n"


def _ending_near(text: str, at: int) -> str:
    """Return the ending of the line that a position lies in, or of one before."""
    after = re.compile(_ENDING).search(text, at)
    if after:
        return after[0]
    last = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at))
    if last < 0:
        return "\n"
    return "\r\n" if text[last - 1 : last + 1] == "\r\n" else text[last]


def _common(one: str, other: str, most: int) -> int:
    """Return the length of the common prefix, at most ``most``; by bisection."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _offsets(text: str) -> list[int]:
    """For each position in the plain text, the position in the text itself."""
    return [m.start() for m in re.finditer(r"\r\n|[\s\S]", text)] + [len(text)]


def _plain(text: str) -> str:
    """Return the text with LF for every line ending."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
