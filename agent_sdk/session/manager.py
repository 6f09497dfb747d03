"""The owner of one session's history: opens it, appends to it, knows its state.

``append`` returns when its records are durable; the state then has them, in
the order of the file, and never anything that is not durable. Appends that
come while one is being written go down together with the next.
"""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import (
    InvalidInput,
    SessionNotFound,
    SessionReadOnly,
    StorageError,
    ZpiError,
)
from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.loop.types import Notice
from agent_sdk.session.artifacts import Artifact, restore_artifacts, split_artifacts
from agent_sdk.session.codec import Item, encode
from agent_sdk.session.history import SessionState
from agent_sdk.session.journal import recovery_records
from agent_sdk.session.listing import latest_session, summarize
from agent_sdk.session.paths import (
    check_session_id,
    find_session,
    real_folder,
    session_path,
)
from agent_sdk.session.records import (
    FORMAT,
    VERSION,
    CompactionRecord,
    KnownRecord,
    Record,
    RewindRecord,
    SessionHeader,
    UnknownRecord,
)
from agent_sdk.session.store import JsonlStore, LoadReport, MemoryStore, TranscriptStore


class _Entry(Struct, eq=False):
    """One append that waits."""

    drafts: Sequence[KnownRecord]
    done: asyncio.Future[list[str]]


class _Batch:
    """Records that go down together, and what they need."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.records: list[KnownRecord] = []
        self.blobs: dict[str, bytes] = {}
        self.entries: list[tuple[_Entry, list[str]]] = []


class SessionManager:
    """One session, open.

    Make one with ``create``, ``resume``, ``continue_latest``, ``in_memory``
    or ``from_store``, and close it. It belongs to one event loop.

    Attributes:
        session_id: The session.
        cwd: Its folder, an absolute real path; fixed when it was created.
        state: What its records say; read it, do not change it.
        notices: What the user should know about how it was opened.
    """

    def __init__(
        self,
        *,
        store: TranscriptStore,
        state: SessionState,
        session_id: str,
        cwd: str,
        ids: Ids,
        clock: Clock,
        read_only: bool = False,
        notices: Iterable[Notice] = (),
    ) -> None:
        self.session_id = session_id
        self.cwd = cwd
        self.state = state
        self.notices = tuple(notices)
        self._store = store
        self._ids = ids
        self._clock = clock
        self._read_only = read_only
        self._closed = False
        self._lost = False
        self._pending: list[_Entry] = []
        self._committing = False
        self._tasks = TaskOwner(name="session")

    @property
    def path(self) -> Path | None:
        """The session's file; None in memory. It is made with the first append."""
        return self._store.path

    @property
    def read_only(self) -> bool:
        """Whether appends are refused."""
        return self._read_only or self._closed or self._lost or not self._store.writable

    # ------------------------------------------------------------- opening

    @classmethod
    async def create(
        cls,
        *,
        cwd: str | Path,
        sessions_dir: str | Path,
        ids: Ids,
        clock: Clock,
        session_id: str | None = None,
        artifacts_dir: str | Path | None = None,
        faults: Faults | None = PROCESS_FAULTS,
    ) -> Self:
        """Begin a session; its file is made with the first append.

        Args:
            cwd: The session's folder.
            sessions_dir: Folder of all sessions.
            ids: Source of ids.
            clock: Source of time.
            session_id: Its id; a new one by default.
            artifacts_dir: Folder for large content; ``artifacts`` beside
                ``sessions_dir`` by default.
            faults: The armed failpoint, for tests.

        Raises:
            InvalidInput: If the id may not be a file's name.
            StorageError: If a session of that id exists.
        """
        name = check_session_id(session_id or ids.new())
        path = session_path(sessions_dir, cwd, name)
        if session_id is not None and summarize(path) is not None:
            raise StorageError(
                f"There is a session {name!r} already.",
                hint="Resume it, or start one with another id.",
            )
        store = JsonlStore(
            path=path,
            mode="new",
            blobs_dir=_blobs_dir(sessions_dir, artifacts_dir),
            stamp=lambda: _stamp(clock),
            faults=faults,
        )
        return cls(
            store=store,
            state=SessionState(),
            session_id=name,
            cwd=real_folder(cwd),
            ids=ids,
            clock=clock,
        )

    @classmethod
    async def resume(
        cls,
        *,
        session_id: str,
        sessions_dir: str | Path,
        ids: Ids,
        clock: Clock,
        read_only: bool = False,
        artifacts_dir: str | Path | None = None,
        faults: Faults | None = PROCESS_FAULTS,
    ) -> Self:
        """Open a session to go on with it.

        A torn tail is cut off (and kept beside the file), and calls and runs
        that were interrupted are settled; ``notices`` say so. A session of a
        newer format opens for reading only.

        Args:
            session_id: Its id, or a unique beginning of at least 8 characters.
            sessions_dir: Folder of all sessions.
            ids: Source of ids.
            clock: Source of time.
            read_only: Only read: nothing is locked or repaired, and what is
                good of a damaged file is there.
            artifacts_dir: As for ``create``.
            faults: The armed failpoint, for tests.

        Raises:
            InvalidInput: If it is no id, or fits several sessions.
            SessionNotFound: If there is none.
            SessionLocked: If another process writes it.
            SessionDamaged: If it is broken in the middle.
            StorageError: If it cannot be read or settled.
        """
        store = JsonlStore(
            path=find_session(sessions_dir, session_id),
            mode="read" if read_only else "write",
            blobs_dir=_blobs_dir(sessions_dir, artifacts_dir),
            stamp=lambda: _stamp(clock),
            faults=faults,
        )
        return await cls.from_store(store, ids=ids, clock=clock)

    @classmethod
    async def continue_latest(
        cls,
        *,
        cwd: str | Path,
        sessions_dir: str | Path,
        ids: Ids,
        clock: Clock,
        artifacts_dir: str | Path | None = None,
        faults: Faults | None = PROCESS_FAULTS,
    ) -> Self:
        """Open the folder's session that was used last, as its last record says.

        Raises:
            SessionNotFound: If the folder has none.
            StorageError: As for ``resume``.
        """
        return await cls.resume(
            session_id=latest_session(sessions_dir, cwd).stem,
            sessions_dir=sessions_dir,
            ids=ids,
            clock=clock,
            artifacts_dir=artifacts_dir,
            faults=faults,
        )

    @classmethod
    def in_memory(
        cls, *, cwd: str | Path, ids: Ids, clock: Clock, session_id: str | None = None
    ) -> Self:
        """Begin a session that is written nowhere."""
        return cls(
            store=MemoryStore(),
            state=SessionState(),
            session_id=check_session_id(session_id or ids.new()),
            cwd=real_folder(cwd),
            ids=ids,
            clock=clock,
        )

    @classmethod
    async def from_store(cls, store: TranscriptStore, *, ids: Ids, clock: Clock) -> Self:
        """Open what a store holds; the manager closes the store.

        Raises:
            SessionNotFound: If it holds no record.
            StorageError: As for ``resume``.
        """
        state = SessionState()
        missing: list[str] = []

        def visit(item: Item) -> None:
            record, gone = restore_artifacts(item.record, store.blob)
            missing.extend(gone)
            state.apply(record)

        try:
            report = await store.load(visit)
            if not report.count:
                raise SessionNotFound(f"{str(store.path)!r} holds no session.")
            name = store.path.stem if store.path else ""
            manager = cls(
                store=store,
                state=state,
                session_id=state.header.session_id if state.header else name,
                cwd=state.cwd,
                ids=ids,
                clock=clock,
                read_only=report.newer or bool(report.damage),
                notices=_notices(report, store.path, missing),
            )
            await manager._recover()
        except BaseException:
            await store.close()
            raise
        return manager

    async def _recover(self) -> None:
        due = [] if self.read_only else recovery_records(self.state)
        if due:
            await self.append(*due)
            text = "The last run was interrupted; calls without a result were marked so."
            self.notices = (*self.notices, Notice("warning", "interrupted", text))

    # ----------------------------------------------------------- appending

    async def append(self, *drafts: Record) -> list[str]:
        """Store records, one after the other, and wait until they are durable.

        The envelope of each is filled here. All of them are stored, or none.
        A caller that is cancelled while it waits does not know whether they
        were.

        Returns:
            The records' ids, in order.

        Raises:
            InvalidInput: If one of them does not fit the format.
            DiskFull: If there is no room; a later append may succeed.
            SessionReadOnly: If the session is not open for writing.
            StorageError: If they could not be written.
        """
        if self.read_only:
            raise SessionReadOnly(
                f"The session {self.session_id!r} cannot be written to.",
                hint="It was closed, is damaged or of a newer format, or its disk failed.",
            )
        known = [d for d in drafts if not isinstance(d, UnknownRecord | SessionHeader)]
        if len(known) != len(drafts):
            raise InvalidInput("Headers and records of unknown types cannot be appended.")
        if not known:
            return []
        entry = _Entry(known, asyncio.get_running_loop().create_future())
        self._pending.append(entry)
        if not self._committing:
            self._committing = True
            self._tasks.start(self._commit_pending(), name="commit")
        return await entry.done

    async def close(self) -> None:
        """Finish what waits, and let go of the file; may be called twice."""
        self._closed = True
        await self._tasks.drain()
        await self._store.close()

    async def _commit_pending(self) -> None:
        try:
            while self._pending:
                taken, self._pending = self._pending, []
                await self._commit(taken)
        except BaseException:
            self._lost = True  # stopped in the middle: what is in the file is not known
            raise
        finally:
            self._committing = False
            for entry in self._pending:
                entry.done.cancel()

    async def _commit(self, taken: Sequence[_Entry]) -> None:
        batch = self._batch(taken)
        if not batch.entries:
            return
        try:
            await self._store.append(batch.lines, batch.blobs)
        except ZpiError as error:
            for entry, _ in batch.entries:
                _fail(entry, error)
            return
        except BaseException:
            for entry, _ in batch.entries:
                entry.done.cancel()
            raise
        for record in batch.records:
            self.state.apply(record)
        for entry, uuids in batch.entries:
            if not entry.done.done():
                entry.done.set_result(uuids)

    def _batch(self, taken: Sequence[_Entry]) -> _Batch:
        """Chain and encode; an entry that does not fit fails alone."""
        batch = _Batch()
        if self.state.last_uuid is None:
            header = SessionHeader(format=FORMAT, version=VERSION, cwd=self.cwd)
            self._add(batch, header)
        for entry in taken:
            if entry.done.done():
                continue  # cancelled before it was taken
            at = len(batch.records)
            try:
                uuids = [self._add(batch, draft) for draft in entry.drafts]
            except InvalidInput as error:
                del batch.lines[at:], batch.records[at:]
                _fail(entry, error)
            else:
                batch.entries.append((entry, uuids))
        return batch

    def _add(self, batch: _Batch, draft: KnownRecord) -> str:
        last = batch.records[-1].uuid if batch.records else self.state.last_uuid
        self._check_pointers(batch, draft)
        record = msgspec.structs.replace(
            draft,
            uuid=self._ids.new(),
            parent_uuid=last,
            session_id=self.session_id,
            timestamp=self._clock.iso(),
        )
        stored, artifacts = split_artifacts(record)
        line, clean = encode(stored)
        if clean is not stored:
            record = _restored(clean, artifacts)
        batch.lines.append(line)
        batch.records.append(record)
        batch.blobs.update((a.sha256, a.data) for a in artifacts)
        return record.uuid

    def _check_pointers(self, batch: _Batch, draft: KnownRecord) -> None:
        """Refuse a rewind or compaction to a record that does not exist."""
        pointers: tuple[str | None, ...] = ()
        if isinstance(draft, RewindRecord):
            pointers = (draft.to_uuid, draft.restores)
        elif isinstance(draft, CompactionRecord):
            pointers = (draft.keep_from_uuid, draft.clear_tool_results_before_uuid)
        new = {record.uuid for record in batch.records} if pointers else set()
        for uuid in pointers:
            if uuid is not None and uuid not in new and not self.state.knows(uuid):
                raise InvalidInput(f"The session has no record {uuid!r}.")


def _restored(record: KnownRecord, artifacts: Sequence[Artifact]) -> KnownRecord:
    content = {artifact.sha256: artifact.data for artifact in artifacts}
    restored, _ = restore_artifacts(record, content.get)
    return record if isinstance(restored, UnknownRecord) else restored


def _fail(entry: _Entry, error: ZpiError) -> None:
    if not entry.done.done():
        entry.done.set_exception(error)


def _blobs_dir(sessions_dir: str | Path, artifacts_dir: str | Path | None) -> Path:
    return Path(artifacts_dir) if artifacts_dir else Path(sessions_dir).parent / "artifacts"


def _stamp(clock: Clock) -> str:
    """Return the wall clock in a form that may be part of a file's name."""
    return "".join(c for c in clock.iso() if c.isalnum())


def _notices(report: LoadReport, path: Path | None, missing: Sequence[str]) -> list[Notice]:
    notices = []
    name = str(path)
    if report.newer:
        text = f"The session {name!r} was written by a newer ZPI; it can only be read."
        notices.append(Notice("warning", "newer_format", text))
    if report.damage:
        first = report.damage[0]
        text = (
            f"The session file {name!r} is damaged in {len(report.damage)} place(s), first: line "
            f"{first.number} {first.reason}. What is good is shown; it can only be read."
        )
        notices.append(Notice("error", "damaged", text))
    if report.torn is not None and report.saved_as is not None:
        text = (
            f"The end of {name!r} was not written whole ({report.torn.length} bytes) and was cut "
            f"off; it is kept in {str(report.saved_as)!r}."
        )
        notices.append(Notice("warning", "torn_tail", text))
    elif report.torn is not None:
        text = f"The end of {name!r} is not written whole ({report.torn.length} bytes)."
        notices.append(Notice("warning", "torn_tail", text))
    if missing:
        text = f"{len(missing)} image(s) or document(s) of {name!r} are no longer on the disk."
        notices.append(Notice("warning", "missing_artifact", text))
    return notices
