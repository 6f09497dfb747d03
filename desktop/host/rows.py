"""Rows of the side bar and queues: durable in the index, and told to the window."""

from collections.abc import Mapping

from msgspec import structs

from desktop.bridge.messages import QueueState, SessionRow, SessionsState
from desktop.host.permissions import Questions
from desktop.host.ports import Database, SessionRecord
from desktop.host.session import HostSession
from desktop.host.status import Topics


class Rows:
    """What the side bar shows of sessions.

    Args:
        database: The index, and the projects that are open.
        topics: Tells the window.
        questions: Knows what waits for an answer.
        opened: The sessions that are open in the host, by id; a live view.
    """

    def __init__(
        self,
        *,
        database: Database,
        topics: Topics,
        questions: Questions,
        opened: Mapping[str, HostSession],
    ) -> None:
        self._database = database
        self._topics = topics
        self._questions = questions
        self._opened = opened

    async def state(self) -> list[SessionsState]:
        """Return all rows of the side bar."""
        projects = {project.id for project in await self._database.projects.list()}
        rows = [
            self.row(self._opened[record.id].record if record.id in self._opened else record)
            for record in await self._database.sessions.rows()
            if record.project_id in projects
        ]
        return [SessionsState(rows=tuple(rows), reset=True)]

    async def queues(self) -> list[QueueState]:
        """Return the queues that hold something."""
        states = [session.queue_state() for session in self._opened.values()]
        return [state for state in states if state.queued]

    def row(self, record: SessionRecord) -> SessionRow:
        """Return a session's row in the side bar."""
        waiting = record.status in ("running", "retry") and self._questions.waits(record.id)
        opened = self._opened.get(record.id)
        return SessionRow(
            id=record.id,
            project_id=record.project_id,
            title=record.title,
            status="waiting" if waiting else record.status,
            last_used=record.last_used,
            unread=record.unread,
            problem=opened.problem if opened else "",
        )

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

    def publish_gone(self, session_id: str) -> None:
        """Tell the window that a session has been deleted."""
        self._topics.publish("sessions", SessionsState(removed=(session_id,)))
        self._topics.publish("queue", QueueState(session_id=session_id))
