import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from agent_sdk.core.errors import DiskFull, StorageError
from desktop.host.db.engine import Engine, connect, is_damage, state_error, suspect_of, wal_of
from desktop.host.db.upkeep import prepare

NOW = "2026-11-30T12:00:00.000Z"


class World:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.idle = threading.Event()
        self.idles = 0
        self.engine = Engine(path=path, idle=self.on_idle)

    def on_idle(self) -> None:
        self.idles += 1
        self.idle.set()

    async def put(self, name: str, value: str = "v") -> None:
        await self.engine.write(putting(name, value))

    async def names(self) -> list[str]:
        return await self.engine.read(
            lambda c: [row.name for row in c.exec_driver_sql("SELECT name FROM meta ORDER BY name")]
        )


def putting(name: str, value: str = "v") -> Callable[[Connection], Any]:
    return lambda c: c.exec_driver_sql("INSERT INTO meta VALUES (?, ?)", (name, value))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    path = tmp_path / "state.sqlite"
    prepare(path, now=NOW)
    made = World(path)
    yield made
    await made.engine.aclose()


PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": 2,
    "foreign_keys": 1,
    "busy_timeout": 5000,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "mmap_size": 0,
    "wal_autocheckpoint": 0,
    "secure_delete": 1,
    "fullfsync": 1,
}


async def test_the_writer_is_set_as_the_rules_say(world: World) -> None:
    def look(connection: Connection) -> dict[str, object]:
        return {p: connection.exec_driver_sql(f"PRAGMA {p}").scalar() for p in PRAGMAS}

    assert await world.engine.write(look) == PRAGMAS


async def test_the_reader_cannot_write(world: World) -> None:
    with pytest.raises(StorageError):
        await world.engine.read(putting("a"))
    flags = await world.engine.read(
        lambda c: [
            c.exec_driver_sql(f"PRAGMA {p}").scalar()
            for p in ("query_only", "trusted_schema", "cell_size_check", "mmap_size")
        ]
    )
    assert flags == [1, 0, 1, 0]


async def test_all_writes_are_on_one_thread_and_reads_on_another(world: World) -> None:
    writes = {await world.engine.write(lambda _: threading.get_ident()) for _ in range(5)}
    reads = {await world.engine.read(lambda _: threading.get_ident()) for _ in range(5)}
    assert len(writes) == len(reads) == 1
    assert not {threading.get_ident()} & (writes | reads)
    assert writes != reads


async def test_what_was_written_is_read(world: World) -> None:
    for number in range(20):
        await world.put(f"{number:02}")
        assert len(await world.names()) == number + 1


async def test_a_failed_write_leaves_nothing_and_harms_no_other(world: World) -> None:
    def half(connection: Connection) -> None:
        putting("half")(connection)
        raise StorageError("on purpose")

    def twice(connection: Connection) -> None:
        putting("twice")(connection)
        putting("twice")(connection)

    results = await asyncio.gather(
        world.put("a"),
        world.engine.write(half),
        world.put("b"),
        world.engine.write(twice),
        world.put("c"),
        return_exceptions=True,
    )
    assert [type(r) for r in results] == [
        type(None),
        StorageError,
        type(None),
        StorageError,
        type(None),
    ]
    assert await world.names() == ["a", "b", "c"]


async def test_writes_that_come_together_are_committed_together(world: World) -> None:
    held = threading.Event()
    blocking = asyncio.ensure_future(world.engine.write(lambda _: held.wait(20)))
    await asyncio.sleep(0.05)
    together = [asyncio.ensure_future(world.put(f"{n:03}")) for n in range(50)]
    await asyncio.sleep(0.05)
    held.set()
    await blocking
    await together[0]
    # All of them are in the same commit as the first.
    assert len(await world.names()) == 50
    await asyncio.gather(*together)


async def test_a_write_that_was_given_up_before_its_turn_is_not_done(world: World) -> None:
    held = threading.Event()
    blocking = asyncio.ensure_future(world.engine.write(lambda _: held.wait(20)))
    await asyncio.sleep(0.05)
    given_up = asyncio.ensure_future(world.put("given up"))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait({given_up})
    held.set()
    await blocking
    await world.put("after")
    assert await world.names() == ["after"]


async def test_the_log_is_emptied_when_nothing_happens_and_then_nothing_runs(
    world: World,
) -> None:
    await world.put("a")
    assert await asyncio.to_thread(world.idle.wait, 20)
    raw = sqlite3.connect(f"{world.path.as_uri()}?mode=ro&immutable=1", uri=True)
    assert raw.execute("SELECT name FROM meta").fetchall() == [("a",)]  # without its log
    raw.close()
    await asyncio.sleep(0)
    assert world.idles == 1


async def test_the_log_does_not_grow_for_ever(world: World) -> None:
    big = "x" * 1_000_000
    largest = 0
    for number in range(16):
        await world.engine.write(
            lambda c, n=number: c.exec_driver_sql(  # type: ignore[misc]
                "INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"big{n % 4}", big)
            )
        )
        largest = max(largest, wal_of(world.path).stat().st_size)
    assert largest < 8 * 1024 * 1024


async def test_closing_leaves_one_file_and_may_be_done_twice(world: World) -> None:
    await world.put("a")
    await world.engine.aclose()
    await world.engine.aclose()
    assert [p.name for p in world.path.parent.iterdir()] == ["state.sqlite"]
    with pytest.raises(StorageError, match="closed"):
        await world.put("b")
    with pytest.raises(StorageError, match="closed"):
        await world.names()


async def test_what_was_queued_is_written_before_the_end(world: World) -> None:
    held = threading.Event()
    blocking = asyncio.ensure_future(world.engine.write(lambda _: held.wait(20)))
    await asyncio.sleep(0.05)
    queued = [asyncio.ensure_future(world.put(f"{n:03}")) for n in range(100)]
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(world.engine.aclose())
    await asyncio.sleep(0.05)
    held.set()
    await asyncio.gather(blocking, closing, *queued)
    raw = connect(world.path)
    assert raw.execute("SELECT count(*) FROM meta").fetchone() == (100,)
    raw.close()


async def test_a_full_disk_is_said_and_nothing_is_lost(world: World) -> None:
    await world.put("a")
    pages = await world.engine.write(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
    await world.engine.write(
        lambda c: c.exec_driver_sql(f"PRAGMA max_page_count={pages}").scalar_one()
    )
    with pytest.raises(DiskFull):
        await world.put("big", "x" * 100_000)
    await world.engine.write(
        lambda c: c.exec_driver_sql("PRAGMA max_page_count=1000000").scalar_one()
    )
    await world.put("b")
    assert await world.names() == ["a", "b"]


async def test_damage_that_is_met_is_marked_for_the_next_start(world: World) -> None:
    def broken(_: Connection) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorname = "SQLITE_CORRUPT_INDEX"
        raise error

    with pytest.raises(StorageError, match="damaged") as caught:
        await world.engine.write(broken)
    assert "again" in caught.value.hint
    assert suspect_of(world.path).exists()


async def test_an_engine_whose_file_is_gone_says_so_to_everyone(tmp_path: Path) -> None:
    engine = Engine(path=tmp_path / "none.sqlite", idle=lambda: None)
    for work in (engine.write(lambda _: 1), engine.read(lambda _: 1)):
        with pytest.raises(StorageError, match=r"none\.sqlite"):
            await work
    with pytest.raises(StorageError):
        await engine.aclose()


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("SQLITE_FULL", DiskFull, "no room"),
        ("SQLITE_CORRUPT_VTAB", StorageError, "damaged"),
        ("SQLITE_NOTADB", StorageError, "damaged"),
        ("SQLITE_READONLY_DIRECTORY", StorageError, "for writing"),
        ("SQLITE_CANTOPEN", StorageError, "for writing"),
        ("SQLITE_IOERR_FSYNC", StorageError, "read or written"),
        ("SQLITE_CONSTRAINT", StorageError, "refused"),
    ],
)
def test_errors_say_what_happened(name: str, kind: type[StorageError], words: str) -> None:
    error = sqlite3.OperationalError("no")
    error.sqlite_errorname = name
    told = state_error(error, Path("/data/state.sqlite"))
    assert type(told) is kind
    assert words in told.message
    assert "state.sqlite" in told.message
    assert is_damage(error) == ("damaged" in told.message)
