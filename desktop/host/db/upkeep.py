"""What is done to the database file as a whole: making, mending, saving.

``prepare`` leaves a file that has the newest schema and is not damaged. A
damaged one is put aside, never deleted, and a new one is made; what the last
copy held of projects, settings and providers is taken over from there. Session
lists and events are made again from the session files by the host. Keys are
not in the copies, so that a key that was removed is nowhere any more.

Everything here blocks and is called on threads.
"""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from sqlalchemy import insert, select

from agent_sdk.host import StorageError, make_dirs, move_file, publish_file, storage_error
from agent_sdk.host import create_file as create_durably
from desktop.bridge.messages import ErrorInfo
from desktop.host.db import schema
from desktop.host.db.engine import connect, is_damage, state_error, suspect_of, wal_of, wrap
from desktop.host.db.migrations import MIGRATIONS, Migration
from desktop.host.db.schema import APPLICATION_ID

logger = logging.getLogger("zpi.state")

KEPT_BACKUPS = 3
_SALVAGED = (schema.projects, schema.settings, schema.providers, schema.meta)
_SALVAGED_SINCE = 1
"""Oldest version in which these tables are as they are now."""

_FORGET_KEYS = "DELETE FROM vault; DELETE FROM credentials"
_PAGES_AT_ONCE = 256


class Prepared(Struct, frozen=True):
    """How the file was found.

    Attributes:
        fresh: Whether it was made now, so that lists must be made again.
        notices: What the user should know.
    """

    fresh: bool
    notices: tuple[ErrorInfo, ...] = ()


class _Damaged(Exception):
    """The file is broken; the text says how."""


def prepare(path: Path, *, now: str, migrations: Sequence[Migration] = MIGRATIONS) -> Prepared:
    """Make, check or migrate the database; nobody may have it open.

    Args:
        path: The file, absolute; its folder is made if it is missing.
        now: The wall clock, ISO 8601.
        migrations: Functions from each version to the next.

    Raises:
        StorageError: If it cannot be opened, was written by a newer version,
            or is something else's.
    """
    make_dirs(path.parent)
    existed = path.exists()
    try:
        if not existed:
            _remove_leftovers(path)
            create_durably(path, b"")
        _open_and_migrate(path, now=now, migrations=migrations)
    except _Damaged as error:
        return _anew(path, str(error), now=now, migrations=migrations)
    except sqlite3.Error as error:
        if existed and is_damage(error):
            return _anew(path, str(error), now=now, migrations=migrations)
        raise state_error(error, path) from error
    return Prepared(fresh=not existed)


def _remove_leftovers(path: Path) -> None:
    """Delete a log without its database: SQLite would play it into the new one."""
    for part in (wal_of(path), path.with_name(f"{path.name}-shm"), suspect_of(path)):
        part.unlink(missing_ok=True)


def _open_and_migrate(path: Path, *, now: str, migrations: Sequence[Migration]) -> None:
    # A good end deletes the log. This is looked at before SQLite makes one.
    unclean = wal_of(path).exists() or suspect_of(path).exists()
    raw = connect(path)
    try:
        if unclean:
            _check(raw)
            suspect_of(path).unlink(missing_ok=True)
        version = _version(raw, path, newest=len(migrations))
        if version == len(migrations):
            return
        if version:
            _save(raw, backups_of(path) / f"{path.stem}-version-{version}-{now[:10]}.sqlite")
        with wrap(raw, begin="BEGIN EXCLUSIVE") as connection:
            for number, migrate in enumerate(migrations[version:], version + 1):
                with connection.begin():
                    migrate(connection)
                    connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
                    connection.exec_driver_sql(f"PRAGMA user_version={number}")
    finally:
        raw.close()


def _check(raw: sqlite3.Connection) -> None:
    rows = [str(row[0]) for row in raw.execute("PRAGMA quick_check(10)")]
    if rows != ["ok"]:
        raise _Damaged(rows[0])


def _version(raw: sqlite3.Connection, path: Path, *, newest: int) -> int:
    version = int(raw.execute("PRAGMA user_version").fetchone()[0])
    owner = int(raw.execute("PRAGMA application_id").fetchone()[0])
    empty = not raw.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    if owner != APPLICATION_ID and not empty:
        raise StorageError(
            f"{str(path)!r} is not a state database of ZPI.",
            hint="Move it away, or set ZPI_DATA_DIR to another folder.",
        )
    if version > newest:
        raise StorageError(
            f"{str(path)!r} was written by a newer version of ZPI (its version is {version}, "
            f"this one knows {newest}).",
            hint="Install that version again, or set ZPI_DATA_DIR to another folder.",
        )
    return 0 if empty else version


# ------------------------------------------------------------------- damage


def _anew(path: Path, why: str, *, now: str, migrations: Sequence[Migration]) -> Prepared:
    aside = _put_aside(path, now)
    create_durably(path, b"")
    _open_and_migrate(path, now=now, migrations=migrations)
    source = _salvage(path, newest=len(migrations))
    kept = (
        f"Projects, settings and providers are those of {source.stem[-10:]}."
        if source
        else "Projects, settings and providers must be set up again."
    )
    logger.warning("the state database was damaged and is now in %s", aside)
    notice = ErrorInfo(
        code="state_damaged",
        text=f"The state database was damaged ({why[:200]}) and was put aside.",
        hint=f"Your sessions are safe and are listed again. {kept} Enter your keys again. "
        f"The damaged file is in {str(aside)!r}.",
    )
    return Prepared(fresh=True, notices=(notice,))


def _put_aside(path: Path, now: str) -> Path:
    """Move the file with what belongs to it into a folder of its own under ``corrupt/``."""
    stamp = "".join(char for char in now if char.isalnum())
    parent = path.parent / "corrupt"
    make_dirs(parent)
    number = 0
    while (folder := parent / (f"{stamp}-{number}" if number else stamp)).exists():
        number += 1
    make_dirs(folder)
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        move_file(path.with_name(name), folder / name)
    try:
        suspect_of(path).unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(error, path, "move aside") from error
    return folder


def _salvage(path: Path, *, newest: int) -> Path | None:
    """Take over what the newest good copy holds; return the copy."""
    for copy in reversed(_daily(path)):
        try:
            source = connect(copy, read_only=True)
        except sqlite3.Error as error:
            logger.warning("the copy %s cannot be used: %s", copy.name, error)
            continue
        try:
            _check(source)
            if _version(source, copy, newest=newest) >= _SALVAGED_SINCE:
                _take_over(source, path)
                return copy
        except (sqlite3.Error, _Damaged, StorageError) as error:
            logger.warning("the copy %s cannot be used: %s", copy.name, error)
        finally:
            source.close()
    return None


def _take_over(source: sqlite3.Connection, path: Path) -> None:
    target = connect(path)
    try:
        with (
            wrap(source, begin="BEGIN") as reading,
            wrap(target, begin="BEGIN IMMEDIATE") as writing,
            reading.begin(),
            writing.begin(),
        ):
            for table in _SALVAGED:
                rows = [tuple(row) for row in reading.execute(select(table))]
                if rows:
                    writing.execute(insert(table).values(rows))
    finally:
        target.close()


# -------------------------------------------------------------------- copies


def backups_of(path: Path) -> Path:
    """Return the folder of the database's copies."""
    return path.parent / "backups"


def _daily(path: Path) -> list[Path]:
    """Return the daily copies, oldest first."""
    day = "[0-9]" * 4 + "-" + "[0-9]" * 2 + "-" + "[0-9]" * 2
    return sorted(backups_of(path).glob(f"{path.stem}-{day}.sqlite"))


def back_up(
    path: Path, *, now: str, stop: Callable[[], bool] = lambda: False, keep: int = KEPT_BACKUPS
) -> Path | None:
    """Make today's copy, if there is none, and delete the oldest ones.

    The database may be in use: what is copied is its state of one moment.

    Args:
        path: The database.
        now: The wall clock, ISO 8601.
        stop: Asked now and then; the copy is given up when it returns True.
        keep: How many daily copies are kept.

    Returns:
        The new copy; None if there was one already, or it was given up.

    Raises:
        StorageError: If it could not be made.
    """
    target = backups_of(path) / f"{path.stem}-{now[:10]}.sqlite"
    if target.exists():
        return None
    try:
        raw = connect(path, read_only=True)
        try:
            raw.execute("BEGIN")  # or writes of others would make the copy start again
            raw.execute("SELECT count(*) FROM sqlite_master").fetchone()
            made = _save(raw, target, stop=stop)
        finally:
            raw.close()
    except sqlite3.Error as error:
        raise state_error(error, path) from error
    if not made:
        return None
    for old in _daily(path)[:-keep]:
        old.unlink(missing_ok=True)
    return target


class _Stopped(Exception):
    pass


def _save(
    raw: sqlite3.Connection, target: Path, *, stop: Callable[[], bool] = lambda: False
) -> bool:
    """Copy the database, without keys, into a new file; False if it was stopped."""

    def on_step(_status: int, _remaining: int, _total: int) -> None:
        if stop():
            raise _Stopped

    make_dirs(target.parent)
    temp = target.with_name(f".{target.name}.tmp")
    temp.unlink(missing_ok=True)
    create_durably(temp, b"")
    copy = sqlite3.connect(temp, isolation_level=None)
    try:
        raw.backup(copy, pages=_PAGES_AT_ONCE, progress=on_step, sleep=0)
        copy.execute("PRAGMA journal_mode=DELETE")
        copy.execute("PRAGMA synchronous=FULL")
        copy.execute("PRAGMA secure_delete=ON")
        copy.executescript(_FORGET_KEYS)
    except _Stopped:
        copy.close()
        temp.unlink(missing_ok=True)
        return False
    except BaseException:
        copy.close()
        temp.unlink(missing_ok=True)
        raise
    copy.close()
    publish_file(temp, target)
    return True
