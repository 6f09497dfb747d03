"""Opens sessions: from nothing, or from their files."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from agent_sdk.host import (
    Clock,
    Ids,
    InvalidInput,
    Record,
    SessionDamaged,
    SessionManager,
    TaskOwner,
)
from desktop.bridge.frames import Frame
from desktop.bridge.messages import ProjectInfo
from desktop.host.drafts import Draft, cut_answer, read_draft
from desktop.host.errors import UnknownThing
from desktop.host.feed import Feed, Reactions
from desktop.host.ports import Database, SessionRecord
from desktop.host.session import HostSession, settled_status
from desktop.host.transcripts import Replayed, Transcript, replayed
from desktop.paths import DataPaths


class Loader:
    """Opens sessions.

    Args:
        paths: Where they lie.
        database: Index, prompts and events.
        send: Queues a frame for the window.
        reactions: What the host does about events.
        ids: Source of ids.
        clock: Source of time.
    """

    def __init__(
        self,
        *,
        paths: DataPaths,
        database: Database,
        send: Callable[[Frame], None],
        reactions: Reactions,
        ids: Ids,
        clock: Clock,
    ) -> None:
        self._paths = paths
        self._database = database
        self._send = send
        self._reactions = reactions
        self._ids = ids
        self._clock = clock
        self._tasks = TaskOwner(name="feeds")

    async def new(self, project_id: str) -> HostSession:
        """Begin a session; nothing is stored yet.

        Raises:
            UnknownThing: If there is no such project.
            InvalidInput: If its folder has gone.
        """
        project = await self._project(project_id)
        if not await asyncio.to_thread(Path(project.path).is_dir):
            raise InvalidInput(
                f"The folder {project.path!r} is not there.",
                hint="Bring it back, or close the project.",
            )
        manager = await SessionManager.create(
            cwd=project.path,
            sessions_dir=self._paths.sessions,
            artifacts_dir=self._paths.artifacts,
            ids=self._ids,
            clock=self._clock,
        )
        record = SessionRecord(
            id=manager.session_id,
            project_id=project.id,
            last_used=self._clock.iso(),
            path=self.relative(manager.path),
        )
        return self._add(record, project, manager=manager, replay=None, seq=0)

    async def load(self, session_id: str) -> HostSession:
        """Open a session from its file; what was cut off is settled.

        Raises:
            UnknownThing: If there is none of that id.
            StorageError: If its file cannot be read.
        """
        record = await self._database.sessions.get(session_id)
        if record is None:
            raise UnknownThing(f"There is no session {session_id!r}.", hint="It was deleted.")
        project = await self._project(record.project_id)
        records: list[Record] = []
        manager = await self._history(record, project, records)
        await self._restore(manager, records)
        events = self._database.events
        logged = await events.last_record(session_id)
        replay = await asyncio.to_thread(replayed, session_id, records, logged=logged)
        if replay.missing:
            await events.append(session_id, replay.missing)
        seq = await events.last_seq(session_id)
        session = self._add(record, project, manager=manager, replay=replay, seq=seq)
        session.stored = True
        await self._settle(session, replay)
        return session

    async def _history(
        self, record: SessionRecord, project: ProjectInfo, records: list[Record]
    ) -> SessionManager:
        path = self._paths.sessions / record.path
        if not await asyncio.to_thread(_holds_something, path):
            return await SessionManager.create(
                cwd=project.path,
                sessions_dir=self._paths.sessions,
                artifacts_dir=self._paths.artifacts,
                session_id=record.id,
                ids=self._ids,
                clock=self._clock,
            )
        try:
            return await self._resume(record.id, records, read_only=False)
        except SessionDamaged:
            records.clear()
            return await self._resume(record.id, records, read_only=True)

    async def _resume(
        self, session_id: str, records: list[Record], *, read_only: bool
    ) -> SessionManager:
        return await SessionManager.resume(
            session_id=session_id,
            sessions_dir=self._paths.sessions,
            artifacts_dir=self._paths.artifacts,
            read_only=read_only,
            ids=self._ids,
            clock=self._clock,
            observe=records.append,
        )

    def _draft(self, session_id: str) -> Path:
        return self._paths.drafts / f"{session_id}.jsonl"

    async def _restore(self, manager: SessionManager, records: list[Record]) -> None:
        """Put into the history what a kill left of an answer that was being shown."""
        path = self._draft(manager.session_id)
        draft = await asyncio.to_thread(read_draft, path)
        record = None if manager.read_only else cut_answer(draft, records)
        if record is not None:
            (uuid,) = await manager.append(record)
            records.append(structs.replace(record, uuid=uuid))
        if draft.count:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    def _add(
        self,
        record: SessionRecord,
        project: ProjectInfo,
        *,
        manager: SessionManager,
        replay: Replayed | None,
        seq: int,
    ) -> HostSession:
        notices = [n.text for n in manager.notices if n.code in ("damaged", "newer_format")]
        feed = Feed(
            session_id=record.id,
            transcript=replay.transcript if replay else Transcript(),
            seq=seq,
            draft=Draft(self._draft(record.id)),
            events=self._database.events,
            send=self._send,
            reactions=self._reactions,
            tasks=self._tasks,
            ids=self._ids,
            clock=self._clock,
        )
        return HostSession(
            record=record,
            project=project,
            manager=manager,
            feed=feed,
            last_run=replay.last_run if replay else None,
            stored=False,
            problem=" ".join(notices),
        )

    async def _settle(self, session: HostSession, replay: Replayed) -> None:
        """Bring the row and the queue into line with what the records say."""
        for row in await self._database.prompts.queued(session.id):
            if row.id in replay.delivered:
                await self._database.prompts.mark_delivered(row.id, replay.delivered[row.id])
            else:
                session.queue.append(row)
        session.paused = bool(session.queue)
        status, error = settled_status(session.record, replay.last_run)
        if (status, error.text) != (session.record.status, session.record.error):
            session.record = structs.replace(
                session.record, status=status, error_code=error.code, error=error.text
            )
            await self._database.sessions.put(session.record)

    async def _project(self, project_id: str) -> ProjectInfo:
        project = await self._database.projects.get(project_id)
        if project is None:
            raise UnknownThing(f"There is no project {project_id!r}.", hint="Open its folder.")
        return project

    def relative(self, path: Path | None) -> str:
        """Return a session file's path as the index keeps it; empty for none."""
        return path.relative_to(self._paths.sessions).as_posix() if path else ""

    async def aclose(self) -> None:
        """Stop all feeds."""
        await self._tasks.aclose()


def _holds_something(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return b"\n" in stream.read(64 * 1024)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # opening it says what is wrong
