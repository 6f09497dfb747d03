"""Sessions in a database: leases, transactions, users, versions."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text, update
from sqlalchemy.exc import OperationalError

from agent_sdk.contrib.sql import database as databases
from agent_sdk.contrib.sql.database import SqlBusy, SqlDatabase, sql_error
from agent_sdk.contrib.sql.events import SqlEventLog
from agent_sdk.contrib.sql.migrations import MIGRATIONS, migrate
from agent_sdk.contrib.sql.schema import VERSION, artifacts, events, metadata, records, sessions
from agent_sdk.contrib.sql.storage import list_sessions, sql_storage
from agent_sdk.core.errors import (
    ConfigurationError,
    DiskFull,
    InvalidInput,
    SessionLocked,
    SessionReadOnly,
    StorageError,
)
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.events.wire import SessionError
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import SessionInfoRecord
from agent_sdk.session.storage import open_storage
from agent_sdk.testing.store_conformance import lines_of
from tests.support.session_files import CWD, prompt
from tests.support.stores import POSTGRES, postgres_database, sql_store, sqlite_database

needs_server = pytest.mark.skipif(
    not os.environ.get(POSTGRES), reason=f"{POSTGRES} names no PostgreSQL server"
)
SESSION = "session-1"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_server)])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlDatabase]:
    opening = sqlite_database(tmp_path) if request.param == "sqlite" else postgres_database()
    async with opening as opened:
        yield opened


async def manager_of(
    database: SqlDatabase, *, user: str = "u", session_id: str = SESSION
) -> SessionManager:
    storage = sql_storage(database, user=user, session_id=session_id, ids=RandomIds())
    return await open_storage(storage, cwd=CWD, ids=RandomIds(), clock=SystemClock())


async def count(database: SqlDatabase, table: str) -> int:
    found = await database.read(
        lambda connection: connection.execute(text(f"SELECT count(*) FROM {table}")).scalar()
    )
    assert isinstance(found, int)
    return found


async def run_out(database: SqlDatabase) -> None:
    """Let every lease run out, as if their programs had slept."""
    await database.write(
        lambda connection: connection.execute(update(sessions).values(expires_at=1.0))
    )


# ------------------------------------------------------------------ leases


async def test_a_lease_that_ran_out_is_taken_over_and_the_first_writes_nothing(
    database: SqlDatabase,
) -> None:
    first = await manager_of(database)
    await first.append(prompt("one"))
    with pytest.raises(SessionLocked, match=r"try again in \d+ s"):
        await manager_of(database)
    await run_out(database)
    await first.append(prompt("two"))  # nobody has taken it: it may go on, and has it again
    with pytest.raises(SessionLocked):
        await manager_of(database)
    await run_out(database)
    second = await manager_of(database)
    assert second.state.count == first.state.count == 3
    with pytest.raises(SessionLocked, match="taken the session over"):
        await first.append(prompt("three"))
    assert first.read_only
    with pytest.raises(SessionReadOnly):
        await first.append(prompt("four"))
    await second.append(prompt("five"))
    await first.close()  # gives back what it no longer has: nothing
    await second.append(prompt("six"))
    await second.close()
    reader = await manager_of(database)
    texts = [message.text for message in reader.state.messages]
    assert texts == ["one", "two", "five", "six"]
    await reader.close()


async def test_a_state_is_not_saved_without_the_lease(database: SqlDatabase) -> None:
    first = sql_storage(database, user="u", session_id=SESSION, ids=RandomIds())
    manager = await open_storage(first, cwd=CWD, ids=RandomIds(), clock=SystemClock())
    await manager.append(SessionInfoRecord(title="first"))
    saved = await first.current_state.load()
    assert saved is not None
    await run_out(database)
    second = await manager_of(database)
    await second.append(SessionInfoRecord(title="second"))
    with pytest.raises(SessionLocked):
        await first.current_state.save(saved)
    await second.close()
    (shown,) = await list_sessions(database, user="u")
    assert shown.state is not None
    assert shown.state.facts.title == "second"
    with pytest.raises(SessionLocked):
        await manager.append(prompt())
    await manager.close()


async def test_a_lease_is_kept_alive_and_its_loss_is_noticed(database: SqlDatabase) -> None:
    store = sql_store(database, "u", SESSION, seconds=0.06)
    await store.append(lines_of("one", session_id=SESSION), {})

    async def epoch_and_left() -> tuple[int, float]:
        row = await database.read(
            lambda connection: connection.execute(
                select(sessions.c.epoch, sessions.c.expires_at)
            ).one()
        )
        return row.epoch, row.expires_at

    epoch, before = await epoch_and_left()
    after = before
    while after <= before:
        _, after = await epoch_and_left()
    assert epoch == 1
    await database.write(
        lambda connection: connection.execute(update(sessions).values(writer="another"))
    )
    while store.writable:
        await epoch_and_left()
    with pytest.raises(SessionReadOnly):
        await store.append(lines_of("two", session_id=SESSION), {})
    await store.close()


async def test_a_session_that_was_never_written_leaves_no_row(database: SqlDatabase) -> None:
    manager = await manager_of(database)
    assert await count(database, "zpi_sessions") == 1
    await manager.close()
    assert await count(database, "zpi_sessions") == 0


async def test_a_new_store_does_not_take_what_exists(database: SqlDatabase) -> None:
    first = await manager_of(database)
    await first.append(prompt())
    await first.close()
    store = sql_store(database, "u", SESSION)
    with pytest.raises(StorageError, match="exists already"):
        await store.append(lines_of("other", session_id=SESSION), {})
    assert not store.writable
    await store.close()
    assert await count(database, "zpi_records") == 2


# ------------------------------------------------------------ transactions


async def test_an_append_that_fails_in_the_middle_leaves_nothing(database: SqlDatabase) -> None:
    store = sql_store(database, "u", SESSION)
    lines = lines_of("one", "two", session_id=SESSION)
    await store.append(lines[:2], {})
    await database.write(  # somebody put a row where the next one belongs
        lambda connection: connection.execute(
            records.insert().from_select(
                ["session", "position", "line"],
                select(records.c.session, records.c.position + 2, records.c.line),
            )
        )
    )
    with pytest.raises(StorageError, match="refused"):
        await store.append([lines[2], b"{}", b"{}"], {"ab" * 32: b"picture"})
    assert not store.writable
    await store.close()
    assert await count(database, "zpi_artifacts") == 0
    held = await database.read(
        lambda connection: connection.execute(select(sessions.c.records)).scalar()
    )
    assert held == 2


async def test_users_do_not_see_each_other(database: SqlDatabase) -> None:
    for user in ("a", "b"):
        manager = await manager_of(database, user=user)
        await manager.append(SessionInfoRecord(title=f"of {user}"))
        await manager.close()
    for user in ("a", "b"):
        (shown,) = await list_sessions(database, user=user)
        assert (shown.session_id, shown.records) == (SESSION, 2)
        assert shown.bytes > 100
        assert shown.state is not None
        assert shown.state.facts.title == f"of {user}"
    assert await list_sessions(database, user="c") == []
    log_a, log_b = (
        SqlEventLog(database=database, user=user, ids=RandomIds(), clock=SystemClock())
        for user in ("a", "b")
    )
    await log_a.append("s", SessionError(session_id="s", code="c", text="t"))
    assert (await log_a.count("s"), await log_b.count("s")) == (1, 0)


async def test_two_programs_keep_one_order_of_events(database: SqlDatabase) -> None:
    """Each has the newest seq from its own look; the database keeps them apart."""
    log = SqlEventLog(database=database, user="u", ids=RandomIds(), clock=SystemClock())
    other = SqlEventLog(database=database, user="u", ids=RandomIds(), clock=SystemClock())
    for number in range(6):
        writer = log if number % 2 else other
        told = await writer.append("s", SessionError(session_id="s", code="c", text=str(number)))
        assert told.seq == number + 1
    assert [e.seq for e in await log.read("s")] == [1, 2, 3, 4, 5, 6]


async def test_a_key_that_another_program_was_first_with_is_tried_again(
    database: SqlDatabase,
) -> None:
    tries: list[int] = []

    def work(connection: Connection) -> int:
        taken = 1 if not tries else 2
        tries.append(taken)
        row = {"user_id": "u", "session_id": "s", "body": b"{}"}
        if taken == 1:
            connection.execute(events.insert().values(seq=1, **row))
        connection.execute(events.insert().values(seq=taken, **row))
        return taken

    assert await database.write(work, again=True) == 2
    assert tries == [1, 2]
    assert await count(database, "zpi_events") == 1  # the first try left nothing
    tries.clear()
    await database.write(lambda connection: connection.execute(events.delete()))
    with pytest.raises(StorageError):
        await database.write(work)


async def test_damaged_events_are_named(database: SqlDatabase) -> None:
    log = SqlEventLog(database=database, user="u", ids=RandomIds(), clock=SystemClock())
    await log.append("s", SessionError(session_id="s", code="c", text="t"))
    await database.write(lambda connection: connection.execute(update(events).values(body=b"{")))
    with pytest.raises(StorageError, match="'s' are damaged after event 0"):
        await log.read("s")


async def test_deleting_a_session_takes_all_of_it(database: SqlDatabase) -> None:
    store = sql_store(database, "u", SESSION)
    await store.append(lines_of("one", session_id=SESSION), {"ab" * 32: b"picture"})
    await store.close()
    await database.write(lambda connection: connection.execute(sessions.delete()))
    for table in (records, artifacts):
        assert await count(database, table.name) == 0


# -------------------------------------------------------------- the tables


async def test_migrations_lead_to_the_tables(database: SqlDatabase) -> None:
    from sqlalchemy import inspect

    def look(connection: Connection) -> dict[str, list[str]]:
        inspector = inspect(connection)
        return {
            name: sorted(column["name"] for column in inspector.get_columns(name))
            for name in inspector.get_table_names()
            if name.startswith("zpi_")
        }

    tables = {name: sorted(table.columns.keys()) for name, table in metadata.tables.items()}
    assert await database.read(look) == tables
    assert len(MIGRATIONS) == VERSION
    assert await database.write(migrate) == VERSION  # again does nothing


async def test_a_later_version_is_reached_in_one_transaction(database: SqlDatabase) -> None:
    def add(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE zpi_later (name TEXT)")

    def broken(connection: Connection) -> None:
        add(connection)
        raise StorageError("in the middle")

    def version(connection: Connection) -> str | None:
        return connection.execute(text("SELECT value FROM zpi_meta WHERE name='version'")).scalar()

    with pytest.raises(StorageError, match="in the middle"):
        await database.write(lambda connection: migrate(connection, (*MIGRATIONS, broken)))
    assert await database.read(version) == "1"
    try:
        await database.write(lambda connection: migrate(connection, (*MIGRATIONS, add)))
        assert await database.read(version) == "2"
        with pytest.raises(StorageError, match="version 2; this program knows 1"):
            await database.write(migrate)
    finally:
        await database.write(_back_to_1)


def _back_to_1(connection: Connection) -> None:
    connection.exec_driver_sql("DROP TABLE IF EXISTS zpi_later")
    connection.exec_driver_sql("UPDATE zpi_meta SET value = '1'")


async def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE zpi_meta (name TEXT, value TEXT)")
    raw.close()
    with pytest.raises(StorageError, match="have version None"):
        await SqlDatabase.open(f"sqlite:///{path}")
    (tmp_path / "text.db").write_text("no database at all, but some text " * 40)
    with pytest.raises(StorageError, match="SQLITE_NOTADB"):
        await SqlDatabase.open(f"sqlite:///{tmp_path / 'text.db'}")


# ---------------------------------------------------------- the connection


@pytest.mark.parametrize(
    ("url", "kind", "said"),
    [
        ("no url", InvalidInput, "URL is none"),
        ("mysql://u:hunter2@h/d", InvalidInput, "'mysql'"),
        ("sqlite://", InvalidInput, "in memory"),
        ("sqlite:///:memory:", InvalidInput, "in memory"),
        ("postgresql+nosuchdriver://u:hunter2@h/d", ConfigurationError, "no driver"),
    ],
)
async def test_urls_that_cannot_be_used(url: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said) as caught:
        await SqlDatabase.open(url)
    assert "hunter2" not in str(caught.value)


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="SQLITE_CANTOPEN"):
        await SqlDatabase.open(f"sqlite:///{tmp_path / 'no' / 'such.db'}")


async def test_it_is_durable_and_logs_ahead(tmp_path: Path) -> None:
    async with sqlite_database(tmp_path) as database:

        def pragmas(connection: Connection) -> list[object]:
            names = ("journal_mode", "synchronous", "foreign_keys")
            return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

        assert await database.write(pragmas) == ["wal", 2, 1]
        assert await database.read(pragmas) == ["wal", 2, 1]


async def test_a_busy_database_costs_only_what_was_asked_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pragmas = [p for p in databases._PRAGMAS if "busy" not in p]
    monkeypatch.setattr(databases, "_PRAGMAS", (*pragmas, "busy_timeout=20"))
    async with sqlite_database(tmp_path) as database:
        manager = await manager_of(database)
        await manager.append(prompt("one"))
        raw = sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(SqlBusy, match="nothing was written"):
            await manager.append(prompt("lost"))
        assert not manager.read_only
        raw.execute("ROLLBACK")
        raw.close()
        await manager.append(prompt("two"))
        await manager.close()
        again = await manager_of(database)
        assert [m.text for m in again.state.messages] == ["one", "two"]
        await again.close()


def test_what_the_database_says_becomes_one_kind_of_error() -> None:
    class Said(Exception):
        sqlite_errorname = ""
        sqlstate = ""

    def error(*, sqlite: str = "", state: str = "") -> StorageError:
        said = Said("first line\nsecond: the parameters")
        said.sqlite_errorname, said.sqlstate = sqlite, state
        return sql_error(OperationalError("INSERT secret", {"line": "secret"}, said), "db")

    assert type(error(sqlite="SQLITE_FULL")) is DiskFull
    assert type(error(state="53100")) is DiskFull
    assert type(error(sqlite="SQLITE_BUSY_SNAPSHOT")) is SqlBusy
    assert type(error(state="55P03")) is SqlBusy
    other = error(state="57P01")
    assert type(other) is StorageError
    assert "57P01" in str(other)
    assert "secret" not in str(other)
    assert "second" not in str(other)


async def test_a_closed_database_says_so(tmp_path: Path) -> None:
    async with sqlite_database(tmp_path) as database:
        pass
    await database.close()
    for call in (database.read, database.write):
        with pytest.raises(StorageError, match="is closed"):
            await call(lambda _connection: None)


@pytest.mark.parametrize(("user", "session_id"), [("", "s"), ("u", "../s"), ("u", "")])
async def test_users_and_ids_that_cannot_be_used(
    tmp_path: Path, user: str, session_id: str
) -> None:
    async with sqlite_database(tmp_path) as database:
        with pytest.raises(InvalidInput):
            sql_storage(database, user=user, session_id=session_id, ids=RandomIds())


KILLED = """
import asyncio, os, signal, sys
from agent_sdk.contrib.sql.database import SqlDatabase
from agent_sdk.contrib.sql.storage import sql_storage
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.session.records import CustomRecord
from agent_sdk.session.storage import open_storage

async def main():
    database = await SqlDatabase.open(sys.argv[1])
    storage = sql_storage(
        database, user="u", session_id="session-1", ids=RandomIds(), lease_seconds=0.5
    )
    manager = await open_storage(storage, cwd="/x", ids=RandomIds(), clock=SystemClock())
    n = 0
    while True:
        await manager.append(*(CustomRecord(custom_type="n", data=[n, k]) for k in range(3)))
        print(n, flush=True)
        n += 1

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills by SIGKILL")
async def test_a_program_that_is_killed_loses_nothing_it_was_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, url], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(40)]
        child.kill()
        told += [int(line) for line in child.stdout if line.endswith("\n")]
    async with sqlite_database(tmp_path) as database:
        manager = None
        while manager is None:
            try:
                manager = await manager_of(database)
            except SessionLocked:
                await SystemClock().sleep(0.05)
        triples, rest = divmod(manager.state.count - 1, 3)
        assert rest == 0  # three at once, or none
        assert triples in (len(told), len(told) + 1)
        await manager.append(prompt("on"))
        await manager.close()
