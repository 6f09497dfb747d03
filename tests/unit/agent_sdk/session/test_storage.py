"""Storage of a host's own: the barrier, failures, and sessions created over it."""

from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from agent_sdk.core.errors import (
    DiskFull,
    InvalidInput,
    SessionReadOnly,
    StorageError,
)
from agent_sdk.session.create import create_agent_session, preview_session
from agent_sdk.session.current_state import (
    FileCurrentState,
    LazyTranscript,
    MemoryCurrentState,
    SavedState,
    saved_from_bytes,
    saved_to_bytes,
)
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import RunRecord, SessionInfoRecord
from agent_sdk.session.storage import SAVE_EVERY, SessionStorage, open_storage
from agent_sdk.session.store import MemoryStore
from agent_sdk.testing.provider import ScriptedProvider, answer, text
from tests.support.session_files import CWD, CountingIds, StepClock, fault, prompt
from tests.support.sessions import MODEL


class Watched(MemoryCurrentState):
    """Counts what is saved, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.saves: list[int] = []
        self.broken: StorageError | None = None
        self.closed = 0

    @override
    async def save(self, state: SavedState) -> None:
        if self.broken is not None:
            raise self.broken
        self.saves.append(state.facts.count)
        await super().save(state)

    @override
    async def close(self) -> None:
        self.closed += 1


async def opened(
    transcript: LazyTranscript, state: MemoryCurrentState | FileCurrentState, start: int = 0
) -> SessionManager:
    storage = SessionStorage(transcript=transcript, current_state=state, session_id="host-1")
    return await open_storage(storage, cwd=CWD, ids=CountingIds(start), clock=StepClock())


def again(store: MemoryStore) -> MemoryStore:
    return MemoryStore(lines=store.lines, blobs=store.blobs)


async def test_it_is_saved_when_a_setting_changes_and_now_and_then() -> None:
    state = Watched()
    manager = await opened(MemoryStore(), state)
    assert (manager.session_id, manager.state.count, state.saves) == ("host-1", 0, [])
    await manager.append(prompt())
    assert state.saves == [2]  # a session has begun
    await manager.append(prompt())
    assert state.saves == [2]
    await manager.append(RunRecord(event="start", run_id="r"))
    assert state.saves == [2, 4]
    for _ in range(SAVE_EVERY):
        await manager.append(prompt())
    assert state.saves == [2, 4, 4 + SAVE_EVERY]
    await manager.append(prompt())
    await manager.close()
    assert state.saves[3:] == [5 + SAVE_EVERY]
    assert state.closed == 1


async def test_closing_what_is_saved_saves_nothing() -> None:
    store, state = MemoryStore(), Watched()
    manager = await opened(store, state)
    await manager.append(SessionInfoRecord(title="t"))
    await manager.close()
    reader = await opened(again(store), state, 100)
    await reader.close()
    assert state.saves == [2]


async def test_a_state_that_cannot_be_saved_ends_the_session_but_loses_nothing() -> None:
    store, state = MemoryStore(), Watched()
    manager = await opened(store, state)
    await manager.append(prompt("one"))
    state.broken = DiskFull("full")
    with pytest.raises(DiskFull):
        await manager.append(SessionInfoRecord(title="new"))
    assert manager.read_only
    with pytest.raises(SessionReadOnly):
        await manager.append(prompt("two"))
    await manager.close()
    assert state.closed == 1
    assert state.saved is not None
    assert state.saved.facts.title == ""
    state.broken = None
    manager = await opened(again(store), state, 100)
    assert manager.state.title == "new"  # the record was durable: the state is caught up
    await manager.close()
    assert state.saved.facts.title == "new"


async def test_a_transcript_that_fails_saves_no_state() -> None:
    class Failing(MemoryStore):
        @override
        async def append(self, lines: Any, blobs: Any) -> None:
            raise StorageError("the server is gone")

    state = Watched()
    manager = await opened(Failing(), state)
    with pytest.raises(StorageError, match="server is gone"):
        await manager.append(SessionInfoRecord(title="t"))
    assert manager.state.count == 0
    await manager.close()
    assert state.saves == []


async def test_an_error_when_closing_is_raised_and_all_is_closed() -> None:
    store, state = MemoryStore(), Watched()
    manager = await opened(store, state)
    await manager.append(prompt())
    await manager.append(prompt())
    state.broken = StorageError("gone")
    with pytest.raises(StorageError, match="gone"):
        await manager.close()
    assert not store.writable
    assert state.closed == 1


async def test_a_bad_id_closes_the_storage() -> None:
    store, state = MemoryStore(), Watched()
    with pytest.raises(InvalidInput):
        await open_storage(
            SessionStorage(transcript=store, current_state=state, session_id="../x"),
            cwd=CWD,
            ids=CountingIds(),
            clock=StepClock(),
        )
    assert not store.writable
    assert state.closed == 1


async def test_a_damaged_rest_is_found_though_there_is_a_state() -> None:
    store, state = MemoryStore(), Watched()
    manager = await opened(store, state)
    await manager.append(prompt("one"))
    for name in ("two", "three", "four"):
        await manager.append(prompt(name))
    await manager._store.close()  # not the manager: the state stays behind
    lines = [*store.lines[:3], *store.lines[4:]]
    reader = await opened(MemoryStore(lines=lines), state, 100)
    assert reader.read_only
    assert [notice.code for notice in reader.notices] == ["damaged"]
    await reader.close()


@pytest.mark.parametrize("body", [b"", b"{}\n", b"no json\nx", b'{"session_id":"s","facts":{}}\n'])
def test_bytes_that_are_no_state(body: bytes) -> None:
    assert saved_from_bytes(body) is None


async def test_a_state_in_a_file(tmp_path: Path) -> None:
    file = FileCurrentState(tmp_path / "states" / "s.state")
    assert await file.load() is None
    store = MemoryStore()
    manager = await opened(store, file)
    await manager.append(SessionInfoRecord(title="t"))
    await manager.close()
    saved = await file.load()
    assert saved is not None
    assert (saved.session_id, saved.facts.title, saved.facts.count) == ("host-1", "t", 2)
    assert saved_from_bytes(saved_to_bytes(saved)) == saved
    (tmp_path / "states" / "s.state").write_bytes(b"\xff torn")
    manager = await opened(again(store), file, 100)  # derived: it is made again
    assert manager.state.title == "t"
    await manager.close()
    full = FileCurrentState(
        tmp_path / "states" / "s.state", faults=fault("replace.write", "enospc")
    )
    with pytest.raises(DiskFull):
        await full.save(saved)


# ---------------------------------------------------------- created over it


@pytest.fixture
def here(tmp_path: Path) -> dict[str, Any]:
    for name in ("project", "home", "agent"):
        (tmp_path / name).mkdir()
    return {
        "cwd": tmp_path / "project",
        "agent_dir": tmp_path / "agent",
        "environ": {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"},
        "model": MODEL,
    }


def storage_of(store: MemoryStore, state: MemoryCurrentState) -> SessionStorage:
    return SessionStorage(transcript=store, current_state=state, session_id="host-1")


async def test_a_session_is_created_in_it_and_goes_on(here: dict[str, Any]) -> None:
    store, state, texts = MemoryStore(), Watched(), []
    for number in (1, 2):
        store = again(store)
        provider = ScriptedProvider(answer(text(f"answer {number}")))
        created = await create_agent_session(
            **here, provider=provider, storage=storage_of(store, state)
        )
        async with created.session as session:
            assert (await session.prompt(f"question {number}")).status == "completed"
        assert created.manager.session_id == "host-1"
        assert not store.writable  # opened here, so closed here
        texts = [message.text for message in created.manager.state.messages]
    assert texts == ["question 1", "answer 1", "question 2", "answer 2"]
    assert state.saved is not None
    assert state.saved.facts.count == len(store.lines)
    assert list((here["agent_dir"]).rglob("*.jsonl")) == []


async def test_a_session_stays_in_its_folder(here: dict[str, Any], tmp_path: Path) -> None:
    store, state = MemoryStore(), Watched()
    created = await create_agent_session(
        **here, provider=ScriptedProvider(answer(text("a"))), storage=storage_of(store, state)
    )
    async with created.session as session:
        await session.prompt("q")
    store = again(store)
    with pytest.raises(InvalidInput, match="belongs to"):
        await create_agent_session(
            **{**here, "cwd": tmp_path},
            provider=ScriptedProvider(),
            storage=storage_of(store, state),
        )
    assert not store.writable


async def test_what_excludes_it(here: dict[str, Any]) -> None:
    storage = storage_of(MemoryStore(), Watched())
    manager = SessionManager.in_memory(cwd=CWD, ids=CountingIds(), clock=StepClock())
    with pytest.raises(InvalidInput, match="exclude each other"):
        await create_agent_session(**here, storage=storage, session_manager=manager)
    with pytest.raises(InvalidInput, match="persist"):
        await create_agent_session(**here, storage=storage, persist=False)
    with pytest.raises(InvalidInput, match="preview"):
        await preview_session(**here, storage=storage)
