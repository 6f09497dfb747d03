"""The sessions that are open in the host, and the index of all of them."""

import asyncio
import logging
import shutil
from pathlib import Path

from msgspec import structs

from agent_sdk.events.wire import SessionInfo
from agent_sdk.host import (
    Clock,
    InvalidInput,
    PermissionModeChangeRecord,
    SessionInfoRecord,
    ZpiError,
    list_sessions,
)
from desktop.bridge.messages import (
    ErrorInfo,
    OpenedSession,
)
from desktop.host.errors import SessionBusy
from desktop.host.loading import Loader
from desktop.host.permissions import Questions
from desktop.host.ports import Database, SessionRecord
from desktop.host.rows import Rows
from desktop.host.session import Defaults, HostSession, can_continue, title_of
from desktop.host.status import Topics

logger = logging.getLogger("zpi.host.sessions")

MAX_TITLE = 200
_TITLE_FROM_PROMPT = 80
MOST_AT_REST = 6
"""Sessions that are kept open although nobody watches them and nothing runs."""


class Sessions:
    """Opens, finds and closes sessions.

    Attributes:
        rows: What the side bar shows of them.

    Args:
        loader: Opens them.
        folder: Where their files lie.
        database: Index, prompts and events.
        topics: Tells the window of rows and queues.
        questions: Knows what waits for an answer.
        defaults: What new sessions begin with.
        epoch: The host's.
    """

    def __init__(
        self,
        *,
        loader: Loader,
        folder: Path,
        database: Database,
        topics: Topics,
        questions: Questions,
        defaults: Defaults,
        epoch: str,
        clock: Clock,
    ) -> None:
        self._loader = loader
        self._folder = folder
        self._database = database
        self._questions = questions
        self._defaults = defaults
        self._epoch = epoch
        self._clock = clock
        self._open: dict[str, HostSession] = {}
        self.rows = Rows(database=database, topics=topics, questions=questions, opened=self._open)
        self._opening: dict[str, asyncio.Lock] = {}

    # ------------------------------------------------------------------ finding

    def known(self, session_id: str) -> HostSession | None:
        """Return the session if it is open here."""
        return self._open.get(session_id)

    @property
    def open_ones(self) -> tuple[HostSession, ...]:
        """The sessions that are open here."""
        return tuple(self._open.values())

    # ----------------------------------------------------------------- changing

    async def store(self, session: HostSession, *, prompt: str) -> None:
        """Put a new session into the index, titled by its first prompt.

        What was chosen for it goes into its file.
        """
        if session.stored:
            return
        if session.mode and session.manager.state.permission_mode != session.mode:
            await session.manager.append(PermissionModeChangeRecord(mode=session.mode))
        title = session.record.title or title_of(prompt)
        record = structs.replace(session.record, title=title, last_used=self._clock.iso())
        await self._database.sessions.put(record)
        session.record, session.stored = record, True

    async def retitle(self, session: HostSession, title: str) -> None:
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
        await self.rows.note(session, title=name)

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
        self.rows.publish_gone(session.id)

    # ------------------------------------------------------------------ opening

    async def new(self, project_id: str) -> HostSession:
        """Begin a session; nothing is stored yet.

        Raises:
            UnknownThing: If there is no such project.
            InvalidInput: If its folder has gone.
        """
        session = await self._loader.new(project_id)
        self._open[session.id] = session
        return session

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
                found = self._open[session_id] = await self._loader.load(session_id)
                self.rows.publish(found)
                await self._close_some(but=found)
        if not lock.locked():
            self._opening.pop(session_id, None)
        return found

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
            row=self.rows.row(record),
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
        folder = self._folder
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
                    path=self._loader.relative(summary.path),
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
            await self.rows.note(session, unread=False)

    async def aclose(self) -> None:
        """Close all sessions; no run may be going on."""
        for session in self.open_ones:
            self._open.pop(session.id, None)
            await session.aclose()
        await self._loader.aclose()


def _remove_files(path: Path) -> None:
    index = path.with_suffix(".index")
    for copy in (path, index, *path.parent.glob(f"{path.name}.torn-*")):
        copy.unlink(missing_ok=True)
    shutil.rmtree(path.with_suffix(""), ignore_errors=True)
