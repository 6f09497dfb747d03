"""What the model has seen of the files, and the one way to change them.

A file that the model has not read in this session, or that has changed since,
is not written over: the model would act on something it does not know. The
contents decide, not times and sizes, and they are compared twice: before the
change is made and right before the file gets its new contents. Changes of one
file happen one after the other.

Nothing is kept between processes: after a restart the model reads again.
"""

import asyncio
import contextlib
import hashlib
import os
import stat
import sys
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from agent_sdk.core.errors import StaleFile, ToolError
from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults
from agent_sdk.core.fsio_at import Folder, TooLarge, replace_at, split
from agent_sdk.providers.messages import Json
from agent_sdk.tools.file_errors import explain
from agent_sdk.tools.paths import ResolvedPath
from agent_sdk.tools.protected import fold

T = TypeVar("T")

MAX_FILE = 10 * 1024 * 1024
"""Most bytes of a file that the file tools take."""

Lines = tuple[int, int]
"""A range of lines, from 1, both ends included."""


class FileView(Struct, frozen=True):
    """What is known of a file since it was last read or written.

    Attributes:
        device: Device number.
        inode: Inode number.
        size: Bytes.
        mtime_ns: Time of the last change, in nanoseconds.
        sha256: Hash of the whole contents, hexadecimal.
        lines: How many lines it has.
        seen: Which of them the model has seen.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    sha256: str
    lines: int
    seen: tuple[Lines, ...]

    @property
    def whole(self) -> bool:
        """Whether the model has seen all of it."""
        return not self.lines or self.seen == ((1, self.lines),)


class Planned(Struct, frozen=True):
    """A change that has been worked out.

    Attributes:
        data: The new contents.
        lines: How many lines they have.
        text: What the model is told when it is done.
        facts: The change itself for the front end: diff, additions, deletions.
    """

    data: bytes
    lines: int
    text: str
    facts: Json


class FileChange(Struct, frozen=True):
    """A change that has been made.

    Attributes:
        planned: The change.
        created: Whether the file is new.
        before: Hash of the old contents; empty for a new file.
        after: Hash of the new contents.
        links: Hard links that the old file had.
    """

    planned: Planned
    created: bool
    before: str
    after: str
    links: int


class FileReadState:
    """Shared by the file tools of one session."""

    def __init__(self, *, faults: Faults | None = PROCESS_FAULTS) -> None:
        self._faults = faults
        self._views: dict[str, FileView] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._swept: set[str] = set()

    def view(self, real: str) -> FileView | None:
        """Return what is known of the file at a real path."""
        return self._views.get(_key(real))

    def forget(self, real: str) -> None:
        """Forget a file, so that it must be read again."""
        self._views.pop(_key(real), None)

    def note_read(
        self, real: str, *, digest: str, status: os.stat_result, lines: int, seen: Lines
    ) -> None:
        """Remember that the model has seen lines of a file.

        Args:
            real: Its real path.
            digest: Hash of its whole contents, see ``sha256``.
            status: Its status when it was read.
            lines: How many lines it has.
            seen: The lines that the model was shown.
        """
        known = self.view(real)
        before = known.seen if known is not None and known.sha256 == digest else ()
        self._views[_key(real)] = _view(status, digest, lines=lines, seen=_merge(before, seen))

    async def change(
        self, resolved: ResolvedPath, plan: Callable[[bytes | None], Planned], *, whole: bool
    ) -> FileChange:
        """Change a file, or create it.

        Args:
            resolved: The file, as it was authorised.
            plan: Works out the new contents from the old, None for a file
                that does not exist. Runs in a thread; may raise ``ToolError``.
            whole: Whether the model must have seen all of the old contents.

        Raises:
            StaleFile: If the file exists and the model has not read it, or it
                changed since.
            ToolError: If it cannot be changed; it is then as it was.
        """
        key = _key(resolved.real)
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        async with lock:
            known = self._views.get(key)
            work = _Change(
                resolved,
                plan,
                known=known,
                whole=whole,
                sweep=self._first_in(resolved),
                faults=self._faults,
            )
            change, status = await in_thread(work.run)
            planned = change.planned
            seen_all = change.created or whole or (known is not None and known.whole)
            self._views[key] = _view(
                status,
                change.after,
                lines=planned.lines,
                seen=((1, planned.lines),) if seen_all and planned.lines else (),
            )
            return change

    def _first_in(self, resolved: ResolvedPath) -> bool:
        parent = split(resolved.real)[0]
        first = parent not in self._swept
        self._swept.add(parent)
        return first


class _Change:
    """One change, done in a thread."""

    def __init__(
        self,
        resolved: ResolvedPath,
        plan: Callable[[bytes | None], Planned],
        *,
        known: FileView | None,
        whole: bool,
        sweep: bool,
        faults: Faults | None,
    ) -> None:
        self._resolved = resolved
        self._plan = plan
        self._known = known
        self._whole = whole
        self._sweep = sweep
        self._faults = faults

    def run(self) -> tuple[FileChange, os.stat_result]:
        try:
            parent, name = split(self._resolved.real)
            try:
                folder = Folder.open(parent)
            except FileNotFoundError:
                planned = self._plan(None)
                folder = Folder.open(parent, make=True)
                with folder:
                    return self._commit(folder, name, planned=planned, before=None)
            with folder:
                if self._sweep:
                    folder.sweep()
                before = self._current(folder, name)
                planned = self._plan(before[0] if before else None)
                return self._commit(folder, name, planned=planned, before=before)
        except OSError as error:
            raise explain(error, self._resolved, changing=True) from error

    def _current(self, folder: Folder, name: str) -> tuple[bytes, os.stat_result] | None:
        """Return the contents that the change starts from; None for no file."""
        shown = self._resolved.shown
        try:
            data, status = folder.read(name, MAX_FILE)
        except FileNotFoundError:
            return None
        if not (status.st_mode & 0o222 and folder.writable(name)):
            raise ToolError(
                f"'{shown}' is read-only for this user (mode {stat.S_IMODE(status.st_mode):04o}).",
                hint="If it is meant to be changed, make it writable first.",
            )
        if self._known is None:
            raise StaleFile(
                f"'{shown}' exists and has not been read in this session.",
                hint="Read it with the read tool first, then make the change.",
            )
        if sha256(data) != self._known.sha256:
            raise self._stale()
        if self._whole and not self._known.whole:
            raise StaleFile(
                f"Only a part of '{shown}' has been read ({_ranges(self._known)}).",
                hint="Read the rest before writing it over, or use edit.",
            )
        return data, status

    def _commit(
        self,
        folder: Folder,
        name: str,
        *,
        planned: Planned,
        before: tuple[bytes, os.stat_result] | None,
    ) -> tuple[FileChange, os.stat_result]:
        if len(planned.data) > MAX_FILE:
            raise TooLarge(len(planned.data))

        def unchanged() -> None:
            if before is not None and not _same(folder, name, data=before[0]):
                raise self._stale()

        existing = before[1] if before else None
        if before is not None and planned.data == before[0]:
            status = before[1]  # nothing to write
        else:
            status = replace_at(
                folder,
                name,
                planned.data,
                existing=existing,
                check=unchanged,
                faults=self._faults,
            )
        change = FileChange(
            planned=planned,
            created=before is None,
            before=sha256(before[0]) if before else "",
            after=sha256(planned.data),
            links=existing.st_nlink if existing else 1,
        )
        return change, status

    def _stale(self) -> StaleFile:
        return StaleFile(
            f"'{self._resolved.shown}' has changed on disk since it was read.",
            hint="Read it again, then make the change.",
        )


def sha256(data: bytes) -> str:
    """Return the hash by which contents are compared, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread, and wait for its end even when cancelled.

    A change that has begun cannot be stopped; whoever waits for it keeps the
    file's lock until it is over.
    """
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):  # raised again below
                await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # it has been seen; the cancellation is what counts
        raise


def _same(folder: Folder, name: str, *, data: bytes) -> bool:
    try:
        current, _ = folder.read(name, MAX_FILE)
    except OSError:
        return False
    return current == data


def _view(status: os.stat_result, digest: str, *, lines: int, seen: tuple[Lines, ...]) -> FileView:
    return FileView(
        device=status.st_dev,
        inode=status.st_ino,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        sha256=digest,
        lines=lines,
        seen=seen,
    )


def _merge(ranges: tuple[Lines, ...], added: Lines) -> tuple[Lines, ...]:
    """Join ranges that touch; an empty one (end before start) adds nothing."""
    merged: list[Lines] = []
    for first, last in sorted((*ranges, added)):
        if last < first:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def _ranges(view: FileView) -> str:
    shown = ", ".join(f"{first}-{last}" for first, last in view.seen)
    return f"lines {shown} of {view.lines}" if shown else f"none of its {view.lines} lines lately"


def _key(real: str) -> str:
    """Where a file system takes two spellings for one name, so do we."""
    if sys.platform == "win32":
        return os.path.normcase(real)
    return fold(real) if sys.platform == "darwin" else real
