import asyncio
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection

from agent_sdk.core.errors import StorageError
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.events.wire import SessionStatus
from agent_sdk.host import Change
from desktop.host.credentials import CredentialVault
from desktop.host.db import StateDatabase, open_database, schema
from desktop.host.db.engine import connect, suspect_of, wal_of
from desktop.host.db.migrations import MIGRATIONS
from desktop.host.db.upkeep import back_up, backups_of, prepare
from desktop.host.ports import ProviderRow, SessionRecord
from tests.support.key_stores import WorkingStore

NOW = "2026-11-30T12:00:00.000Z"
GOLDEN = Path(__file__).parents[4] / "data" / "state"


async def opened(path: Path) -> StateDatabase:
    return await open_database(path, ids=RandomIds(), clock=SystemClock())


# --------------------------------------------------------------------- making


def test_a_new_file_is_private_and_has_the_newest_schema(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.sqlite"
    assert prepare(path, now=NOW).fresh
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not prepare(path, now=NOW).fresh
    raw = connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    assert raw.execute("PRAGMA application_id").fetchone() == (schema.APPLICATION_ID,)
    raw.close()


def test_the_tables_are_those_of_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    prepare(path, now=NOW)
    raw = connect(path)
    for table in schema.metadata.sorted_tables:
        rows = raw.execute(f"PRAGMA table_info({table.name})").fetchall()
        made = {(name, kind, bool(key)) for _, name, kind, _, _, key in rows}
        wanted = {(c.name, str(c.type), c.primary_key) for c in table.columns}
        assert made == wanted
        assert all(notnull or key for _, _, _, notnull, _, key in rows)
    tables = {row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    assert tables - {"sqlite_sequence"} == set(schema.metadata.tables)
    raw.close()
    assert len(MIGRATIONS) == schema.VERSION


def test_a_log_without_its_database_is_not_played_into_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    wal_of(path).write_bytes(b"old")
    assert prepare(path, now=NOW).fresh
    assert not wal_of(path).exists()


# ------------------------------------------------------------------- versions


def add_table(connection: Connection) -> None:
    connection.exec_driver_sql("CREATE TABLE extra (a TEXT)")


def add_and_fail(connection: Connection) -> None:
    add_table(connection)
    raise StorageError("on purpose")


def test_an_older_file_is_saved_and_migrated(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    prepare(path, now=NOW)
    newer = (*MIGRATIONS, add_table)
    assert not prepare(path, now=NOW, migrations=newer).fresh
    raw = connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (schema.VERSION + 1,)
    raw.execute("SELECT a FROM extra")
    raw.close()
    saved = f"state-version-{schema.VERSION}-2026-11-30.sqlite"
    assert [p.name for p in backups_of(path).iterdir()] == [saved]
    # And back: an older program refuses it and leaves it as it is.
    before = path.read_bytes()
    with pytest.raises(StorageError, match="newer version"):
        prepare(path, now=NOW)
    assert path.read_bytes() == before


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    prepare(path, now=NOW)
    with pytest.raises(StorageError, match="on purpose"):
        prepare(path, now=NOW, migrations=(*MIGRATIONS, add_and_fail))
    assert not prepare(path, now=NOW).fresh
    assert not prepare(path, now=NOW, migrations=(*MIGRATIONS, add_table)).fresh


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE theirs (a)")
    raw.close()
    with pytest.raises(StorageError, match="not a state database"):
        prepare(path, now=NOW)
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    raw.close()


async def test_a_file_of_version_1_still_loads(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    shutil.copy(GOLDEN / "v1.sqlite", path)
    db = await opened(path)
    assert not db.fresh
    (project,) = await db.projects.list()
    assert (project.path, project.missing) == ("/tmp/golden-project", True)
    (session,) = await db.sessions.rows()
    assert session == SessionRecord(
        id="session-1",
        project_id=project.id,
        title="First",
        last_used="2026-11-30T11:00:00.000Z",
        status="failed",
        run_id="run-1",
        unread=True,
        path="p/session-1.jsonl",
        error_code="provider",
        error="It failed.",
    )
    assert [row.text for row in await db.prompts.queued()] == ["waits · 等"]
    assert [e.body.__class__.__name__ for e in await db.events.read("session-1")] == [
        "MessageUpdated",
        "PartUpdated",
        "SessionStatus",
    ]
    assert await db.events.last_record("session-1") == "record-1"
    assert [q.request_id for q in await db.permissions.waiting()] == ["ask-1"]
    settings = await db.settings.get()
    assert (settings.revision, settings.permission_mode) == (1, "plan")
    assert (settings.thinking, settings.follow_up) == ("high", "steer")
    assert await db.providers.list() == [
        ProviderRow(
            name="mine",
            api="openai-completions",
            base_url="https://models.example/v1",
            models=("big",),
        )
    ]
    assert await db.providers.default_model() == "mine/big"
    store = WorkingStore()
    store.entries["kek-00000000-0000-4000-8000-000000000006"] = (
        "d9r05BpJdsXgrujpuZRqToUTGkb1yVvbAqGYA/IP3JY="
    )
    vault = CredentialVault(
        rows=db.credentials,
        store=store,
        install_id=db.install_id,
        ids=RandomIds(),
        clock=SystemClock(),
        on_secret=lambda _: None,
    )
    await vault.start()
    await vault.unlock()
    assert vault.lookup("mine", "https://models.example:443") == "golden-key-0123456789"
    await vault.aclose()
    await db.aclose()


# --------------------------------------------------------------------- damage


def fill(path: Path) -> None:
    """Make a database with some data, and leave it as a crash would."""
    prepare(path, now=NOW)
    raw = connect(path)
    raw.execute("BEGIN IMMEDIATE")
    raw.execute("INSERT INTO projects VALUES ('p', '/code', 'code', 1, 0)")
    raw.execute("INSERT INTO settings VALUES ('host', 3, ?)", (b'{"thinking":"high"}',))
    raw.execute("INSERT INTO meta VALUES ('install_id', 'this-one')")
    for number in range(300):
        row = ("s", number, str(number), "t", "", b"{}" * 200)
        raw.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", row)
    raw.execute("COMMIT")
    raw.close()


def test_a_damaged_file_is_put_aside_and_a_new_one_has_what_the_copy_held(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    fill(path)
    assert back_up(path, now="2026-11-29T00:00:00.000Z")
    data = bytearray(path.read_bytes())
    data[8192:32768] = b"\xa5" * (32768 - 8192)
    path.write_bytes(bytes(data))
    suspect_of(path).touch()
    prepared = prepare(path, now=NOW)
    assert prepared.fresh
    (notice,) = prepared.notices
    assert notice.code == "state_damaged"
    assert "2026-11-29" in notice.hint
    (aside,) = (tmp_path / "corrupt").iterdir()
    assert (aside / "state.sqlite").read_bytes() == bytes(data)
    assert str(aside) in notice.hint
    raw = connect(path)
    assert raw.execute("SELECT path FROM projects").fetchall() == [("/code",)]
    assert raw.execute("SELECT revision FROM settings").fetchall() == [(3,)]
    assert raw.execute("SELECT value FROM meta").fetchall() == [("this-one",)]
    assert raw.execute("SELECT count(*) FROM events").fetchone() == (0,)
    raw.close()
    again = prepare(path, now=NOW)
    assert (again.fresh, again.notices) == (False, ())


def test_a_copy_of_an_older_version_is_as_good(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    shutil.copy(GOLDEN / "v1.sqlite", path)
    copy = back_up(path, now="2026-11-29T00:00:00.000Z")
    assert copy
    raw = connect(copy)
    for table in (schema.projects, schema.settings, schema.providers, schema.meta):
        names = {row[1] for row in raw.execute(f"PRAGMA table_info({table.name})")}
        assert names == {column.name for column in table.columns}  # or it is not as good
    raw.close()
    path.write_bytes(b"no database " * 100)
    (notice,) = prepare(path, now=NOW).notices
    assert "2026-11-29" in notice.hint
    raw = connect(path)
    assert raw.execute("SELECT name FROM providers").fetchall() == [("mine",)]
    raw.close()


@pytest.mark.parametrize("damage", ["text", "short", "header"])
def test_a_file_that_is_no_database_any_more(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "state.sqlite"
    fill(path)
    data = path.read_bytes()
    path.write_bytes(
        {
            "text": b"this is no database, and never was one, whatever its name may say" * 20,
            "short": data[:5000],
            "header": b"\0" * 100 + data[100:],
        }[damage]
    )
    suspect_of(path).touch()
    prepared = prepare(path, now=NOW)
    assert prepared.fresh
    assert "must be set up again" in prepared.notices[0].hint
    assert len(list((tmp_path / "corrupt").iterdir())) == 1


def test_a_second_damaged_file_does_not_replace_the_first(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    for _ in range(3):
        path.write_bytes(b"no database " * 100)
        prepare(path, now=NOW)
    assert len(list((tmp_path / "corrupt").iterdir())) == 3


def test_a_damaged_copy_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    fill(path)
    back_up(path, now="2026-11-28T00:00:00.000Z")
    copy = back_up(path, now="2026-11-29T00:00:00.000Z")
    assert copy
    copy.write_bytes(b"no database " * 100)
    path.write_bytes(b"no database " * 100)
    assert "2026-11-28" in prepare(path, now=NOW).notices[0].hint


def test_random_damage_is_found_or_does_no_harm(tmp_path: Path) -> None:
    source = tmp_path / "source.sqlite"
    fill(source)
    good = source.read_bytes()
    chance = random.Random(7)
    outcomes = set()
    for number in range(40):
        path = tmp_path / str(number) / "state.sqlite"
        path.parent.mkdir()
        data = bytearray(good)
        for _ in range(chance.choice((1, 20))):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(data))
        suspect_of(path).touch()
        try:
            prepared = prepare(path, now=NOW)
        except StorageError:
            outcomes.add("refused")  # its version or owner was hit
            continue
        outcomes.add("made anew" if prepared.fresh else "used")
        raw = connect(path)
        assert raw.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        raw.close()
    assert {"made anew", "used"} <= outcomes


def test_after_a_good_end_nothing_is_checked_and_after_a_crash_all_is(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    fill(path)
    data = bytearray(path.read_bytes())
    raw = sqlite3.connect(path)
    root = raw.execute("SELECT rootpage FROM sqlite_master WHERE name='events'").fetchone()[0]
    raw.close()
    wal_of(path).unlink(missing_ok=True)
    start = (root - 1) * 4096
    data[start : start + 4096] = b"\x05" + b"\xff" * 4095
    path.write_bytes(bytes(data))
    assert not prepare(path, now=NOW).fresh
    wal_of(path).touch()
    assert prepare(path, now=NOW).fresh


# ---------------------------------------------------------------------- copies


async def test_copies_are_made_once_a_day_and_three_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    db = await opened(path)
    await db.events.append("s", [Change(SessionStatus(session_id="s", status="idle"))])
    for day in range(20, 26):
        now = f"2026-11-{day}T12:00:00.000Z"
        assert await asyncio.to_thread(back_up, path, now=now)
        assert await asyncio.to_thread(back_up, path, now=now) is None
    await db.aclose()
    names = sorted(p.name for p in backups_of(path).glob("state-2026-11-2*"))
    assert names == [f"state-2026-11-{day}.sqlite" for day in (23, 24, 25)]
    raw = sqlite3.connect(backups_of(path) / names[-1])
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert raw.execute("SELECT count(*) FROM events").fetchone() == (1,)
    raw.close()
    assert all(not p.name.startswith(".") for p in backups_of(path).iterdir())


async def test_keys_are_not_in_copies(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    db = await opened(path)
    mark = b"this stands for an encrypted key"
    await db.credentials.put("p", "https://o:443", key_id="k", seal=lambda _: mark)
    copy = await asyncio.to_thread(back_up, path, now=NOW)
    assert copy
    assert mark not in copy.read_bytes()
    assert len(await db.credentials.rows()) == 1
    await db.aclose()


async def test_a_copy_made_while_others_write_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    db = await opened(path)
    done = False

    async def write() -> int:
        written = 0
        while not done or written < 5:
            await db.events.append(
                "s", [Change(SessionStatus(session_id="s", status="idle", reason="x" * 3000))] * 20
            )
            written += 1
        return written

    writing = asyncio.ensure_future(write())
    await asyncio.sleep(0.1)
    copy = await asyncio.to_thread(back_up, path, now=NOW)
    done = True
    await writing
    await db.aclose()
    assert copy
    raw = sqlite3.connect(copy)
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    (count,) = raw.execute("SELECT count(*) FROM events").fetchone()
    assert count % 20 == 0
    raw.close()


def test_a_copy_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    fill(path)
    assert back_up(path, now=NOW, stop=lambda: True) is None
    assert list(backups_of(path).iterdir()) == []


async def test_a_copy_is_made_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    db = await opened(path)
    today = SystemClock().iso()[:10]
    for _ in range(500):
        if (backups_of(path) / f"state-{today}.sqlite").exists():
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail("no copy was made")
    await db.aclose()


# ----------------------------------------------------------------------- kills

WRITER = """
import asyncio, sys
from pathlib import Path
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.events.wire import SessionStatus
from agent_sdk.host import Change
from desktop.host.db import open_database

async def main():
    db = await open_database(Path(sys.argv[1]), ids=RandomIds(), clock=SystemClock())
    while True:
        batch = [Change(SessionStatus(session_id="s", status="idle"))] * 3
        events = await db.events.append("s", batch)
        print(events[-1].seq, flush=True)

asyncio.run(main())
"""


async def test_nothing_that_was_acknowledged_is_lost_when_the_process_is_killed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.sqlite"
    told = 0
    for wait in (1, 12, 40):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[5])},
        )
        assert child.stdout
        for _ in range(wait):
            told = int(child.stdout.readline())
        child.kill()
        rest = child.stdout.read().split(b"\n")
        child.stdout.close()
        child.wait()
        told = max([told, *(int(line) for line in rest[:-1] if line)])
    db = await opened(path)
    assert not db.fresh
    assert db.notices == ()
    last = await db.events.last_seq("s")
    assert last >= told
    assert last % 3 == 0  # a batch is there whole or not at all
    seqs = [e.seq for e in await db.events.read("s", limit=last + 1)]
    assert seqs == list(range(1, last + 1))
    await db.aclose()
