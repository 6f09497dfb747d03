"""Patterns for paths: ``*``, ``?``, ``[a-z]``, ``{a,b}`` within a name, ``**`` for folders. Pure.

Patterns come from models and from files in a project, so matching must not
take long whatever they are: a name is matched with atomic groups only, which
never try a place twice, and the names of a path one after the other with one
place to go back to, the last ``**``.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import InvalidToolInput

Part: TypeAlias = Callable[[str], object] | None
"""Tests one name of a path; None stands for ``**``, any number of names."""

MAX_PATTERN = 1_024
"""Characters of a pattern."""

_MAX_ALTERNATIVES = 64
_SPECIAL = frozenset("*?[\\")


class PathGlob(Struct, frozen=True):
    """A compiled pattern for paths relative to a folder.

    Attributes:
        alternatives: What its braces come to; one of them must match.
        heads: For each alternative the names that a path must begin with.
    """

    alternatives: tuple[tuple[Part, ...], ...]
    heads: tuple[tuple[str, ...], ...]

    def matches(self, names: Sequence[str]) -> bool:
        """Return whether the pattern covers a path, given as its names."""
        return any(match_parts(parts, names) for parts in self.alternatives)

    def may_contain(self, names: Sequence[str]) -> bool:
        """Return whether something below a folder might match, so that it is worth a look."""
        count = len(names)
        return any(
            head[:count] == tuple(names[: len(head)]) and (None in parts or count < len(parts))
            for parts, head in zip(self.alternatives, self.heads, strict=True)
        )


def compile_glob(text: str) -> PathGlob:
    """Compile a pattern as tools take it.

    A pattern without ``/`` is about names in any folder; ``./`` in front ties
    it to the folder itself.

    Raises:
        InvalidToolInput: If it is too long, or a brace or bracket is not closed.
    """
    if len(text) > MAX_PATTERN:
        raise InvalidToolInput(f"The pattern is longer than {MAX_PATTERN:,} characters.")
    alternatives: list[tuple[Part, ...]] = []
    heads: list[tuple[str, ...]] = []
    for plain in expand_braces(text):
        names = [name for name in plain.split("/") if name not in ("", ".")]
        if not names:
            raise InvalidToolInput(f"The pattern {text!r} names nothing.")
        if "/" not in plain.removesuffix("/"):
            names.insert(0, "**")
        alternatives.append(compile_parts(names))
        heads.append(tuple(_literal_head(names)))
    return PathGlob(tuple(alternatives), tuple(heads))


def compile_parts(names: Sequence[str]) -> tuple[Part, ...]:
    """Compile the names of a pattern; a run of ``**`` counts as one.

    Raises:
        InvalidToolInput: If a bracket is not closed.
    """
    parts: list[Part] = []
    for name in names:
        if name != "**":
            parts.append(compile_name(name))
        elif not parts or parts[-1] is not None:
            parts.append(None)
    return tuple(parts)


def match_parts(parts: Sequence[Part], names: Sequence[str]) -> bool:
    """Return whether a compiled pattern covers a path.

    A last ``**`` stands for at least one name, any other also for none.
    """
    at = place = 0
    star = mark = -1
    while place < len(names):
        part = parts[at] if at < len(parts) else _nothing
        if part is None:
            if at == len(parts) - 1:
                return True
            star, mark = at, place
            at += 1
        elif part(names[place]):
            at += 1
            place += 1
        elif star >= 0:
            mark += 1
            at, place = star + 1, mark
        else:
            return False
    return at == len(parts)


def compile_name(text: str) -> Callable[[str], object]:
    """Return a test for one name of a path.

    Raises:
        InvalidToolInput: If a bracket is not closed.
    """
    if not _SPECIAL & set(text):
        return text.__eq__
    if text[0] == "*" and not _SPECIAL & set(text[1:]):
        suffix = text[1:]
        return lambda name: name.endswith(suffix)
    pieces = list(_pieces(text))
    *before, last = pieces
    if not before:
        return re.compile(last, re.DOTALL).fullmatch
    first, *middle = before
    # Each piece takes the first place where it fits, for good: if the rest
    # does not fit after that, it would not fit after a later one either.
    expression = first + "".join(f"(?>.*?{piece})" for piece in middle) + f".*{last}"
    return re.compile(expression, re.DOTALL).fullmatch


def expand_braces(text: str) -> list[str]:
    """Return the patterns that one with ``{a,b}`` stands for.

    Raises:
        InvalidToolInput: If a brace is not closed or there are too many.
    """
    waiting, done = [text], []
    while waiting:
        pattern = waiting.pop()
        opened = _find_brace(pattern)
        if opened < 0:
            done.append(pattern)
            continue
        closed, choices = _choices(pattern, opened)
        head, tail = pattern[:opened], pattern[closed + 1 :]
        waiting.extend(head + choice + tail for choice in reversed(choices))
        if len(waiting) + len(done) > _MAX_ALTERNATIVES:
            raise InvalidToolInput(
                f"The braces of {text[:60]!r} stand for more than {_MAX_ALTERNATIVES} patterns."
            )
    return done


def _find_brace(pattern: str) -> int:
    at = 0
    while at < len(pattern):
        if pattern[at] == "{":
            return at
        at += 2 if pattern[at] == "\\" else 1
    return -1


def _choices(pattern: str, opened: int) -> tuple[int, list[str]]:
    depth, start = 0, opened + 1
    choices: list[str] = []
    at = opened
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "{":
            depth += 1
        elif depth == 1 and char in ",}":
            choices.append(pattern[start:at])
            start = at + 1
            if char == "}":
                return at, choices
        elif char == "}":
            depth -= 1
        at += 1
    raise InvalidToolInput(
        f"The pattern {pattern!r} has a brace that is not closed.",
        hint="Write a brace that is meant itself as '\\{'.",
    )


def _literal_head(names: Sequence[str]) -> Iterator[str]:
    """Yield the folders that a path must begin with."""
    for name in names[:-1]:
        if _SPECIAL & set(name):
            return
        yield name


def _pieces(text: str) -> Iterator[str]:
    """Yield regular expressions for what stands between the stars of a name."""
    piece = ""
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            yield piece
            piece = ""
            at += len(text[at:]) - len(text[at:].lstrip("*"))
        elif char == "?":
            piece += "."
        elif char == "[":
            charset, at = _charset(text, at)
            piece += charset
        elif char == "\\":
            if at == len(text):
                raise InvalidToolInput(f"The pattern {text!r} ends in a backslash.")
            piece += re.escape(text[at])
            at += 1
        else:
            piece += re.escape(char)
    yield piece


def _charset(text: str, at: int) -> tuple[str, int]:
    """Return the expression for a bracket whose inside begins at ``at``, and where it ends."""
    negated = text[at : at + 1] in ("!", "^")
    at += negated
    members: list[str] = []
    start = at
    while at < len(text) and (text[at] != "]" or at == start):
        at += text[at] == "\\"
        low, at = text[at : at + 1], at + 1
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
            at += 1 + (text[at + 1] == "\\")
            high, at = text[at : at + 1], at + 1
            if low <= high:  # a range the wrong way round holds nothing
                members.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            members.append(re.escape(low))
    if at >= len(text):
        raise InvalidToolInput(
            f"The pattern {text!r} has a bracket that is not closed.",
            hint="Write a bracket that is meant itself as '\\['.",
        )
    inside = "".join(members)
    if not inside:
        return ("." if negated else "(?!)"), at + 1
    return f"[{'^' if negated else ''}{inside}]", at + 1


def _nothing(name: str) -> bool:
    return False
