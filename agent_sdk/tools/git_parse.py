"""What git writes when it is asked to write for programs. Pure.

Names are bytes that are mostly UTF-8; others become lone surrogates (PEP 383),
as everywhere in paths.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

Scope: TypeAlias = Literal["outer", "repository"]


class Entry(Struct, frozen=True):
    """A changed file.

    Attributes:
        path: Relative to the repository's root, with ``/``.
        change: ``added``, ``modified``, ``deleted``, ``renamed``, ``copied``
            or ``type changed``.
        origin: For a renamed or copied one, what it was called.
    """

    path: str
    change: str
    origin: str = ""


class GitStatus(Struct, frozen=True, kw_only=True):
    """The state of a work tree.

    Attributes:
        branch: Name of the branch; empty if ``HEAD`` is detached.
        commit: The commit that is checked out; empty before the first.
        upstream: The branch that this one follows; empty if none.
        ahead: Commits that the upstream has not; None if not known.
        behind: Commits that only the upstream has; None if not known.
        staged: What the next commit would contain.
        unstaged: What has changed beyond that.
        untracked: What git does not know; a folder ends in ``/``.
        conflicts: Files that a merge has left unfinished.
    """

    branch: str = ""
    commit: str = ""
    upstream: str = ""
    ahead: int | None = None
    behind: int | None = None
    staged: tuple[Entry, ...] = ()
    unstaged: tuple[Entry, ...] = ()
    untracked: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


class NumStat(Struct, frozen=True):
    """How many lines of a file changed; None for a binary one."""

    path: str
    added: int | None
    deleted: int | None
    origin: str = ""


class Commit(Struct, frozen=True):
    """A line of the history."""

    sha: str
    short: str
    author: str
    date: str
    refs: str
    subject: str


class Setting(Struct, frozen=True):
    """A line of configuration, and whether it comes from the repository."""

    key: str
    value: str
    scope: Scope


LOG_FORMAT = "%H%x1f%h%x1f%an%x1f%aI%x1f%D%x1f%s"
"""For ``git log -z``, see ``parse_log``."""

_CHANGES = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type changed",
}


def parse_status(data: bytes) -> GitStatus:
    """Return what ``git status --porcelain=v2 --branch -z`` says."""
    head: dict[str, str] = {}
    staged: list[Entry] = []
    unstaged: list[Entry] = []
    untracked: list[str] = []
    conflicts: list[str] = []
    fields = iter(_fields(data))
    for field in fields:
        kind, _, rest = field.partition(" ")
        if kind == "#":
            key, _, value = rest.partition(" ")
            head[key] = value
        elif kind == "?":
            untracked.append(rest)
        elif kind == "u":
            conflicts.append(rest.split(" ", 9)[-1])
        elif kind in ("1", "2") and len(rest) > 2:
            path = rest.split(" ", 7 if kind == "1" else 8)[-1]
            origin = next(fields, "") if kind == "2" else ""
            staged += _entry(rest[0], path, origin)
            unstaged += _entry(rest[1], path, origin)
    branch, commit = head.get("branch.head", ""), head.get("branch.oid", "")
    ahead, behind = _ahead_behind(head.get("branch.ab", ""))
    return GitStatus(
        branch="" if branch == "(detached)" else branch,
        commit="" if commit == "(initial)" else commit,
        upstream=head.get("branch.upstream", ""),
        ahead=ahead,
        behind=behind,
        staged=tuple(staged),
        unstaged=tuple(unstaged),
        untracked=tuple(untracked),
        conflicts=tuple(conflicts),
    )


def _entry(code: str, path: str, origin: str) -> tuple[Entry, ...]:
    if code == ".":
        return ()
    moved = code in "RC"
    return (Entry(path, _CHANGES.get(code, "changed"), origin if moved else ""),)


def _ahead_behind(text: str) -> tuple[int | None, int | None]:
    words = text.split()
    if len(words) != 2:
        return None, None
    return _count(words[0][1:]), _count(words[1][1:])


def parse_numstat(data: bytes) -> tuple[NumStat, ...]:
    """Return what ``git diff --numstat -z`` says."""
    found: list[NumStat] = []
    fields = iter(_fields(data))
    for field in fields:
        parts = field.split("\t", 2)
        if len(parts) != 3:
            continue
        added, deleted, path = parts
        origin = ""
        if not path:  # renamed: the two names follow
            origin, path = next(fields, ""), next(fields, "")
        found.append(NumStat(path, _count(added), _count(deleted), origin))
    return tuple(found)


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def parse_log(data: bytes) -> tuple[Commit, ...]:
    """Return what ``git log -z`` says in ``LOG_FORMAT``."""
    found = [field.split("\x1f", 5) for field in _fields(data)]
    return tuple(Commit(*parts) for parts in found if len(parts) == 6)


def parse_names(data: bytes) -> tuple[str, ...]:
    """Return names that are separated by NULs."""
    return tuple(_fields(data))


def parse_attributes(data: bytes) -> dict[str, str]:
    """Return by path what ``git check-attr -z`` says about one attribute."""
    fields = _fields(data)
    return dict(zip(fields[0::3], fields[2::3], strict=False))


def parse_config(data: bytes) -> tuple[Setting, ...]:
    """Return what ``git config --list -z --show-scope`` says, later ones over earlier ones."""
    fields = _fields(data)
    settings: list[Setting] = []
    for scope, line in zip(fields[0::2], fields[1::2], strict=False):
        if scope == "command":
            continue  # our own
        key, found, value = line.partition("\n")
        outer = scope in ("system", "global")
        settings.append(
            Setting(key, value if found else "true", "outer" if outer else "repository")
        )
    return tuple(settings)


def last_value(settings: Sequence[Setting], key: str) -> str:
    """Return the value that counts; empty if there is none."""
    return next((s.value for s in reversed(settings) if s.key == key), "")


def is_true(value: str) -> bool:
    """Return whether git takes a value for true."""
    return value.lower() in ("true", "yes", "on", "1")


def filter_names(settings: Sequence[Setting]) -> tuple[str, ...]:
    """Return the names of the filters that are configured, each once."""
    found = dict.fromkeys(_names_below(settings, "filter."))
    return tuple(found)


def _names_below(settings: Sequence[Setting], prefix: str) -> Iterator[str]:
    for setting in settings:
        if setting.key.startswith(prefix):
            name, dot, _ = setting.key[len(prefix) :].rpartition(".")
            if dot:
                yield name


def _fields(data: bytes) -> list[str]:
    parts = data.split(b"\0")
    if parts and not parts[-1].strip():
        parts.pop()
    return [part.decode("utf-8", "surrogateescape") for part in parts]
