"""The files below a folder, in one fixed order, without what ignore files leave out.

Links are never followed, so nothing outside the folder is reached. Version
control's own folders are left out always. Files come in the order of their
whole paths, compared character by character.
"""

import os
import stat
import threading
import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from agent_sdk.core.fsio_at import read_regular
from agent_sdk.tools.gitignore import (
    KINDS,
    MAX_IGNORE_FILE,
    IgnoreFile,
    IgnoreLevel,
    is_ignored,
    parse_ignore,
)
from agent_sdk.tools.path_text import portable, within

MAX_FILES = 200_000
"""Entries that one walk looks at."""

MAX_SECONDS = 10.0

_VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj", ".bzr", "CVS"})
_MAX_PARENTS = 64
_MAX_DEPTH = 256
_LOOK_EVERY = 512
"""Entries after which the time and the stop flag are looked at."""

Names: TypeAlias = tuple[str, ...]


class WalkedFile(Struct, frozen=True):
    """A file that was found.

    Attributes:
        path: Relative to the walk's folder, with ``/``.
        size: Bytes; 0 if sizes were not asked for.
    """

    path: str
    size: int


class WalkQuery(Struct, frozen=True, kw_only=True):
    """What to look for.

    Attributes:
        folder: Real path of the folder.
        session_root: Real path of the session's folder that it lies in; empty
            if in none. Ignore files are taken from there on, or from the top
            of the repository.
        wanted: Whether a file is wanted, by the names of its relative path.
        enter: Whether a folder is worth a look, likewise.
        may_read: Whether a real path (portable) may be read; others are left
            out and counted. None lists names only, links to files included,
            and needs no sizes.
        ignored_too: Take also what ignore files leave out.
        max_files: Most entries to look at.
        seconds: Most time to take.
    """

    folder: str
    session_root: str = ""
    wanted: Callable[[Names], bool]
    enter: Callable[[Names], bool] = lambda names: True
    may_read: Callable[[str], bool] | None = None
    ignored_too: bool = False
    max_files: int = MAX_FILES
    seconds: float = MAX_SECONDS


class Walked(Struct):
    """What was found.

    Attributes:
        files: The files, in order.
        cut: Why not everything was looked at; empty if it was.
        unreadable: Folders and files that the system refused to show.
        withheld: Relative paths of wanted files that may not be read.
    """

    files: list[WalkedFile]
    cut: Literal["", "time", "entries", "stopped"] = ""
    unreadable: int = 0
    withheld: list[str] = []


class _Item(Struct, frozen=True):
    """A folder or file that has yet to be looked at."""

    names: Names
    folder: bool
    size: int = 0
    levels: tuple[IgnoreLevel, ...] = ()


def walk(query: WalkQuery, stop: threading.Event) -> Walked:
    """Return the wanted files below a folder; blocks while it looks.

    Args:
        query: What to look for.
        stop: Ends the walk when it is set.
    """
    return _Walk(query, stop).run()


class _Walk:
    def __init__(self, query: WalkQuery, stop: threading.Event) -> None:
        self._query = query
        self._stop = stop
        self._end = time.monotonic() + query.seconds
        self._seen = 0
        self._found = Walked(files=[])
        self._base: Names = ()

    def run(self) -> Walked:
        levels: tuple[IgnoreLevel, ...] = ()
        if not self._query.ignored_too:
            self._base, levels = _levels_above(self._query.folder, self._query.session_root)
        waiting = [_Item((), folder=True, levels=levels)]
        while waiting and self._found.cut != "stopped":
            item = waiting.pop()
            if not item.folder:
                self._take(item)
            elif not self._found.cut:
                waiting.extend(reversed(self._list(item)))
        return self._found

    def _take(self, item: _Item) -> None:
        query, path = self._query, "/".join(item.names)
        if query.may_read is not None and not query.may_read(
            portable(_below(query.folder, *item.names))
        ):
            self._found.withheld.append(path)
            return
        self._found.files.append(WalkedFile(path, item.size))

    def _list(self, parent: _Item) -> list[_Item]:
        """Return what is in a folder and wanted, in order."""
        path = _below(self._query.folder, *parent.names)
        try:
            with os.scandir(path) as found:
                entries = self._entries(found)
        except OSError:
            self._found.unreadable += 1
            return []
        levels = parent.levels
        if not self._query.ignored_too:
            depth = len(self._base) + len(parent.names)
            own = _ignore_files(path, {entry.name for entry in entries})
            levels = (*levels, IgnoreLevel(depth, own)) if own else levels
        items = [self._item(parent, entry, levels) for entry in entries]
        return sorted((i for i in items if i is not None), key=_order)

    def _entries(self, found: "os._ScandirIterator[str]") -> list["os.DirEntry[str]"]:
        entries = []
        for entry in found:
            self._seen += 1
            if self._seen > self._query.max_files:
                self._found.cut = "entries"
                break
            if self._seen % _LOOK_EVERY == 0 and self._is_over():
                break
            entries.append(entry)
        self._is_over()
        return entries

    def _is_over(self) -> bool:
        if self._stop.is_set():
            self._found.cut = "stopped"
        elif time.monotonic() > self._end and not self._found.cut:
            self._found.cut = "time"
        return bool(self._found.cut)

    def _item(
        self, parent: _Item, entry: "os.DirEntry[str]", levels: tuple[IgnoreLevel, ...]
    ) -> _Item | None:
        name = entry.name
        if name in _VERSION_CONTROL:
            return None
        names = (*parent.names, name)
        folder = entry.is_dir(follow_symlinks=False)
        if not (self._enters(names) if folder else self._wants(entry, names)):
            return None
        if levels and is_ignored(levels, (*self._base, *names), folder=folder):
            return None
        if folder:
            return _Item(names, folder=True, levels=levels)
        if self._query.may_read is None:
            return _Item(names, folder=False)
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            self._found.unreadable += 1
            return None
        return _Item(names, folder=False, size=status.st_size)

    def _enters(self, names: Names) -> bool:
        return len(names) <= _MAX_DEPTH and self._query.enter(names)

    def _wants(self, entry: "os.DirEntry[str]", names: Names) -> bool:
        listed = entry.is_file(follow_symlinks=False) or (
            self._query.may_read is None and entry.is_symlink()
        )
        return listed and self._query.wanted(names)


def _below(folder: str, *names: str) -> str:
    base = folder.rstrip(os.sep)
    return base + "".join(f"{os.sep}{name}" for name in names) if names else folder


def _order(item: _Item) -> str:
    # With the slash, siblings come in the order of the paths below them.
    return item.names[-1] + "/" if item.folder else item.names[-1]


def _levels_above(folder: str, session_root: str) -> tuple[Names, tuple[IgnoreLevel, ...]]:
    """Return where a folder lies below the first ignore file that counts, and those above it."""
    top = _repository_top(folder) or session_root
    if not top or not within(folder, top) or folder == top:
        return (), ()
    below = folder[len(top.rstrip(os.sep)) + 1 :]
    names = tuple(below.replace(os.sep, "/").split("/"))
    levels = []
    for depth in range(len(names)):
        own = _ignore_files(_below(top, *names[:depth]), set(KINDS))
        if own:
            levels.append(IgnoreLevel(depth, own))
    return names, tuple(levels)


def _repository_top(folder: str) -> str:
    for _ in range(_MAX_PARENTS):
        try:
            os.lstat(_below(folder, ".git"))
        except OSError:
            parent = os.path.split(folder)[0]
            if parent == folder:
                return ""
            folder = parent
        else:
            return folder
    return ""


def _ignore_files(folder: str, present: set[str]) -> dict[str, IgnoreFile]:
    files = {}
    for kind in KINDS:
        if kind in present:
            file = _read_ignore(_below(folder, kind))
            if file:
                files[kind] = file
    return files


def _read_ignore(path: str) -> IgnoreFile | None:
    try:
        data, _ = read_regular(path, MAX_IGNORE_FILE)
    except OSError:
        return None  # missing, a link, a pipe, or too large to be one: it says nothing
    return parse_ignore(data)


def is_folder(path: str) -> bool:
    """Return whether a real path is a folder.

    Raises:
        OSError: If it cannot be looked at.
    """
    return stat.S_ISDIR(os.lstat(path).st_mode)
