"""The owner of one session's history: opens it, appends to it, knows its state.

``append`` returns when its records are durable; the state then has them, in
the order of the file, and never anything that is not durable. Appends that
come while one is being written go down together with the next.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from msgspec import Struct, structs

from agent_sdk.core.errors import (
    InvalidInput,
    SessionNotFound,
    SessionReadOnly,
    StorageError,
)
from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.loop.types import Notice
from agent_sdk.session.batch import Batch
from agent_sdk.session.committer import Committer
from agent_sdk.session.history import SessionState
from agent_sdk.session.journal import recovery_records
from agent_sdk.session.listing import latest_session, summarize
from agent_sdk.session.opening import open_state, recall
from agent_sdk.session.paths import (
    check_session_id,
    find_session,
    real_folder,
    session_path,
)
from agent_sdk.session.records import (
    KnownRecord,
    Record,
    SessionHeader,
    UnknownRecord,
)
from agent_sdk.session.store import (
    JsonlStore,
    LoadReport,
    MemoryStore,
    Mode,
    TranscriptStore,
)


class Begin(Struct, frozen=True, kw_only=True):
    """Id and real folder of a session that is begun."""

    session_id: str
    cwd: str


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
        self._read_only = read_only
        self._closed = False
        new_batch = partial(
            Batch, state=state, session_id=session_id, cwd=cwd, ids=ids, clock=clock
        )
        self._committer = Committer(store=store, state=state, new_batch=new_batch)

    @property
    def path(self) -> Path | None:
        """The session's file; None in memory. It is made with the first append."""
        return self._store.path

    @property
    def store(self) -> TranscriptStore:
        """Where its lines are kept; only the manager writes there and closes it."""
        return self._store

    @property
    def read_only(self) -> bool:
        """Whether appends are refused."""
        return self._read_only or self._closed or self._committer.lost or not self._store.writable

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
        blobs = _blobs_dir(sessions_dir, artifacts_dir)
        store = _file(path, "new", blobs_dir=blobs, clock=clock, faults=faults)
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
        observe: Callable[[Record], None] | None = None,
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
            observe: Called with each record in order, those that settled it
                included, perhaps on another thread, but before this returns.

        Raises:
            InvalidInput: If it is no id, or fits several sessions.
            SessionNotFound: If there is none.
            SessionLocked: If another process writes it.
            SessionDamaged: If it is broken in the middle.
            StorageError: If it cannot be read or settled.
        """
        path, blobs = (
            find_session(sessions_dir, session_id),
            _blobs_dir(sessions_dir, artifacts_dir),
        )
        mode: Mode = "read" if read_only else "write"
        store = _file(path, mode, blobs_dir=blobs, clock=clock, faults=faults)
        return await cls.from_store(store, ids=ids, clock=clock, observe=observe)

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
    async def from_store(
        cls,
        store: TranscriptStore,
        *,
        ids: Ids,
        clock: Clock,
        observe: Callable[[Record], None] | None = None,
        begin: Begin | None = None,
    ) -> Self:
        """Open what a store holds; the manager closes the store.

        Args:
            store: The store.
            ids: Source of ids.
            clock: Source of time.
            observe: As for ``resume``.
            begin: The session to begin if it holds no record.

        Raises:
            SessionNotFound: If it holds no record, and none is begun.
            StorageError: As for ``resume``.
        """
        try:
            opened = await open_state(store, observe)
            state, report = opened.state, opened.report
            if not report.count and begin is not None:
                name, cwd = begin.session_id, begin.cwd
                return cls(store=store, state=state, session_id=name, cwd=cwd, ids=ids, clock=clock)
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
                notices=_notices(report, store.path, opened.missing),
            )
            for record in await manager._recover():
                if observe is not None:
                    observe(record)
        except BaseException:
            await store.close()
            raise
        return manager

    async def _recover(self) -> list[KnownRecord]:
        """Settle what was interrupted; return the records that do it."""
        due = [] if self.read_only else recovery_records(self.state)
        if not due:
            return []
        uuids = await self.append(*due)
        text = "The last run was interrupted; calls without a result were marked so."
        self.notices = (*self.notices, Notice("warning", "interrupted", text))
        return [structs.replace(r, uuid=uuid) for r, uuid in zip(due, uuids, strict=True)]

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
        if any(self.state.lacks(draft) for draft in known):
            await self.recall()
        return await self._committer.append(known)

    async def recall(self) -> None:
        """Bring every record of a long session into memory.

        Until then ``state`` may be partial: it knows the records in view, and
        what the others came to. ``append`` does it by itself where a record
        points to an old one.

        Raises:
            StorageError: If the records cannot be read.
        """
        await recall(self._store, self.state)

    async def close(self) -> None:
        """Finish what waits, and let go of the file; may be called twice."""
        self._closed = True
        try:
            await self._committer.finish()
        finally:
            await self._store.close()


def _blobs_dir(sessions_dir: str | Path, artifacts_dir: str | Path | None) -> Path:
    return Path(artifacts_dir) if artifacts_dir else Path(sessions_dir).parent / "artifacts"


def _file(
    path: Path, mode: Mode, *, blobs_dir: Path, clock: Clock, faults: Faults | None
) -> JsonlStore:
    return JsonlStore(
        path=path, mode=mode, blobs_dir=blobs_dir, stamp=lambda: _stamp(clock), faults=faults
    )


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
