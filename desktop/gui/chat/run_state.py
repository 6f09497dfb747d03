"""Whether a session's run goes on, since when, and who waits for an answer. Pure."""

from collections.abc import Iterable

from agent_sdk.events.wire import PermissionAskedEvent, SessionStatus
from desktop.bridge.messages import OpenedSession

_CUT = ("error", "interrupted")
"""Ends of a run after which it can be continued."""


class RunState:
    """The run of the session that is shown.

    Attributes:
        running: Whether it goes on.
        run_id: Which it is; empty if not known.
        since: When it was first seen to go on, on a monotonic clock.
        retry: Why a request is made again, while it waits for that.
        waiting: Calls that someone is asked about, by the id of the question.
    """

    def __init__(self, opened: OpenedSession | None = None, *, now: float = 0.0) -> None:
        self.running = opened is not None and opened.row.status in ("running", "retry", "waiting")
        self.run_id = ""
        self.since = now
        self.retry = ""
        self.waiting: dict[str, str] = {}
        self._continuable = opened is not None and opened.can_continue

    @property
    def can_continue(self) -> bool:
        """Whether the last run was cut or failed and can be continued."""
        return self._continuable and not self.running

    def take(self, status: SessionStatus, *, now: float) -> float:
        """Take a status; return the seconds that a run took which has just ended, else 0."""
        running = status.status != "idle"
        ended = self.running and not running
        if running and not self.running:
            self.since = now
            self._continuable = False
        if ended:
            self._continuable = status.reason in _CUT
        self.run_id = status.run_id if running else ""
        self.retry = status.reason if status.status == "retry" else ""
        self.running = running
        return now - self.since if ended else 0.0

    def set_waiting(self, asked: Iterable[PermissionAskedEvent]) -> set[str]:
        """Take all questions that wait; return the calls for which that changes something."""
        waiting = {each.request_id: each.call_id for each in asked}
        changed = {*waiting.values()} ^ {*self.waiting.values()}
        self.waiting = waiting
        return changed

    def owns(self, message_id: str, *, last_turn: bool) -> bool:
        """Return whether a message is of the run that goes on."""
        if not self.running:
            return False
        return message_id.startswith(f"{self.run_id}.") if self.run_id else last_turn
