"""One database: a thread that writes, and reads beside it.

All writes of this process go through one thread and one transaction each;
one that ``write`` returned from is durable. Reads have connections of their
own and never wait for it.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from typing_extensions import override

from agent_sdk.contrib.sql.migrations import migrate
from agent_sdk.core.errors import ConfigurationError, DiskFull, InvalidInput, StorageError
from agent_sdk.session.writer import WriterThread

T = TypeVar("T")

BUSY_SECONDS = 10
"""How long a statement waits for another program's transaction."""

_DIALECTS = ("sqlite", "postgresql")
_WRITES = "zpi_writes"
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "fullfsync=ON",  # macOS: past the drive's cache
    "checkpoint_fullfsync=ON",
    "foreign_keys=ON",
    f"busy_timeout={BUSY_SECONDS * 1000}",
    "trusted_schema=OFF",
)
_ATTEMPTS = 20


class SqlBusy(StorageError):
    """Another program held the database for too long; nothing was written."""


class _Errors(AbstractContextManager[None]):
    """Turns the library's errors into ours, but for the one kind that is kept."""

    def __init__(self, name: str, keep: type[SQLAlchemyError] | None = None) -> None:
        self._name = name
        self._keep = keep

    @override
    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._keep is not None and isinstance(error, self._keep):
            return
        if isinstance(error, SQLAlchemyError):
            raise sql_error(error, self._name) from error


class SqlDatabase:
    """A database with the tables in it; make one with ``open`` and close it.

    It belongs to one event loop. Everything that was made over it must be
    closed before it.

    Attributes:
        name: Its URL without the password, for messages.
    """

    def __init__(self, *, engine: Engine) -> None:
        self.name = engine.url.render_as_string(hide_password=True)
        self._engine = engine
        self._closed = False
        self._thread = WriterThread(_nothing, name="zpi-sql")

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect, and bring the tables to the newest version.

        Args:
            url: As SQLAlchemy writes it: ``sqlite:///sessions.db``, or
                ``postgresql+psycopg://user@host/database``.

        Raises:
            InvalidInput: If the URL is none, or of another kind of database.
            ConfigurationError: If its driver is not installed.
            StorageError: If it cannot be reached, or its tables are newer.
        """
        database = cls(engine=_engine(url))
        try:
            await database.write(migrate)
        except BaseException:
            await database.close()
            raise
        return database

    async def write(self, work: Callable[[Connection], T], *, again: bool = False) -> T:
        """Run a transaction on the writer's thread; return when it is durable.

        A caller that is cancelled while it waits does not know whether it
        was done.

        Args:
            work: What to do; it may be done again from the start if ``again``.
            again: Whether to try once more when another program was first
                with a row of the same key.

        Raises:
            DiskFull: If there is no room; nothing was written.
            SqlBusy: If another program wrote for too long; nothing was written.
            StorageError: If it failed.
        """
        self._check()
        attempts = _ATTEMPTS if again else 1
        return await self._thread.call(lambda: self._write(work, attempts))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a transaction that only reads, on some other thread.

        Raises:
            StorageError: If it failed.
        """
        return await asyncio.to_thread(self.read_here, work)

    def read_here(self, work: Callable[[Connection], T]) -> T:
        """Run a transaction that only reads, on this thread, which waits.

        Raises:
            StorageError: If it failed.
        """
        self._check()
        with _Errors(self.name), self._engine.connect() as connection, connection.begin():
            return work(connection)

    async def close(self) -> None:
        """Finish what is queued and let go; may be called twice."""
        if self._closed:
            return
        self._closed = True
        await self._thread.close(self._engine.dispose)

    def _check(self) -> None:
        if self._closed:
            raise StorageError(f"The database {self.name!r} is closed.")

    def _write(self, work: Callable[[Connection], T], attempts: int) -> T:
        while True:
            attempts -= 1
            try:
                with _Errors(self.name, IntegrityError if attempts else None):
                    return self._transaction(work)
            except IntegrityError:
                continue

    def _transaction(self, work: Callable[[Connection], T]) -> T:
        with self._engine.connect() as connection:
            writing = connection.execution_options(**{_WRITES: True})
            with writing.begin():
                return work(writing)


def sql_error(error: SQLAlchemyError, name: str) -> StorageError:
    """Return the typed error for what the database said.

    Args:
        error: As SQLAlchemy raised it.
        name: The database, without password.
    """
    said = f"The database {name!r}"
    original = error.orig if isinstance(error, DBAPIError) else None
    code = str(getattr(original, "sqlite_errorname", "") or getattr(original, "sqlstate", "") or "")
    if code.startswith("SQLITE_FULL") or code == "53100":
        return DiskFull(
            f"{said} has no room on its disk.",
            hint="Free some space; nothing that was saved is lost.",
        )
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or code in ("55P03", "40P01", "40001"):
        return SqlBusy(
            f"{said} was busy for too long; nothing was written.",
            hint="Try again; if it stays so, look for a program that holds it.",
        )
    what = type(original or error).__name__
    return StorageError(f"{said} refused ({code or what}).", hint=_first_line(original))


def _first_line(original: BaseException | None) -> str:
    """Return the driver's own words; SQLAlchemy's would show parameters."""
    return str(original).partition("\n")[0][:300] if original else ""


def _engine(url: str) -> Engine:
    parsed = _parsed(url)
    options: dict[str, Any] = {"pool_pre_ping": True, "hide_parameters": True}
    try:
        engine = create_engine(parsed, **options)
    except (ImportError, ArgumentError) as error:
        raise ConfigurationError(
            f"There is no driver for {parsed.drivername!r} ({error}).",
            hint="Install it, such as psycopg for 'postgresql+psycopg://…'.",
        ) from error
    if parsed.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _on_sqlite)
        event.listen(engine, "begin", _on_begin)
    else:
        event.listen(engine, "connect", _on_postgres)
    return engine


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
        kind = parsed.get_backend_name()
    except SQLAlchemyError as error:
        raise InvalidInput(
            "The database's URL is none.", hint="Write it as sqlite:///path/to/sessions.db."
        ) from error
    if kind not in _DIALECTS:
        raise InvalidInput(
            f"Sessions cannot be kept in a {kind!r} database.",
            hint=f"Use one of: {', '.join(_DIALECTS)}.",
        )
    if kind == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise InvalidInput(
            "A database in memory would not be there for its readers.",
            hint="Name a file, or keep the session in a MemoryStore.",
        )
    return parsed


def _on_sqlite(raw: sqlite3.Connection, _record: object) -> None:
    raw.isolation_level = None  # transactions are begun by us, see below
    for pragma in _PRAGMAS:
        raw.execute(f"PRAGMA {pragma}").close()


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _on_postgres(raw: DBAPIConnection, _record: object) -> None:
    with closing(raw.cursor()) as cursor:
        cursor.execute(f"SET lock_timeout = {BUSY_SECONDS * 1000}")
        cursor.execute("SET synchronous_commit = on")
    raw.commit()


def _nothing(_data: bytes, _blobs: object) -> None:
    """Commit nothing: this thread is only called."""
