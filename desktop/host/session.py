"""One session that is open in the host, and what can be said of it. Pure, but for its parts."""

import asyncio

from msgspec import Struct

from agent_sdk.host import AgentSession, CreatedSession, LastRun, SessionManager
from desktop.bridge.messages import ErrorInfo, ProjectInfo, QueuedPrompt, QueueState
from desktop.host.feed import Feed
from desktop.host.ports import PromptRow, SessionRecord

_TITLE_FROM_PROMPT = 80


class HostSession:
    """One session that is open in the host.

    Attributes:
        record: Its row in the index.
        project: The folder it belongs to.
        manager: Its history.
        feed: Its events on their way to the window.
        last_run: The newest run that its records tell of.
        stored: Whether it is in the index; a new session is not.
        created: The session at work, with its parts; None until it first runs.
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
        self.created: CreatedSession | None = None
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
    def agent(self) -> AgentSession | None:
        """The session at work; None until it runs for the first time."""
        return self.created.session if self.created is not None else None

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
        await self.feed.aclose()
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
