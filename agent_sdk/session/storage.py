"""A session over a store of the host's own: transcript and current state as one."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from agent_sdk.core.ids import Clock, Ids
from agent_sdk.session.codec import Item, peek
from agent_sdk.session.current_state import (
    LazyTranscript,
    SavedState,
    SessionCurrentState,
)
from agent_sdk.session.manager import Begin, SessionManager
from agent_sdk.session.paths import check_session_id, real_folder
from agent_sdk.session.records import Record
from agent_sdk.session.state_snapshot import (
    StateSnapshot,
    UnusableSnapshot,
    snapshot_from_bytes,
    snapshot_to_bytes,
)
from agent_sdk.session.store import LoadReport, StateKeeper, Visit

logger = logging.getLogger("zpi.session")

SAVE_EVERY = 64
"""A state is saved after so many records at the latest."""

_AT_ONCE = frozenset(
    {
        "session",
        "run",
        "permission_rule",
        "permission_mode_change",
        "model_change",
        "thinking_level_change",
        "session_info",
        "compaction",
        "rewind",
    }
)
"""Types of records after which a state is saved at once."""


class SessionStorage(Struct, frozen=True, kw_only=True):
    """Where a host keeps one session.

    Attributes:
        transcript: Its records.
        current_state: What they come to.
        session_id: Id of the session, if it is new; empty for any.
    """

    transcript: LazyTranscript | StateKeeper
    current_state: SessionCurrentState
    session_id: str = ""


async def open_storage(
    storage: SessionStorage,
    *,
    cwd: str | Path,
    ids: Ids,
    clock: Clock,
    observe: Callable[[Record], None] | None = None,
) -> SessionManager:
    """Open the session that a storage holds, or begin one in it.

    The manager closes the storage, also if opening fails.

    Args:
        storage: The storage.
        cwd: The folder of a session that is begun.
        ids: Source of ids.
        clock: Source of time.
        observe: As for ``SessionManager.resume``; all is read then.

    Raises:
        InvalidInput: If the id of a new session may not be one.
        StorageError: If the storage failed.
    """
    kept = _Kept(storage)
    try:
        begin = Begin(
            session_id=check_session_id(storage.session_id or ids.new()), cwd=real_folder(cwd)
        )
    except BaseException:
        await kept.close()
        raise
    return await SessionManager.from_store(kept, ids=ids, clock=clock, observe=observe, begin=begin)


class _Kept:
    """Transcript and current state as one store that keeps states, strictly."""

    def __init__(self, storage: SessionStorage) -> None:
        self._transcript = storage.transcript
        self._current = storage.current_state
        self._behind = 0  # records since the state that was saved
        self._at_once = False
        self._rest: tuple[list[Item], LoadReport] | None = None

    @property
    def path(self) -> Path | None:
        return self._transcript.path

    @property
    def writable(self) -> bool:
        return self._transcript.writable

    @property
    def strict(self) -> bool:
        return True

    @property
    def state_due(self) -> bool:
        return self._at_once or self._behind >= SAVE_EVERY

    async def load(self, visit: Visit) -> LoadReport:
        report = await self._transcript.load(visit)
        self._behind = report.count
        return report

    async def append(self, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> None:
        await self._transcript.append(lines, blobs)
        self._behind += len(lines)
        kinds = {found[0] for line in lines if (found := peek(line))}
        self._at_once = self._at_once or not kinds.isdisjoint(_AT_ONCE)

    def blob(self, name: str) -> bytes | None:
        return self._transcript.blob(name)

    async def load_state(self) -> StateSnapshot | None:
        if isinstance(self._transcript, StateKeeper):  # it has what is its own, and quicker
            return await self._transcript.load_state()
        saved = await self._current.load()
        if saved is None or not saved.data:
            return None
        items: list[Item] = []
        report = await self._transcript.load_after(items.append, facts=saved.facts)
        if report is None or report.damage or report.torn:
            return None  # reading all of it says what is wrong
        try:
            snapshot = snapshot_from_bytes(saved.data, self.blob)
        except UnusableSnapshot as error:
            logger.info("a saved state is not used: %s", error)
            return None
        if snapshot.facts != saved.facts:
            return None
        self._rest = items, report
        return snapshot

    async def load_rest(self, visit: Visit) -> LoadReport:
        if self._rest is None and isinstance(self._transcript, StateKeeper):
            return await self._transcript.load_rest(visit)
        if self._rest is None:
            raise RuntimeError("load_rest without a state")
        items, report = self._rest
        self._rest = None
        for item in items:
            visit(item)
        self._behind = len(items)
        return report

    async def load_again(self, visit: Visit) -> None:
        if isinstance(self._transcript, StateKeeper):
            await self._transcript.load_again(visit)
        else:
            await self._transcript.load(visit)

    async def keep_state(self, snapshot: StateSnapshot) -> None:
        closing = not self.state_due
        transcript = self._transcript
        if isinstance(transcript, StateKeeper) and (closing or transcript.state_due):
            await transcript.keep_state(snapshot)
        if not self._behind:
            return
        facts = snapshot.facts
        await self._current.save(
            SavedState(
                session_id=facts.header.session_id,
                facts=facts,
                data=snapshot_to_bytes(snapshot) or b"",
            )
        )
        self._behind = 0
        self._at_once = False

    async def close(self) -> None:
        try:
            await self._transcript.close()
        finally:
            await self._current.close()
