"""Stores of every kind for the checks that hold for all of them."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from sqlalchemy import text

from agent_sdk.contrib.sql.database import SqlDatabase
from agent_sdk.contrib.sql.holder import LeaseHolder
from agent_sdk.contrib.sql.storage import sql_storage
from agent_sdk.contrib.sql.transcript import SqlTranscriptStore
from agent_sdk.core.ids import RandomIds
from agent_sdk.session.current_state import FileCurrentState, MemoryCurrentState
from agent_sdk.session.storage import SessionStorage
from agent_sdk.session.store import JsonlStore, MemoryStore, Mode, TranscriptStore

POSTGRES = "ZPI_TEST_POSTGRES_URL"
TABLES = "zpi_records, zpi_artifacts, zpi_states, zpi_sessions, zpi_events"


class Kind(Protocol):
    """A kind of store, over one place where it keeps things."""

    exclusive: bool

    async def open(self, session_id: str, *, begin: bool = False) -> TranscriptStore: ...

    async def reader(self, session_id: str) -> TranscriptStore: ...

    async def storage(self, session_id: str) -> SessionStorage: ...


class JsonlKind:
    """Files in a folder."""

    exclusive = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _store(self, session_id: str, mode: Mode) -> JsonlStore:
        return JsonlStore(
            path=self._folder / f"{session_id}.jsonl",
            mode=mode,
            blobs_dir=self._folder / "artifacts",
            stamp=lambda: "now",
        )

    async def open(self, session_id: str, *, begin: bool = False) -> TranscriptStore:
        return self._store(session_id, "new" if begin else "write")

    async def reader(self, session_id: str) -> TranscriptStore:
        return self._store(session_id, "read")

    async def storage(self, session_id: str) -> SessionStorage:
        there = (self._folder / f"{session_id}.jsonl").exists()
        return SessionStorage(
            transcript=self._store(session_id, "write" if there else "new"),
            current_state=FileCurrentState(self._folder / f"{session_id}.state"),
            session_id=session_id,
        )


class MemoryKind:
    """Lines in memory, handed from one store to the next."""

    exclusive = False

    def __init__(self) -> None:
        self._last: dict[str, MemoryStore] = {}
        self.states: dict[str, MemoryCurrentState] = {}

    async def open(self, session_id: str, *, begin: bool = False) -> TranscriptStore:
        last = None if begin else self._last.get(session_id)
        store = MemoryStore(lines=last.lines if last else (), blobs=last.blobs if last else {})
        self._last[session_id] = store
        return store

    async def reader(self, session_id: str) -> TranscriptStore:
        last = self._last.get(session_id)
        return MemoryStore(lines=last.lines if last else (), blobs=last.blobs if last else {})

    async def storage(self, session_id: str) -> SessionStorage:
        transcript = MemoryStore()
        if session_id in self._last:
            last = self._last[session_id]
            transcript = MemoryStore(lines=last.lines, blobs=last.blobs)
        self._last[session_id] = transcript
        return SessionStorage(
            transcript=transcript,
            current_state=self.states.setdefault(session_id, MemoryCurrentState()),
            session_id=session_id,
        )


class SqlKind:
    """Rows of one user."""

    exclusive = True

    def __init__(self, database: SqlDatabase, *, user: str = "小明") -> None:
        self.database = database
        self.user = user
        self._ids = RandomIds()

    async def open(self, session_id: str, *, begin: bool = False) -> TranscriptStore:
        return sql_store(self.database, self.user, session_id)

    async def reader(self, session_id: str) -> TranscriptStore:
        return SqlTranscriptStore(
            database=self.database, user=self.user, session_id=session_id, holder=None
        )

    async def storage(self, session_id: str) -> SessionStorage:
        return sql_storage(self.database, user=self.user, session_id=session_id, ids=self._ids)


def sql_store(
    database: SqlDatabase, user: str, session_id: str, *, seconds: float = 30.0
) -> SqlTranscriptStore:
    """Return a store that writes one session, with a lease of its own."""
    holder = LeaseHolder(
        database=database,
        user=user,
        session_id=session_id,
        owner=RandomIds().new(),
        seconds=seconds,
    )
    return SqlTranscriptStore(database=database, user=user, session_id=session_id, holder=holder)


@asynccontextmanager
async def sqlite_database(folder: Path) -> AsyncGenerator[SqlDatabase, None]:
    """Open a database in a file."""
    database = await SqlDatabase.open(f"sqlite:///{folder / 'sessions.db'}")
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def postgres_database() -> AsyncGenerator[SqlDatabase, None]:
    """Open the database of the server that the environment names, emptied."""
    database = await SqlDatabase.open(os.environ[POSTGRES])
    try:
        await database.write(lambda connection: connection.execute(text(f"TRUNCATE {TABLES}")))
        yield database
    finally:
        await database.close()


__all__ = [
    "JsonlKind",
    "Kind",
    "MemoryKind",
    "SqlKind",
    "postgres_database",
    "sql_store",
    "sqlite_database",
]
