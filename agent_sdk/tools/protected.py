"""Which paths no rule may open for good. Pure, over a list that is data.

Two lists in ``protected_paths.json``: what must not be *written* without a
person saying so each time, since it would run later or change what ZPI may do,
and *secrets*, for which the same holds of reading. An entry is a sequence of
path components, found anywhere in a path, or from its start when it begins
with ``/``; ``*`` within a component stands for any characters and a last
``**`` for whatever lies below, and for the thing itself.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

_DATA = Path(__file__).with_name("protected_paths.json")


class _Lists(Struct, frozen=True, forbid_unknown_fields=True):
    write: tuple[str, ...]
    secret: tuple[str, ...]


class _Entry(Struct, frozen=True):
    parts: tuple[str, ...]
    anchored: bool
    below: bool


class ProtectedPaths:
    """The compiled lists.

    Attributes:
        folders: Folded components of further folders that are protected
            against writing, such as ZPI's own data, wherever it lies.
    """

    def __init__(
        self, *, write: Sequence[str], secret: Sequence[str], folders: Iterable[str] = ()
    ) -> None:
        self._write = _index(write)
        self._secret = _index(secret)
        self.folders = tuple(parts for folder in folders if (parts := components(folder)))

    def secret(self, path: str) -> bool:
        """Return whether reading the absolute path needs a person each time."""
        return _covers(self._secret, components(path))

    def write(self, path: str) -> bool:
        """Return whether writing the absolute path needs a person each time."""
        parts = components(path)
        return (
            _covers(self._write, parts)
            or _covers(self._secret, parts)
            or any(parts[: len(folder)] == folder for folder in self.folders)
        )


def load_protected(folders: Iterable[str] = ()) -> ProtectedPaths:
    """Read the lists that ship with ZPI.

    Args:
        folders: Absolute real paths of further protected folders.
    """
    lists = msgspec.json.decode(_DATA.read_bytes(), type=_Lists)
    return ProtectedPaths(write=lists.write, secret=lists.secret, folders=folders)


def fold(text: str) -> str:
    """Return the text as a careless file system would compare it.

    Case, composition and invisible characters make no difference.
    """
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return "".join(c for c in folded if unicodedata.category(c) != "Cf")


def components(path: str) -> tuple[str, ...]:
    """Return the folded components of a path, separators of either kind.

    What Windows ignores at the end of a name (dots, spaces, the name of a
    stream) is cut off, everywhere: it can only make more things protected.
    """
    return tuple(
        cleaned
        for part in fold(path).replace("\\", "/").split("/")
        if (cleaned := part.split(":", 1)[0].rstrip(". ") or part)
    )


def _index(patterns: Sequence[str]) -> dict[str, list[_Entry]]:
    """Entries by their first component; those with a wildcard there under ``*``."""
    index: dict[str, list[_Entry]] = {}
    for pattern in patterns:
        parts = tuple(fold(part) for part in pattern.split("/") if part)
        below = parts[-1] == "**"
        entry = _Entry(parts[:-1] if below else parts, pattern.startswith("/"), below)
        first = entry.parts[0]
        index.setdefault("*" if "*" in first else first, []).append(entry)
    return index


def _covers(index: dict[str, list[_Entry]], parts: tuple[str, ...]) -> bool:
    wild = index.get("*", ())
    for at, part in enumerate(parts):
        for entry in (*index.get(part, ()), *wild):
            if _matches(entry, parts, at):
                return True
    return False


def _matches(entry: _Entry, parts: tuple[str, ...], at: int) -> bool:
    if entry.anchored and at:
        return False
    end = at + len(entry.parts)
    if end > len(parts) or (end < len(parts) and not entry.below):
        return False
    return all(map(_same, entry.parts, parts[at:end]))


def _same(pattern: str, part: str) -> bool:
    if "*" not in pattern:
        return pattern == part
    head, _, tail = pattern.partition("*")
    return len(part) >= len(head) + len(tail) and part.startswith(head) and part.endswith(tail)
