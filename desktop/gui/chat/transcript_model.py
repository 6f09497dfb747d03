"""A session's messages and parts, kept up to date by pages and events. No Qt.

The model says what changed, not what to draw. ``apply`` is cheap, also for
200 deltas a second: it keeps text; rows are made by ``rows``, once a frame,
for the entries that a front end has been told are changed.

Entries are the messages, loaded or not, and after them one more for what
belongs to the end of the transcript: that the run is going on, or was cut.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from agent_sdk.events.wire import (
    Event,
    EventBody,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    PermissionAskedEvent,
    PermissionRepliedEvent,
    SessionError,
    SessionStatus,
    ToolPart,
)
from desktop.bridge.messages import OpenedSession, TranscriptPage
from desktop.gui.chat.messages_store import MessagesStore
from desktop.gui.chat.rows import (
    BlankItem,
    Context,
    ErrorItem,
    LineItem,
    MessageState,
    Row,
    RowItem,
    RowKind,
    SummaryItem,
    WorkingItem,
    build,
    keep,
)
from desktop.gui.chat.run_state import RunState
from desktop.gui.chat.turns import is_human, summary_of


@dataclass
class Changes:
    """What has changed since it was last asked.

    Attributes:
        reset: Everything; the rest means nothing then.
        entries: Indices of entries whose rows must be made again.
        appended: How many messages were added at the end.
    """

    reset: bool = False
    entries: set[int] = field(default_factory=set)
    appended: int = 0

    def __bool__(self) -> bool:
        return self.reset or bool(self.entries) or self.appended > 0


class TranscriptModel:
    """One session's transcript.

    Args:
        clock: Seconds, monotonic; for how long things take.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._store = MessagesStore(clock=clock)
        self._forget()

    def _forget(self) -> None:
        self._session_id = ""
        self._seq = 0
        self._blank: dict[int, Row] = {}
        self._end_rows: list[Row] = []
        self._end_notices: list[LineItem | ErrorItem] = []
        self._run = RunState()
        self._changes = Changes(reset=True)

    # ---------------------------------------------------------------- facts

    @property
    def session_id(self) -> str:
        """The session shown; empty if none."""
        return self._session_id

    @property
    def count(self) -> int:
        """How many messages there are, loaded or not."""
        return len(self._store)

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self._run.running

    @property
    def sizes(self) -> Sequence[int]:
        """Characters of each message, as far as they are known."""
        return self._store.sizes

    def loaded(self) -> list[int]:
        """Return the indices of the messages that are loaded, in order."""
        return self._store.loaded()

    def message(self, index: int) -> MessageState | None:
        """Return a message; None if it is not loaded."""
        return self._store[index]

    def call(self, call_id: str) -> ToolPart | None:
        """Return the newest loaded call with this id."""
        found = self._store.call(call_id)
        return found[1] if found is not None else None

    def prompt_near(self, index: int, step: int) -> int | None:
        """Return the next own prompt from an entry on, in the direction of ``step`` (±1)."""
        return self._store.prompt_near(index, step)

    def take_changes(self) -> Changes:
        """Return what has changed since the last call."""
        changes, self._changes = self._changes, Changes()
        return changes

    # ------------------------------------------------------------- contents

    def clear(self) -> None:
        """Show no session."""
        self._store.begin(0, ())
        self._forget()

    def open(self, opened: OpenedSession) -> None:
        """Show a session: its tail is loaded, of the rest only sizes are known.

        When it is the session that is shown already, what was loaded before
        the tail stays loaded.
        """
        same = opened.session.id == self._session_id
        self._forget()
        self._session_id = opened.session.id
        self._seq = opened.seq
        keep = opened.page.first if same else 0
        self._store.begin(opened.count, opened.sizes, keep=keep)
        self._run = RunState(opened, now=self._clock())
        self.load(opened.page)
        if opened.error is not None:
            self._notice(ErrorItem(opened.error.code, opened.error.text, opened.error.hint))

    def load(self, page: TranscriptPage) -> None:
        """Take messages that were asked for; what is loaded already stays as it is."""
        for at in self._store.load(page):
            self._blank.pop(at, None)
            self._changes.entries.add(at)

    def set_waiting(self, asked: Iterable[PermissionAskedEvent]) -> None:
        """Take the questions that wait for an answer; those of other sessions do not count."""
        mine = [each for each in asked if each.session_id == self._session_id]
        for call_id in self._run.set_waiting(mine):
            self._call_changed(call_id)

    def add_error(self, error: ErrorItem) -> None:
        """Show an error of the window's own at the end."""
        self._notice(error)

    def apply(self, event: Event) -> None:
        """Take an event; one that is known already, or of another session, changes nothing."""
        if event.session_id != self._session_id or (event.seq and event.seq <= self._seq):
            return
        self._seq = event.seq or self._seq
        self._body(event.body)

    def _body(self, body: EventBody) -> None:
        match body:
            case MessageUpdated():
                self._changed(self._store.updated(body.message))
            case PartUpdated():
                found = self._store.part_updated(body.message_id, body.part, self._session_id)
                self._changed(found)
            case PartDelta():
                at = self._store.delta(body)
                if at is not None:
                    self._changes.entries.add(at)
            case SessionStatus():
                self._status(body)
            case SessionError():
                self._error(body)
            case PermissionAskedEvent():
                self._run.waiting[body.request_id] = body.call_id
                self._call_changed(body.call_id)
            case PermissionRepliedEvent():
                self._call_changed(self._run.waiting.pop(body.request_id, ""))
            case _:
                pass  # titles, todos and files are shown elsewhere

    def _changed(self, found: tuple[int, bool]) -> None:
        at, new = found
        self._changes.entries.add(at)
        if new:
            self._changes.appended += 1
            self._changes.entries.add(max(at - 1, 0))
        self._end_changed()

    def _status(self, status: SessionStatus) -> None:
        took = self._run.take(status, now=self._clock())
        last = self._store.last
        if took and last is not None and last.info.role == "assistant":
            last.seconds = took
        self._recent_changed()

    def _error(self, error: SessionError) -> None:
        if error.level == "error":
            self._notice(ErrorItem(error.code, error.text))
        else:
            self._notice(LineItem("notice", error.text, error.level, error.code))

    def _notice(self, item: LineItem | ErrorItem) -> None:
        last = self._store.last
        (last.notices if last is not None else self._end_notices).append(item)
        self._changes.entries.add(max(self.count - 1, 0))
        self._end_changed()

    def _call_changed(self, call_id: str) -> None:
        found = self._store.call(call_id)
        if found is not None:
            self._changes.entries.add(found[0])
        self._end_changed()

    def _recent_changed(self) -> None:
        """Whatever looks different while a run goes on: the messages of the last turn."""
        self._changes.entries.update(range(self._store.last_turn(), self.count))
        self._end_changed()

    def _end_changed(self) -> None:
        self._changes.entries.add(self.count)

    # ------------------------------------------------------------------- rows

    def rows(self, index: int) -> list[Row]:
        """Return the rows of an entry, made again; index ``count`` is the end."""
        if index == self.count:
            return self._end()
        message = self._store[index]
        if message is not None:
            return build(message, self._context(index, message))
        row = self._blank.get(index)
        if row is None:
            row = self._blank[index] = Row("blank", "blank", BlankItem(self._store.sizes[index]))
        return [row]

    def _context(self, index: int, message: MessageState) -> Context:
        last = index == self.count - 1
        following = None if last else self._store[index + 1]
        ends = (last and not self.running) or (following is not None and is_human(following))
        summary: SummaryItem | None = None
        if ends and message.info.role == "assistant":
            summary = summary_of(self._store, index)
        return Context(
            active=self._run.owns(
                message.info.id, last_turn=self.running and index >= self._store.last_turn()
            ),
            waiting=frozenset(self._run.waiting.values()),
            last=last,
            can_retry=self._run.can_continue,
            summary=summary,
        )

    def _end(self) -> list[Row]:
        before = {row.key: row for row in self._end_rows}
        self._end_rows = [
            keep(before, Row(key, kind, item), None) for key, kind, item in self._end_specs()
        ]
        return self._end_rows

    def _end_specs(self) -> Iterable[tuple[str, RowKind, RowItem]]:
        for at, notice in enumerate(self._end_notices):
            kind: RowKind = "error" if isinstance(notice, ErrorItem) else "line"
            yield (f"notice/{at}", kind, notice)
        if self.running and not self._run.waiting:
            yield ("working", "working", WorkingItem(self._run.since, self._run.retry))
        last = self._store.last
        if self._run.can_continue and not (last is not None and _shows_error(last)):
            yield ("interrupted", "line", LineItem("interrupted", level="warning"))


def _shows_error(message: MessageState) -> bool:
    failed = message.info.error not in ("", "aborted")
    return failed or any(isinstance(item, ErrorItem) for item in message.notices[-1:])
