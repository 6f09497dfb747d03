"""The one way to ``state.sqlite``: a thread that writes, a thread that reads.

One read-write connection on one thread does all writes and all checkpoints;
besides excluding "database is locked", that keeps clear of SQLite's fault with
several writers that reset the WAL (before 3.51.3). Reads have a connection of
their own, which cannot write.

What is queued when the writer comes by is committed together, so that a burst
of writes waits for the disk once. A write that ``write`` returned from is
durable. Checkpoints are made when nothing has been written for a second, when
the WAL has 4 MiB, and at the end; at rest nothing runs.

Nobody may open the database's files by other means while this is open:
closing any descriptor of theirs would drop SQLite's locks.
"""

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool
from typing_extensions import override

from agent_sdk.host import DiskFull, InvalidInput, StorageError, ZpiError, create_file

T = TypeVar("T")
Work = Callable[[Connection], T]

logger = logging.getLogger("zpi.state")

IDLE_SECONDS = 1.0
WAL_BYTES = 4 * 1024 * 1024
BUSY_MS = 5000
_MOST_TOGETHER = 64

_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "fullfsync=ON",  # macOS: past the drive's cache
    "checkpoint_fullfsync=ON",
    "foreign_keys=ON",
    f"busy_timeout={BUSY_MS}",
    "trusted_schema=OFF",
    "cell_size_check=ON",
    "mmap_size=0",
    "secure_delete=ON",
    "wal_autocheckpoint=0",
    "journal_size_limit=0",  # so that the WAL's size says how much is in it
)
_READ_PRAGMAS = (
    "query_only=ON",
    f"busy_timeout={BUSY_MS}",
    "trusted_schema=OFF",
    "cell_size_check=ON",
    "mmap_size=0",
)
DAMAGED = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB"})


def wal_of(path: Path) -> Path:
    """Return the database's write-ahead log, which is there while it is open or after a crash."""
    return path.with_name(f"{path.name}-wal")


def suspect_of(path: Path) -> Path:
    """Return the mark that damage was seen, so that the next start checks the file."""
    return path.with_name(f"{path.name}-suspect")


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection that begins no transaction by itself; only this thread may use it.

    Raises:
        sqlite3.Error: If it is no database or cannot be opened.
    """
    mode = "ro" if read_only else "rw"
    raw = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=BUSY_MS / 1000
    )
    try:
        for pragma in _READ_PRAGMAS if read_only else _PRAGMAS:
            answer = raw.execute(f"PRAGMA {pragma}").fetchone()
            if pragma == "journal_mode=WAL" and answer != ("wal",):
                raise StorageError(
                    f"{str(path)!r} lies on a file system that cannot share memory.",
                    hint="Set ZPI_DATA_DIR to a folder on a local disk.",
                )
    except BaseException:
        raw.close()
        raise
    return raw


def wrap(raw: sqlite3.Connection, *, begin: str) -> Connection:
    """Return an SQLAlchemy connection over a raw one; transactions start with ``begin``."""
    engine = create_engine("sqlite+pysqlite://", creator=lambda: raw, poolclass=StaticPool)

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine.connect()


def state_error(error: sqlite3.Error, path: Path) -> StorageError:
    """Return the typed error for what SQLite said."""
    name: str = getattr(error, "sqlite_errorname", "") or ""
    said = f"The state database {str(path)!r}"
    if name.startswith("SQLITE_FULL"):
        return DiskFull(
            f"{said} has no room on its disk.",
            hint="Free some space; nothing that was saved is lost.",
        )
    if is_damage(error):
        return StorageError(f"{said} is damaged.", hint="Start ZPI again: it puts the file aside.")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return StorageError(
            f"{said} cannot be opened for writing ({name}).",
            hint="Check who owns the file and its folder.",
        )
    if name.startswith("SQLITE_IOERR"):
        return StorageError(
            f"{said} could not be read or written ({name}).",
            hint="The disk reports errors; check it before going on.",
        )
    return StorageError(f"{said} refused: {error} ({name or type(error).__name__}).")


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the error says that the file is broken."""
    name: str = getattr(error, "sqlite_errorname", "") or ""
    return any(name == known or name.startswith(f"{known}_") for known in DAMAGED)


class _Job(Struct, frozen=True):
    work: Callable[[Connection], Any]
    done: Future[Any]


class _Worker:
    """A thread that does jobs with a connection of its own."""

    def __init__(self, *, name: str, path: Path) -> None:
        self._path = path
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()  # between what is queued and the thread's end
        self._closed: Exception | None = None
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work[T]) -> Future[T]:
        done: Future[T] = Future()
        with self._lock:
            if self._closed is None:
                self._jobs.put(_Job(work, done))
            else:
                done.set_exception(self._closed)
        return done

    def stop(self) -> Future[None]:
        """Do what is queued, then end; the future is set when the connection is closed."""
        with self._lock:
            if self._closed is None:
                self._closed = StorageError("The state database is closed.")
                self._jobs.put(None)
        return self._ended

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            typed = self._typed(error)
            with self._lock:
                self._closed = typed
                while not self._jobs.empty():
                    job = self._jobs.get()
                    if job is not None and job.done.set_running_or_notify_cancel():
                        job.done.set_exception(typed)
            self._ended.set_exception(typed)
        else:
            self._ended.set_result(None)

    def _work(self) -> None:
        raise NotImplementedError

    def _typed(self, error: Exception) -> Exception:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, UnicodeEncodeError):
            return InvalidInput("Text that is not valid Unicode cannot be stored.")
        if not isinstance(cause, sqlite3.Error):
            return error
        if is_damage(cause):
            self._suspect()
        typed = state_error(cause, self._path)
        typed.__cause__ = cause
        return typed

    def _suspect(self) -> None:
        with contextlib.suppress(FileExistsError, ZpiError):
            create_file(suspect_of(self._path), b"")

    def _once(self, connection: Connection, job: _Job) -> None:
        """Do one job in a transaction of its own and tell who waits."""
        outcome = _attempt(connection, [job])
        if isinstance(outcome, Exception):
            job.done.set_exception(self._typed(outcome))
        else:
            job.done.set_result(outcome[0])


def _attempt(connection: Connection, jobs: Sequence[_Job]) -> list[Any] | Exception:
    """Do the jobs in one transaction; return what they return, or why nothing was done."""
    try:
        with connection.begin():
            return [job.work(connection) for job in jobs]
    except Exception as error:  # noqa: BLE001 - belongs to whoever asked
        return error


class Writer(_Worker):
    """The thread that writes.

    Args:
        path: The database; it exists and has the newest schema.
        idle: Called on this thread after the checkpoint of an idle moment.
    """

    def __init__(self, *, path: Path, idle: Callable[[], None]) -> None:
        self._idle = idle
        self._wal = wal_of(path)
        super().__init__(name="zpi-state-writer", path=path)

    @override
    def _work(self) -> None:
        raw = connect(self._path)
        try:
            with wrap(raw, begin="BEGIN IMMEDIATE") as connection:
                self._serve(connection, raw)
                self._checkpoint(raw, "TRUNCATE")
        finally:
            raw.close()

    def _serve(self, connection: Connection, raw: sqlite3.Connection) -> None:
        dirty = True  # a crash may have left something in the WAL
        while True:
            try:
                jobs = self._next(IDLE_SECONDS if dirty else None)
            except Empty:
                self._checkpoint(raw, "PASSIVE")
                dirty = False
                self._idle()
                continue
            if jobs is None:
                return
            self._commit(connection, jobs)
            dirty = True
            if self._wal_size() >= WAL_BYTES:
                self._checkpoint(raw, "PASSIVE")

    def _next(self, timeout: float | None) -> Sequence[_Job] | None:
        """Return what is queued; None at the end.

        Raises:
            Empty: If nothing has come in time.
        """
        jobs: list[_Job] = []
        job = self._jobs.get(timeout=timeout)
        while job is not None:
            if job.done.set_running_or_notify_cancel():
                jobs.append(job)
            if len(jobs) == _MOST_TOGETHER or self._jobs.empty():
                return jobs
            job = self._jobs.get()
        if jobs:
            self._jobs.put(None)  # once more, after these
            return jobs
        return None

    def _commit(self, connection: Connection, jobs: Sequence[_Job]) -> None:
        if len(jobs) > 1:
            outcome = _attempt(connection, jobs)
            if not isinstance(outcome, Exception):
                for job, value in zip(jobs, outcome, strict=True):
                    job.done.set_result(value)
                return
            logger.debug("writes are made one by one after %s", type(outcome).__name__)
        for job in jobs:
            self._once(connection, job)

    def _wal_size(self) -> int:
        try:
            return self._wal.stat().st_size
        except FileNotFoundError:
            return 0

    def _checkpoint(self, raw: sqlite3.Connection, kind: str) -> None:
        try:
            raw.execute(f"PRAGMA wal_checkpoint({kind})").fetchall()
        except sqlite3.Error as error:
            # What was committed is in the WAL all the same.
            logger.warning("checkpoint of the state database failed: %s", self._typed(error))


class Reader(_Worker):
    """The thread that reads; each job sees one state of the database."""

    def __init__(self, *, path: Path) -> None:
        super().__init__(name="zpi-state-reader", path=path)

    @override
    def _work(self) -> None:
        raw = connect(self._path, read_only=True)
        try:
            with wrap(raw, begin="BEGIN") as connection:
                while (job := self._jobs.get()) is not None:
                    if job.done.set_running_or_notify_cancel():
                        self._once(connection, job)
        finally:
            raw.close()


class Store(Protocol):
    """Reads and writes of the state database, for those who know its tables."""

    async def write(self, work: Work[T]) -> T:
        """Do the work in one transaction; durable when it returns.

        The work runs on the writer's thread, may be repeated if another write
        that was to be committed with it fails, and must not have other effects.

        Raises:
            StorageError: If the database refuses it; nothing of it is there then.
        """
        ...

    async def read(self, work: Work[T]) -> T:
        """Do the work on a connection that cannot write.

        Raises:
            StorageError: If the database cannot be read.
        """
        ...


class Engine:
    """The open database as seen from the event loop.

    Args:
        path: The database; it exists and has the newest schema.
        idle: Called on the writer's thread after the checkpoint of an idle moment.
    """

    def __init__(self, *, path: Path, idle: Callable[[], None]) -> None:
        self._writer = Writer(path=path, idle=idle)
        self._reader = Reader(path=path)

    async def write(self, work: Work[T]) -> T:
        """Do the work in one transaction; see ``Store``."""
        return await asyncio.wrap_future(self._writer.submit(work))

    async def read(self, work: Work[T]) -> T:
        """Do the work on the reading connection; see ``Store``."""
        return await asyncio.wrap_future(self._reader.submit(work))

    async def aclose(self) -> None:
        """Do what is queued, checkpoint and close; may be called twice.

        Raises:
            StorageError: If a connection could not be opened or closed.
        """
        try:
            await asyncio.wrap_future(self._reader.stop())
        finally:
            await asyncio.wrap_future(self._writer.stop())
