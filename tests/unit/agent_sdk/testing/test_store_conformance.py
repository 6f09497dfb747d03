"""The checks for stores and event logs, over every one that there is; and that they can fail."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
from typing_extensions import override

from agent_sdk.contrib.sql.events import SqlEventLog
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.events.log import EventLog, JsonlEventLog, MemoryEventLog
from agent_sdk.session.store import MemoryStore, TranscriptStore
from agent_sdk.testing.conformance import ContractBroken
from agent_sdk.testing.store_conformance import (
    EVENT_LOG_CHECKS,
    STORAGE_CHECKS,
    TRANSCRIPT_CHECKS,
    EventLogCheck,
    StorageCheck,
    TranscriptCheck,
)
from tests.support.stores import (
    POSTGRES,
    JsonlKind,
    Kind,
    MemoryKind,
    SqlKind,
    postgres_database,
    sqlite_database,
)

needs_server = pytest.mark.skipif(
    not os.environ.get(POSTGRES), reason=f"{POSTGRES} names no PostgreSQL server"
)
KINDS = ["memory", "jsonl", "sqlite", pytest.param("postgresql", marks=needs_server)]


@pytest.fixture(params=KINDS)
async def kind(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kind]:
    match request.param:
        case "memory":
            yield MemoryKind()
        case "jsonl":
            yield JsonlKind(tmp_path)
        case "sqlite":
            async with sqlite_database(tmp_path) as database:
                yield SqlKind(database)
        case _:
            async with postgres_database() as database:
                yield SqlKind(database)


@pytest.mark.parametrize("check", TRANSCRIPT_CHECKS, ids=lambda check: check.__name__)
async def test_transcript_stores(kind: Kind, check: TranscriptCheck) -> None:
    await check(kind)


@pytest.mark.parametrize("check", STORAGE_CHECKS, ids=lambda check: check.__name__)
async def test_storages(kind: Kind, check: StorageCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_sdk.session.index.MIN_FILE_BYTES", 1)
    await check(kind)


@pytest.fixture(params=KINDS)
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    ids, clock = RandomIds(), SystemClock()
    match request.param:
        case "memory":
            yield MemoryEventLog(ids=ids, clock=clock)
        case "jsonl":
            files = JsonlEventLog(folder=tmp_path, ids=ids, clock=clock)
            yield files
            await files.aclose()
        case "sqlite":
            async with sqlite_database(tmp_path) as database:
                yield SqlEventLog(database=database, user="u", ids=ids, clock=clock)
        case _:
            async with postgres_database() as database:
                yield SqlEventLog(database=database, user="u", ids=ids, clock=clock)


@pytest.mark.parametrize("check", EVENT_LOG_CHECKS, ids=lambda check: check.__name__)
async def test_event_logs(log: EventLog, check: EventLogCheck) -> None:
    await check(log)


# ------------------------------------------------- the checks find what is wrong


class Forgetful(MemoryStore):
    """Loses the last line of every append of several."""

    @override
    async def append(self, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> None:
        await super().append(lines[:-1] if len(lines) > 1 else lines, blobs)


class Tidy(MemoryStore):
    """Writes numbers in its own way."""

    @override
    async def append(self, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> None:
        await super().append([line.replace(b"2.50, ", b"2.5,") for line in lines], blobs)


class Blind(MemoryStore):
    """Has no artifacts."""

    @override
    def blob(self, name: str) -> bytes | None:
        return None


class Open(MemoryStore):
    """Cannot be closed."""

    @override
    async def close(self) -> None:
        return


class FaultyKind(MemoryKind):
    def __init__(self, make: type[MemoryStore], *, exclusive: bool = False) -> None:
        super().__init__()
        self._make = make
        self.exclusive = exclusive

    @override
    async def open(self, session_id: str, *, begin: bool = False) -> TranscriptStore:
        last = None if begin else self._last.get(session_id)
        store = self._make(lines=last.lines if last else (), blobs=last.blobs if last else {})
        self._last[session_id] = store
        return store


@pytest.mark.parametrize(
    ("faulty", "found_by"),
    [
        (FaultyKind(Forgetful), {"keeps_lines_in_order", "large_appends_are_whole"}),
        (FaultyKind(Tidy), {"keeps_what_it_does_not_know"}),
        (FaultyKind(Blind), {"keeps_artifacts"}),
        (FaultyKind(Open), {"a_closed_store_takes_nothing"}),
        (FaultyKind(MemoryStore, exclusive=True), {"one_writer_only"}),
        (FaultyKind(MemoryStore), set()),
    ],
    ids=["forgetful", "tidy", "blind", "open", "shared", "good"],
)
async def test_a_faulty_store_is_found_out(faulty: FaultyKind, found_by: set[str]) -> None:
    broken = set()
    for check in TRANSCRIPT_CHECKS:
        try:
            await check(faulty)
        except ContractBroken:
            broken.add(getattr(check, "__name__", ""))
    assert found_by <= broken
    assert found_by or not broken
