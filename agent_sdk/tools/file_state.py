"""What the model has seen of the files, and the one way to change them.

A file that the model has not read in this session, or that has changed since,
is not written over: the model would act on something it does not know. The
contents decide, not times and sizes, and they are compared twice: before the
change is made and right before the file gets its new contents. Changes of one
file happen one after the other; of several files that one call changes, all
are changed, or none.

Nothing is kept between processes: after a restart the model reads again. What
the files were before is kept by a ``FileHistory``, where there is one.
"""

import asyncio
import contextlib
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from agent_sdk.core.errors import InvalidInput, StaleFile, StorageError, ToolError
from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults
from agent_sdk.core.fsio_at import (
    Folder,
    NotDurable,
    Staged,
    TooLarge,
    missing_folders,
    remove_at,
    remove_folders,
    split,
    stage_at,
)
from agent_sdk.providers.messages import Json
from agent_sdk.tools.file_errors import explain
from agent_sdk.tools.file_history import FileFacts, FileHistory, PendingChange
from agent_sdk.tools.file_view import FileView, Lines, merge, ranges, view_of
from agent_sdk.tools.paths import ResolvedPath
from agent_sdk.tools.protected import fold

T = TypeVar("T")

MAX_FILE = 10 * 1024 * 1024
"""Most bytes of a file that the file tools take."""


class Planned(Struct, frozen=True):
    """A change that has been worked out.

    Attributes:
        data: The new contents; None deletes the file.
        lines: How many lines they have.
        text: What the model is told when it is done.
        facts: The change itself for the front end: diff, additions, deletions.
        mode: Permission bits that the file shall have; None for those that it
            has, or that a new file gets.
    """

    data: bytes | None
    lines: int
    text: str
    facts: Json
    mode: int | None = None


Plan: TypeAlias = Callable[[bytes | None], Planned]
"""Works out the new contents from the old, None for a file that does not
exist. Runs in a thread; may raise ``ToolError``."""


class Wanted(Struct, frozen=True, kw_only=True):
    """A change that is to be made.

    Attributes:
        resolved: The file, as it was authorised.
        plan: Works out the new contents.
        whole: Whether the model must have seen all of the old contents.
        unseen: Whether it need not have seen them at all, because ``plan``
            knows what they must be. The model must read the file afterwards.
    """

    resolved: ResolvedPath
    plan: Plan
    whole: bool = False
    unseen: bool = False


class FileChange(Struct, frozen=True):
    """A change that has been made.

    Attributes:
        planned: The change.
        created: Whether the file is new.
        before: Hash of the old contents; empty for a new file.
        after: Hash of the new contents; empty for a deleted file.
        links: Hard links that the old file had.
    """

    planned: Planned
    created: bool
    before: str
    after: str
    links: int


class FileReadState:
    """Shared by the file tools of one session.

    Args:
        history: Is told of every change before it is made; None for nobody.
        faults: The armed failpoint, for tests.
    """

    def __init__(
        self, *, history: FileHistory | None = None, faults: Faults | None = PROCESS_FAULTS
    ) -> None:
        self._history = history
        self._faults = faults
        self._views: dict[str, FileView] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._swept: set[str] = set()

    def view(self, real: str) -> FileView | None:
        """Return what is known of the file at a real path."""
        return self._views.get(path_key(real))

    def forget(self, real: str) -> None:
        """Forget a file, so that it must be read again."""
        self._views.pop(path_key(real), None)

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
        self._views[path_key(real)] = view_of(status, digest, lines=lines, seen=merge(before, seen))

    async def change(
        self, resolved: ResolvedPath, plan: Plan, *, whole: bool, call_id: str = ""
    ) -> FileChange:
        """Change a file, or create it.

        Args:
            resolved: The file, as it was authorised.
            plan: Works out the new contents.
            whole: Whether the model must have seen all of the old contents.
            call_id: The call that does it.

        Raises:
            StaleFile: If the file exists and the model has not read it, or it
                changed since.
            ToolError: If it cannot be changed; it is then as it was.
        """
        wanted = Wanted(resolved=resolved, plan=plan, whole=whole)
        return (await self.change_all((wanted,), call_id=call_id))[0]

    async def change_all(self, wanted: Sequence[Wanted], *, call_id: str = "") -> list[FileChange]:
        """Change several files, or one: all of them, or none.

        All changes are worked out first. A failure after that takes back what
        was done; a process that is killed then leaves some files changed.

        Args:
            wanted: The changes, of one file each.
            call_id: The call that makes them.

        Returns:
            The changes, in the order of ``wanted``.

        Raises:
            InvalidInput: If a file is named twice.
            StaleFile: If the model has not read one of them, or it changed since.
            ToolError: If one cannot be changed. They are then as they were,
                except for those that the text names.
        """
        return await self.commit(wanted, call_id=call_id, history=self._history)

    async def commit(
        self, wanted: Sequence[Wanted], *, call_id: str, history: FileHistory | None
    ) -> list[FileChange]:
        """Do as ``change_all`` does, telling a history of the caller's."""
        keys = [path_key(one.resolved.real) for one in wanted]
        if len(set(keys)) < len(keys):
            raise InvalidInput("A file is named twice in one change.")
        async with contextlib.AsyncExitStack() as held:
            for key in sorted(keys):  # in one order, so that two calls never wait for each other
                await held.enter_async_context(self._lock(key))
            works = [self._work(one) for one in wanted]
            try:
                await in_thread(lambda: _prepare_all(works))
                if history is not None:
                    await _tell(history, works, call_id)
                done = await in_thread(lambda: _commit_all(works))
            finally:
                for work in works:
                    work.close()
            for one, (change, status) in zip(wanted, done, strict=True):
                self._note_change(one, change, status)
        return [change for change, _ in done]

    def _lock(self, key: str) -> asyncio.Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    def _work(self, wanted: Wanted) -> "_Change":
        parent = split_real(wanted.resolved)[0]
        sweep = parent not in self._swept
        self._swept.add(parent)
        known = self.view(wanted.resolved.real)
        return _Change(wanted, known=known, sweep=sweep, faults=self._faults)

    def _note_change(
        self, wanted: Wanted, change: FileChange, status: os.stat_result | None
    ) -> None:
        key = path_key(wanted.resolved.real)
        known = self._views.pop(key, None)
        if wanted.unseen or status is None:
            return
        lines = change.planned.lines
        seen_all = change.created or wanted.whole or (known is not None and known.whole)
        seen = ((1, lines),) if seen_all and lines else ()
        self._views[key] = view_of(status, change.after, lines=lines, seen=seen)


async def _tell(history: FileHistory, works: Sequence["_Change"], call_id: str) -> None:
    pending = [work.pending(call_id) for work in works if work.changes]
    if not pending:
        return
    try:
        await history.before_change(pending)
    except (StorageError, InvalidInput) as error:
        raise ToolError(
            f"Nothing was changed, since what the files are now could not be kept: {error.message}",
            hint=error.hint,
        ) from error


def _prepare_all(works: Sequence["_Change"]) -> None:
    for work in works:
        work.prepare()


def _commit_all(works: Sequence["_Change"]) -> list[tuple[FileChange, os.stat_result | None]]:
    """Make all changes, or take back those that were made. Blocks.

    First all new contents are written beside the files, which is where a disk
    is found to be full; the files change only then.
    """
    try:
        for work in works:
            work.stage()
        return [work.commit() for work in works]
    except Exception as error:
        left = [work.shown for work in reversed(works) if not work.undo()]
        if left:
            names = ", ".join(f"'{name}'" for name in left)
            raise ToolError(
                f"{error} The change of {names} could not be taken back.",
                hint="Read these files again before anything else.",
            ) from error
        raise


class _Change:
    """One change, in three steps that are done in a thread; close it at the end."""

    def __init__(
        self, wanted: Wanted, *, known: FileView | None, sweep: bool, faults: Faults | None
    ) -> None:
        self._wanted = wanted
        self._resolved = wanted.resolved
        self._known = known
        self._sweep = sweep
        self._faults = faults
        self._parent, self._name = split_real(wanted.resolved)
        self._folder: Folder | None = None
        self._before: tuple[bytes, os.stat_result] | None = None
        self._planned: Planned | None = None
        self._staged: Staged | None = None
        self._made: list[str] = []  # folders that were missing
        self._written = False

    @property
    def shown(self) -> str:
        """The file's name, to show."""
        return self._resolved.shown

    @property
    def planned(self) -> Planned:
        """The change, once it is worked out."""
        if self._planned is None:
            raise RuntimeError("the change has not been worked out")
        return self._planned

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.planned.data != (self._before[0] if self._before else None)

    def close(self) -> None:
        """Let go of the folder, and of what was written beside the file in vain."""
        if self._staged is not None:
            self._staged.discard()
        if self._folder is not None:
            self._folder.close()
        if not self._written:
            remove_folders(self._made)

    # ------------------------------------------------------- step one: nothing is touched

    def prepare(self) -> None:
        """Read the file and work out the change."""
        try:
            with contextlib.suppress(FileNotFoundError):
                self._folder = Folder.open(self._parent)
            if self._folder is not None:
                if self._sweep:
                    self._folder.sweep()
                self._before = self._current(self._folder)
            self._planned = self._wanted.plan(self._before[0] if self._before else None)
            if self._planned.data is not None and len(self._planned.data) > MAX_FILE:
                raise TooLarge(len(self._planned.data))
        except OSError as error:
            raise explain(error, self._resolved, changing=True) from error

    def _current(self, folder: Folder) -> tuple[bytes, os.stat_result] | None:
        """Return the contents that the change starts from; None for no file."""
        try:
            data, status = folder.read(self._name, MAX_FILE)
        except FileNotFoundError:
            return None
        if not (status.st_mode & 0o222 and folder.writable(self._name)):
            raise ToolError(
                f"'{self.shown}' is read-only for this user (mode {_mode(status):04o}).",
                hint="If it is meant to be changed, make it writable first.",
            )
        if not self._wanted.unseen:
            self._check_known(data)
        return data, status

    def _check_known(self, data: bytes) -> None:
        if self._known is None:
            raise StaleFile(
                f"'{self.shown}' exists and has not been read in this session.",
                hint="Read it with the read tool first, then make the change.",
            )
        if sha256(data) != self._known.sha256:
            raise self._stale()
        if self._wanted.whole and not self._known.whole:
            raise StaleFile(
                f"Only a part of '{self.shown}' has been read ({ranges(self._known)}).",
                hint="Read the rest before writing it over, or use edit.",
            )

    def pending(self, call_id: str) -> PendingChange:
        """Return the change as a history is told of it."""
        before, data = self._before, self.planned.data
        mode = _mode(before[1]) if before else 0
        wanted = self.planned.mode
        return PendingChange(
            path=self._resolved.real,
            call_id=call_id,
            before=FileFacts(sha256(before[0]), len(before[0]), mode) if before else None,
            after=None
            if data is None
            else FileFacts(sha256(data), len(data), mode if wanted is None else wanted & 0o777),
            content=before[0] if before else None,
        )

    # ------------------------------------------- step two: the new contents lie beside the file

    def stage(self) -> None:
        """Write the new contents beside the file."""
        data = self.planned.data
        if data is None or not self.changes:
            return
        try:
            self._stage(data, mode=self.planned.mode, over=self._before)
        except OSError as error:
            raise explain(error, self._resolved, changing=True) from error

    def _stage(
        self, data: bytes, *, mode: int | None, over: tuple[bytes, os.stat_result] | None
    ) -> Staged:
        if self._folder is None:
            self._made = missing_folders(self._parent)
            self._folder = Folder.open(self._parent, make=True)
        self._staged = stage_at(
            self._folder,
            self._name,
            data,
            existing=over[1] if over else None,
            mode=mode,
            faults=self._faults,
        )
        return self._staged

    # ---------------------------------------------------------- step three: the file changes

    def commit(self) -> tuple[FileChange, os.stat_result | None]:
        """Change the file; return its new status, None if it is gone."""
        try:
            return self._commit()
        except OSError as error:
            raise explain(error, self._resolved, changing=True) from error

    def _commit(self) -> tuple[FileChange, os.stat_result | None]:
        before, planned = self._before, self.planned
        status = before[1] if before else None
        if self.changes:
            try:
                self._place(over=before)
            except NotDurable:
                self._written = True
                raise
            self._written = True
            status = self._staged.status if self._staged else None
            self._staged = None
        change = FileChange(
            planned=planned,
            created=before is None,
            before=sha256(before[0]) if before else "",
            after="" if planned.data is None else sha256(planned.data),
            links=before[1].st_nlink if before else 1,
        )
        return change, status

    def _place(self, *, over: tuple[bytes, os.stat_result] | None) -> None:
        """Give the file its staged contents, or none, if it is still what it was."""
        folder = self._folder

        def unchanged(name: str) -> None:
            if folder is None or (over is not None and not _same(folder, name, data=over[0])):
                raise self._stale()

        if self._staged is not None:
            self._staged.place(unchanged, over=over is not None)
        elif folder is not None:
            remove_at(folder, self._name, check=unchanged, faults=self._faults)

    def undo(self) -> bool:
        """Take the change back, if it was made; return whether the file is as it was.

        Whatever else was put in its place stays there.
        """
        if not self._written or self._folder is None:
            return True
        old = self._before[0] if self._before else None
        try:
            now = self._now(self._folder)
            data = now[0] if now else None
            if data == old:
                return True
            if data != self.planned.data:
                return False
            with contextlib.suppress(NotDurable):  # the disk is failing, and that is told already
                self._put_back(old, over=now)
        except (OSError, ToolError):
            return False
        return True

    def _put_back(self, data: bytes | None, *, over: tuple[bytes, os.stat_result] | None) -> None:
        self._staged = None
        if data is not None:
            mode = _mode(self._before[1]) if self._before else None
            self._stage(data, mode=mode, over=over)
        self._place(over=over)
        self._staged = None
        self._written = False

    def _now(self, folder: Folder) -> tuple[bytes, os.stat_result] | None:
        try:
            return folder.read(self._name, MAX_FILE)
        except FileNotFoundError:
            return None

    def _stale(self) -> StaleFile:
        return StaleFile(
            f"'{self.shown}' has changed on disk since it was read.",
            hint="Read it again, then make the change.",
        )


def split_real(resolved: ResolvedPath) -> tuple[str, str]:
    """Return the folder and the name of a file that is to be changed.

    Raises:
        ToolError: If it is the root folder.
    """
    try:
        return split(resolved.real)
    except OSError as error:
        raise explain(error, resolved, changing=True) from error


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


def _mode(status: os.stat_result) -> int:
    """Return the permission bits; 0 where there are none."""
    return 0 if sys.platform == "win32" else stat.S_IMODE(status.st_mode)


def _same(folder: Folder, name: str, *, data: bytes) -> bool:
    try:
        current, _ = folder.read(name, MAX_FILE)
    except OSError:
        return False
    return current == data


def path_key(real: str) -> str:
    """Return what tells files apart: where a file system takes two spellings for one name, so do we."""
    if sys.platform == "win32":
        return os.path.normcase(real)
    return fold(real) if sys.platform == "darwin" else real
