"""The sessions that are open in the host, and the index of all of them."""

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from agent_sdk.events.wire import SessionInfo
from agent_sdk.host import (
    AgentSession,
    Clock,
    Ids,
    InvalidInput,
    LastRun,
    Record,
    SessionDamaged,
    SessionInfoRecord,
    SessionManager,
    TaskOwner,
    ZpiError,
    list_sessions,
)
from desktop.bridge.frames import Frame
from desktop.bridge.messages import (
    ErrorInfo,
    OpenedSession,
    ProjectInfo,
    QueuedPrompt,
    QueueState,
    SessionRow,
    SessionsState,
)
from desktop.host.errors import SessionBusy, UnknownThing
from desktop.host.feed import Feed, Reactions
from desktop.host.permissions import Questions
from desktop.host.ports import Database, PromptRow, SessionRecord
from desktop.host.status import Topics
from desktop.host.transcripts import Replayed, Transcript, replayed
from desktop.paths import DataPaths

logger = logging.getLogger("zpi.host.sessions")

MAX_TITLE = 200
_TITLE_FROM_PROMPT = 80
MOST_AT_REST = 6
"""Sessions that are kept open although nobody watches them and nothing runs."""


class HostSession:
    """One session that is open in the host.

    Attributes:
        record: Its row in the index.
        project: The folder it belongs to.
        manager: Its history.
        feed: Its events on their way to the window.
        last_run: The newest run that its records tell of.
        stored: Whether it is in the index; a new session is not.
        agent: The session at work; None until it runs for the first time.
        problem: Why it can only be read; empty if it can go on.
        model: ``provider/id`` chosen for the next run; empty for what is recorded.
        thinking: Reasoning level chosen for the next run.
        mode: Permission mode chosen; empty for what is recorded.
        queue: Prompts that no record delivers yet, oldest first.
        handed: Ids of those that the run has been given.
        taken: What became of prompts that were accepted, by id.
        paused: Whether the queue waits for the user.
        running: Whether a run goes on, or is about to.
        stopping: Whether the user wants it to stop.
        lock: Held by the command that is at work on it.
    """

    def __init__(
        self,
        *,
        record: SessionRecord,
        project: ProjectInfo,
        manager: SessionManager,
        feed: Feed,
        last_run: LastRun | None,
        stored: bool,
        problem: str,
    ) -> None:
        self.record = record
        self.project = project
        self.manager = manager
        self.feed = feed
        self.last_run = last_run
        self.stored = stored
        self.problem = problem
        self.agent: AgentSession | None = None
        self.model = ""
        self.thinking = ""
        self.mode = ""
        self.queue: list[PromptRow] = []
        self.handed: set[str] = set()
        self.taken: dict[str, str] = {}
        self.paused = False
        self.running = False
        self.stopping = False
        self.lock = asyncio.Lock()

    @property
    def id(self) -> str:
        """Id of the session."""
        return self.record.id

    @property
    def at_rest(self) -> bool:
        """Whether nothing would be missed if it were closed."""
        return not (self.running or self.queue or self.lock.locked() or self.feed.shown)

    def queue_state(self) -> QueueState:
        """Return what waits in it."""
        waiting = [row for row in self.queue if row.id not in self.handed]
        return QueueState(
            session_id=self.id,
            queued=tuple(QueuedPrompt(id=row.id, text=row.text) for row in waiting),
            paused=self.paused and bool(waiting),
        )

    async def aclose(self) -> None:
        """Close it; no run may be going on."""
        await self.feed.drain()
        if self.agent is not None:
            await self.agent.aclose()
        await self.manager.close()


class Defaults(Struct, kw_only=True):
    """What new sessions begin with.

    Attributes:
        permission_mode: Permission mode.
        thinking: Reasoning level; empty for none.
    """

    permission_mode: str = "default"
    thinking: str = ""


class Sessions:
    """Opens, lists and closes sessions.

    Args:
        paths: Where they lie.
        database: Index, prompts and events.
        topics: Tells the window of rows and queues.
        questions: Knows what waits for an answer.
        send: Queues a frame for the window.
        reactions: What the host does about events.
        defaults: What new sessions begin with.
        epoch: The host's.
    """

    def __init__(
        self,
        *,
        paths: DataPaths,
        database: Database,
        topics: Topics,
        questions: Questions,
        send: Callable[[Frame], None],
        reactions: Reactions,
        defaults: Defaults,
        epoch: str,
        ids: Ids,
        clock: Clock,
    ) -> None:
        self._paths = paths
        self._database = database
        self._topics = topics
        self._questions = questions
        self._send = send
        self._reactions = reactions
        self._defaults = defaults
        self._epoch = epoch
        self._ids = ids
        self._clock = clock
        self._tasks = TaskOwner(name="sessions")
        self._open: dict[str, HostSession] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    # ------------------------------------------------------------------ finding

    def known(self, session_id: str) -> HostSession | None:
        """Return the session if it is open here."""
        return self._open.get(session_id)

    @property
    def open_ones(self) -> tuple[HostSession, ...]:
        """The sessions that are open here."""
        return tuple(self._open.values())

    async def state(self) -> list[SessionsState]:
        """Return all rows of the side bar."""
        projects = {project.id for project in await self._database.projects.list()}
        rows = [
            self.row(self._open[record.id].record if record.id in self._open else record)
            for record in await self._database.sessions.rows()
            if record.project_id in projects
        ]
        return [SessionsState(rows=tuple(rows), reset=True)]

    async def queues(self) -> list[QueueState]:
        """Return the queues that hold something."""
        states = [session.queue_state() for session in self._open.values()]
        return [state for state in states if state.queued]

    def row(self, record: SessionRecord) -> SessionRow:
        """Return a session's row in the side bar."""
        waiting = record.status in ("running", "retry") and self._questions.waits(record.id)
        opened = self._open.get(record.id)
        return SessionRow(
            id=record.id,
            project_id=record.project_id,
            title=record.title,
            status="waiting" if waiting else record.status,
            last_used=record.last_used,
            unread=record.unread,
            problem=opened.problem if opened else "",
        )

    # ----------------------------------------------------------------- changing

    async def note(self, session: HostSession, **changes: object) -> None:
        """Change a session's row, durably, and tell the window."""
        session.record = structs.replace(session.record, **changes)
        if session.stored:
            await self._database.sessions.put(session.record)
            self.publish(session)

    def publish(self, session: HostSession) -> None:
        """Tell the window of a session's row."""
        if session.stored:
            self._topics.publish("sessions", SessionsState(rows=(self.row(session.record),)))

    def publish_queue(self, session: HostSession) -> None:
        """Tell the window of a session's queue."""
        self._topics.publish("queue", session.queue_state())

    async def store(self, session: HostSession, *, prompt: str) -> None:
        """Put a new session into the index, titled by its first prompt."""
        if not session.stored:
            session.stored = True
            await self.note(session, title=title_of(prompt), last_used=self._clock.iso())

    async def rename(self, session: HostSession, title: str) -> None:
        """Give it a title; stored with it as soon as it has a file.

        Raises:
            InvalidInput: If the title has no, or more than 200 characters.
            SessionReadOnly: If it can only be read.
        """
        name = " ".join(title.split())
        if not 1 <= len(name) <= MAX_TITLE:
            raise InvalidInput(f"A title has 1 to {MAX_TITLE} characters.", hint="Shorten it.")
        if session.manager.state.count:
            await session.manager.append(SessionInfoRecord(title=name))
        await self.note(session, title=name)

    async def delete(self, session: HostSession) -> None:
        """Delete a session with all that belongs to it.

        Raises:
            SessionBusy: If it runs.
        """
        if session.running:
            raise SessionBusy("The session is running.", hint="Stop it first.")
        self._open.pop(session.id, None)
        await session.aclose()
        path = session.manager.path
        await self._database.sessions.delete(session.id)
        if path is not None:
            await asyncio.to_thread(_remove_files, path)
        self._topics.publish("sessions", SessionsState(removed=(session.id,)))
        self._topics.publish("queue", QueueState(session_id=session.id))

    # ------------------------------------------------------------------ opening

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
            path=self._relative(manager.path),
        )
        return self._add(record, project, manager=manager, replay=None, seq=0)

    async def get(self, session_id: str) -> HostSession:
        """Return a session, opened if it was not.

        Raises:
            UnknownThing: If there is none of that id.
            StorageError: If its file cannot be read.
        """
        lock = self._opening.setdefault(session_id, asyncio.Lock())
        async with lock:
            found = self._open.get(session_id)
            if found is None:
                found = await self._load(session_id)
                await self._close_some(but=found)
        if not lock.locked():
            self._opening.pop(session_id, None)
        return found

    async def _load(self, session_id: str) -> HostSession:
        record = await self._database.sessions.get(session_id)
        if record is None:
            raise UnknownThing(f"There is no session {session_id!r}.", hint="It was deleted.")
        project = await self._project(record.project_id)
        records: list[Record] = []
        manager = await self._history(record, project, records)
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
            events=self._database.events,
            send=self._send,
            reactions=self._reactions,
            tasks=self._tasks,
            ids=self._ids,
            clock=self._clock,
        )
        session = HostSession(
            record=record,
            project=project,
            manager=manager,
            feed=feed,
            last_run=replay.last_run if replay else None,
            stored=False,
            problem=" ".join(notices),
        )
        self._open[record.id] = session
        return session

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
            await self.note(session, status=status, error_code=error.code, error=error.text)

    async def _project(self, project_id: str) -> ProjectInfo:
        project = await self._database.projects.get(project_id)
        if project is None:
            raise UnknownThing(f"There is no project {project_id!r}.", hint="Open its folder.")
        return project

    def _relative(self, path: Path | None) -> str:
        return path.relative_to(self._paths.sessions).as_posix() if path else ""

    # ------------------------------------------------------------------ showing

    def show(self, session: HostSession, *, model: str) -> OpenedSession:
        """Begin to send a session's events, and return what there is so far.

        Nothing may be awaited between this and sending the answer.

        Args:
            session: The session.
            model: The model that its next run will use; empty if there is none.
        """
        session.feed.shown = True
        transcript, state = session.feed.transcript, session.manager.state
        record = session.record
        failed = record.status == "failed"
        return OpenedSession(
            session=SessionInfo(
                id=session.id,
                workspace=session.project.path,
                title=record.title,
                model=model,
                queued=tuple(row.text for row in session.queue if row.id not in session.handed),
            ),
            row=self.row(record),
            count=transcript.count,
            sizes=transcript.sizes(),
            page=transcript.tail(),
            seq=session.feed.seq,
            epoch=self._epoch,
            model=model,
            thinking=session.thinking or state.thinking_level or self._defaults.thinking,
            permission_mode=self.mode(session),
            can_continue=can_continue(session),
            error=ErrorInfo(code=record.error_code, text=record.error) if failed else None,
            expired=self._questions.expired(session.id),
        )

    def mode(self, session: HostSession) -> str:
        """Return the permission mode in force; a bypass does not outlive its host."""
        recorded = session.manager.state.permission_mode
        if recorded == "bypassPermissions":
            recorded = ""
        return session.mode or recorded or self._defaults.permission_mode

    # ------------------------------------------------------------ start and end

    async def start(self) -> None:
        """Find sessions that the index does not know, and settle what was cut off.

        A run that an earlier host left behind is shown as interrupted from now on.
        """
        await self._rebuild()
        waiting = {row.session_id for row in await self._database.prompts.queued()}
        for record in await self._database.sessions.rows():
            cut = record.status in ("running", "retry", "waiting")
            if not cut and record.id not in waiting:
                continue
            try:
                await self.get(record.id)
            except ZpiError as error:  # one bad session must not keep ZPI from starting
                logger.warning("session %s cannot be settled: %s", record.id, error)
                if cut:
                    record = structs.replace(record, status="interrupted")
                    await self._database.sessions.put(record)

    async def _rebuild(self) -> None:
        folder = self._paths.sessions
        names = await asyncio.to_thread(lambda: {p.stem for p in folder.glob("*/*.jsonl")})
        unknown = names - {record.id for record in await self._database.sessions.rows()}
        if not unknown:
            return
        for summary in await asyncio.to_thread(list_sessions, folder):
            if summary.session_id not in unknown or not summary.cwd:
                continue
            try:
                project = await self._database.projects.add(summary.cwd)
            except InvalidInput:
                continue  # its folder has gone: it comes back with the folder
            await self._database.sessions.put(
                SessionRecord(
                    id=summary.session_id,
                    project_id=project.id,
                    title=title_of(summary.label),
                    last_used=summary.last_used,
                    path=self._relative(summary.path),
                )
            )

    async def _close_some(self, *, but: HostSession) -> None:
        resting = [s for s in self._open.values() if s.at_rest and s is not but]
        for session in resting[: max(0, len(resting) - MOST_AT_REST)]:
            self._open.pop(session.id, None)
            await session.aclose()

    async def hide(self, session: HostSession) -> None:
        """Send no more events of it; a new one that was never used is forgotten."""
        session.feed.shown = False
        if not session.stored and session.at_rest:
            self._open.pop(session.id, None)
            await session.aclose()
        elif session.record.unread:
            await self.note(session, unread=False)

    async def aclose(self) -> None:
        """Close all sessions; no run may be going on."""
        for session in self.open_ones:
            self._open.pop(session.id, None)
            await session.aclose()
        await self._tasks.aclose()


def can_continue(session: HostSession) -> bool:
    """Whether the session's last run was cut or failed, and may be gone on with."""
    ended = session.record.status in ("interrupted", "failed")
    return ended and not session.problem and bool(session.manager.state.messages)


def settled_status(record: SessionRecord, last: LastRun | None) -> tuple[str, ErrorInfo]:
    """Return a session's status when no run goes on, and its error.

    Args:
        record: What the index says.
        last: What the records say of the newest run.
    """
    none = ErrorInfo(code="", text="")
    if last is None:
        return "idle", none
    if last.status in ("", "interrupted"):
        return "interrupted", none
    if record.status in ("running", "retry", "waiting") and record.run_id not in ("", last.run_id):
        return "interrupted", none  # cut before it stored anything
    if last.status == "error":
        return "failed", ErrorInfo(code=last.error_code, text=last.error)
    if last.status == "aborted" and record.status == "interrupted":
        return "interrupted", none
    return "idle", none


def title_of(text: str) -> str:
    """Return the beginning of a text as a title of one line."""
    line = " ".join(text[: 4 * _TITLE_FROM_PROMPT].split())
    if len(line) <= _TITLE_FROM_PROMPT:
        return line
    return f"{line[: _TITLE_FROM_PROMPT - 1].rstrip()}…"


def _holds_something(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return b"\n" in stream.read(64 * 1024)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # opening it says what is wrong


def _remove_files(path: Path) -> None:
    for copy in (path, *path.parent.glob(f"{path.name}.torn-*")):
        copy.unlink(missing_ok=True)
    shutil.rmtree(path.with_suffix(""), ignore_errors=True)
