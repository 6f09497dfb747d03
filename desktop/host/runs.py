"""Runs: prompts from their acceptance to the end of what they set going.

A prompt is durable before it is acknowledged, and delivered by the user
record that carries its id: a crash between the two delivers it once. One run
a session, any number of sessions at once.
"""

import logging
from collections.abc import Awaitable, Callable

from agent_sdk.events.wire import SessionError
from agent_sdk.host import AgentSession, Clock, InvalidInput, Origin, RunEnded, TaskOwner, ZpiError
from desktop.bridge.protocol import PromptTaken, SubmitPrompt
from desktop.host.agents import Agents
from desktop.host.errors import SessionBusy, UnknownThing
from desktop.host.permissions import Questions
from desktop.host.ports import PromptKind, PromptRow, Prompts
from desktop.host.session import HostSession
from desktop.host.sessions import Sessions

logger = logging.getLogger("zpi.host.runs")

STOPPED = "stopped by the user"
CLOSED = "ZPI was closed"


class Runs:
    """Starts, queues and stops the runs of all sessions.

    Args:
        sessions: The sessions.
        agents: Makes them able to run.
        prompts: Where prompts are kept until they are delivered.
        questions: What runs have asked.
        clock: Source of time.
    """

    def __init__(
        self,
        *,
        sessions: Sessions,
        agents: Agents,
        prompts: Prompts,
        questions: Questions,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._agents = agents
        self._prompts = prompts
        self._questions = questions
        self._clock = clock
        self._tasks = TaskOwner(name="runs")
        self._closing = False

    # ------------------------------------------------------------------ prompts

    async def submit(self, session: HostSession, command: SubmitPrompt) -> PromptTaken:
        """Take a prompt: it runs, is queued, or is steered into the run.

        Raises:
            InvalidInput: If it is empty.
            ConfigurationError: If there is no usable model.
            StorageError: If it cannot be stored; it is not taken then.
        """
        known = session.taken.get(command.prompt_id)
        if known is not None:
            return _taken(command.prompt_id, known)
        if not command.text.strip():
            raise InvalidInput("The prompt is empty.", hint="Say what shall be done.")
        agent = await self._ready(session)
        if session.running:
            kind: PromptKind = "steered" if command.follow_up == "steer" else "queued"
            row, new = await self._store(session, command, kind=kind)
        else:
            row, new = await self._store_first(session, command)
        if not new:
            return _taken(row.id, "running" if row.record else "queued")
        session.queue.append(row)
        # A run may have ended while the prompt was being stored.
        became: str = "running" if not session.running else row.kind
        if not session.running:
            self._start(session, lambda: self._prompt(session, row))
        elif row.kind == "steered":
            session.handed.add(row.id)
            agent.steer(row.text, origin_id=row.id)
        session.taken[row.id] = became
        self._sessions.rows.publish_queue(session)
        return _taken(row.id, became)

    async def _store(
        self, session: HostSession, command: SubmitPrompt, *, kind: PromptKind
    ) -> tuple[PromptRow, bool]:
        return await self._prompts.add(session.id, command.prompt_id, text=command.text, kind=kind)

    async def _store_first(
        self, session: HostSession, command: SubmitPrompt
    ) -> tuple[PromptRow, bool]:
        """Store a prompt that runs at once; the row says so before it is acknowledged."""
        status = session.record.status
        await self._sessions.store(session, prompt=command.text)
        await self._note_running(session)
        try:
            row, new = await self._store(session, command, kind="human")
        except BaseException:
            await self._sessions.rows.note(session, status=status)
            raise
        if not new:
            await self._sessions.rows.note(session, status=status)
        return row, new

    async def _note_running(self, session: HostSession) -> None:
        await self._sessions.rows.note(
            session, status="running", last_used=self._clock.iso(), error_code="", error=""
        )

    async def remove_queued(self, session: HostSession, prompt_id: str) -> str:
        """Take a prompt out of the queue and return its text.

        Raises:
            UnknownThing: If it does not wait (any more).
        """
        row = next((r for r in session.queue if r.id == prompt_id), None)
        if row is None or row.id in session.handed:
            raise UnknownThing("That prompt does not wait any more.", hint="It is running.")
        session.queue.remove(row)
        text = await self._prompts.remove(prompt_id)
        session.paused = session.paused and bool(session.queue)
        self._sessions.rows.publish_queue(session)
        return row.text if text is None else text

    async def delivered(self, session: HostSession, prompt_id: str, record: str) -> None:
        """Take note that a record delivers a prompt."""
        await self._prompts.mark_delivered(prompt_id, record)
        left = [row for row in session.queue if row.id != prompt_id]
        if len(left) < len(session.queue):
            session.queue = left
            session.handed.discard(prompt_id)
            self._sessions.rows.publish_queue(session)

    # ------------------------------------------------------------ going on, stop

    async def resume_queue(self, session: HostSession) -> None:
        """Go on with a queue that was paused."""
        session.paused = False
        if not session.running and session.queue:
            await self._ready(session)
            await self._note_running(session)
            row = session.queue[0]
            self._start(session, lambda: self._prompt(session, row))
        self._sessions.rows.publish_queue(session)

    async def go_on(self, session: HostSession) -> None:
        """Go on after a run that was cut or failed.

        Raises:
            SessionBusy: If a run is going on.
            InvalidInput: If there is nothing to go on with.
        """
        if session.running:
            raise SessionBusy("The session is running already.")
        agent = await self._ready(session)
        if not session.manager.state.messages:
            raise InvalidInput("There is nothing to go on with.", hint="Send a prompt.")
        await self._note_running(session)
        self._start(session, agent.go_on)

    def interrupt(self, session: HostSession) -> None:
        """Stop the run; its queue is paused."""
        if session.running:
            session.stopping = True
            if session.agent is not None:
                session.agent.abort(STOPPED)

    async def aclose(self) -> None:
        """Stop all runs, as cut, and wait for their ends to be stored."""
        self._closing = True
        self._questions.close()
        for session in self._sessions.open_ones:
            if session.running:
                session.stopping = True
                if session.agent is not None:
                    session.agent.abort(CLOSED)
        await self._tasks.drain()

    # --------------------------------------------------------------------- work

    async def _ready(self, session: HostSession) -> AgentSession:
        if session.running and session.agent is not None:
            return session.agent
        return await self._agents.ready(session)

    def _start(self, session: HostSession, run: Callable[[], Awaitable[RunEnded | None]]) -> None:
        session.running = True
        session.stopping = False
        self._questions.forget_expired(session.id)
        self._tasks.start(self._work(session, run), name=f"run {session.id[:8]}")

    async def _prompt(self, session: HostSession, row: PromptRow) -> RunEnded | None:
        agent = session.agent
        if agent is None or session.stopping:
            return None
        session.handed.add(row.id)
        return await agent.prompt(row.text, origin=Origin(row.kind, row.id))

    async def _work(
        self, session: HostSession, run: Callable[[], Awaitable[RunEnded | None]]
    ) -> None:
        """Make one run after the other until the queue is empty or must wait."""
        while True:
            end = await self._one(session, run)
            row = await self._ended(session, end)
            if row is None:
                return
            run = self._next(session, row)

    def _next(
        self, session: HostSession, row: PromptRow
    ) -> Callable[[], Awaitable[RunEnded | None]]:
        async def run() -> RunEnded | None:
            await self._agents.ready(session)
            return await self._prompt(session, row)

        return run

    async def _one(
        self, session: HostSession, run: Callable[[], Awaitable[RunEnded | None]]
    ) -> RunEnded | None:
        """Make one run; failures of any kind become part of how it ended."""
        error: ZpiError | None = None
        try:
            if session.record.status != "running":
                await self._note_running(session)
            for notice in self._agents.notices(session):
                session.feed.say(
                    SessionError(
                        session_id=session.id,
                        code=notice.code,
                        text=notice.text,
                        level=notice.level,
                    )
                )
            return await run()
        except ZpiError as failure:
            error = failure
        except Exception:
            logger.exception("a run of session %s failed", session.id)
            error = ZpiError("The run failed unexpectedly.", hint="ZPI's log says more.")
        session.feed.say(SessionError(session_id=session.id, code=error.code, text=str(error)))
        return RunEnded(run_id="", status="error", turns=0, error_code=error.code, error=str(error))

    async def _ended(self, session: HostSession, end: RunEnded | None) -> PromptRow | None:
        """Settle how a run ended; return the prompt that follows at once, if one does."""
        await session.feed.drain()
        if session.agent is not None:
            session.agent.take_back()  # what was steered too late is queued: its row says so
        failed = end is not None and end.status == "error"
        stopped = end is None or end.status == "aborted"
        status = "failed" if failed else "interrupted" if stopped and self._closing else "idle"
        error = end if end is not None and failed else None
        try:
            await self._sessions.rows.note(
                session,
                status=status,
                run_id="",
                last_used=self._clock.iso(),
                unread=not session.feed.shown,
                error_code=error.error_code if error else "",
                error=error.error if error else "",
            )
        except ZpiError as problem:
            logger.warning("the end of a run could not be noted: %s", problem)
        # Nothing is awaited from here on: whoever sends a prompt now must find it settled.
        session.handed.clear()
        session.paused = bool(session.queue) and (session.paused or failed or stopped)
        follows = bool(session.queue) and not session.paused and not self._closing
        session.running = follows
        session.stopping = False
        self._sessions.rows.publish_queue(session)
        return session.queue[0] if follows else None


def _taken(prompt_id: str, became: str) -> PromptTaken:
    match became:
        case "queued" | "steered":
            return PromptTaken(prompt_id=prompt_id, became=became)
        case _:
            return PromptTaken(prompt_id=prompt_id, became="running")
