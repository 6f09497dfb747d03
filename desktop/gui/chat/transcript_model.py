"""A session's messages and parts, kept up to date by pages and events. No Qt.

The model says what changed, not what to draw. ``apply`` is cheap, also for
200 deltas a second: it keeps text; rows are made by ``rows``, once a frame,
for the entries that a front end has been told are changed.

Entries are the messages, loaded or not, and after them one more for what
belongs to the end of the transcript: that the run is going on, or was cut.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agent_sdk.events.wire import (
    Event,
    EventBody,
    MessageInfo,
    MessageUpdated,
    Part,
    PartDelta,
    PartUpdated,
    PermissionAskedEvent,
    PermissionRepliedEvent,
    ReasoningPart,
    SessionError,
    SessionStatus,
    TextPart,
    ToolPart,
    ToolPending,
    ToolRunning,
)
from desktop.bridge.messages import OpenedSession, TranscriptMessage, TranscriptPage
from desktop.gui.chat.rows import (
    BlankItem,
    Context,
    ErrorItem,
    LineItem,
    MessageState,
    PartState,
    Row,
    RowItem,
    RowKind,
    SummaryItem,
    WorkingItem,
    build,
    keep,
)
from desktop.gui.chat.run_state import RunState
from desktop.gui.chat.segments import Flow
from desktop.gui.chat.turns import is_human, summary_of

MAX_LIVE_OUTPUT = 64 * 1024
"""Characters of a running call's output that are kept, from the end."""


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
        self._forget()

    def _forget(self) -> None:
        self._session_id = ""
        self._seq = 0
        self._messages: list[MessageState | None] = []
        self._sizes: list[int] = []
        self._index: dict[str, int] = {}
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
        return len(self._messages)

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self._run.running

    @property
    def can_continue(self) -> bool:
        """Whether the last run was cut or failed and can be continued."""
        return self._run.can_continue

    def size(self, index: int) -> int:
        """Return the characters of a message, as far as they are known."""
        return self._sizes[index]

    def message(self, index: int) -> MessageState | None:
        """Return a message; None if it is not loaded."""
        return self._messages[index]

    def call(self, call_id: str) -> ToolPart | None:
        """Return the newest loaded call with this id."""
        for message in reversed(self._messages):
            if message is None:
                return None
            for state in message.parts.values():
                if isinstance(state.part, ToolPart) and state.part.call_id == call_id:
                    return state.part
        return None

    def prompt_near(self, index: int, step: int) -> int | None:
        """Return the next own prompt from an entry on, in the direction of ``step`` (±1).

        A message that is not loaded may be one, so that it is returned too
        when there is no loaded prompt before it.
        """
        at = index + step
        while 0 <= at < len(self._messages):
            message = self._messages[at]
            if message is None or is_human(message):
                return at
            at += step
        return None

    def take_changes(self) -> Changes:
        """Return what has changed since the last call."""
        changes, self._changes = self._changes, Changes()
        return changes

    # ------------------------------------------------------------- contents

    def clear(self) -> None:
        """Show no session."""
        self._forget()

    def open(self, opened: OpenedSession) -> None:
        """Show a session: its tail is loaded, of the rest only sizes are known.

        When it is the session that is shown already, what was loaded before
        the tail stays loaded.
        """
        kept = self._messages if opened.session.id == self._session_id else []
        self._forget()
        self._session_id = opened.session.id
        self._seq = opened.seq
        self._messages = [*kept[: opened.page.first]]
        self._messages += [None] * (opened.count - len(self._messages))
        self._sizes = [*opened.sizes[: opened.count]]
        self._sizes += [0] * (opened.count - len(self._sizes))
        self._index = {m.info.id: at for at, m in enumerate(kept) if m is not None}
        self._run = RunState(opened, now=self._clock())
        self.load(opened.page)
        if opened.error is not None:
            self._notice(ErrorItem(opened.error.code, opened.error.text, opened.error.hint))

    def load(self, page: TranscriptPage) -> None:
        """Take messages that were asked for; what is loaded already stays as it is."""
        for at, given in enumerate(page.messages, page.first):
            if at < len(self._messages) and self._messages[at] is None:
                self._messages[at] = _loaded(given)
                self._index[given.info.id] = at
                self._blank.pop(at, None)
                self._changes.entries.add(at)
        self._changes.entries.update(
            at
            for at in (page.first - 1, page.first + len(page.messages))
            if 0 <= at < len(self._messages)
        )

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
                self._message_updated(body.message)
            case PartUpdated():
                self._part_updated(body.message_id, body.part)
            case PartDelta():
                self._delta(body)
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

    # -------------------------------------------------------------- messages

    def _message_updated(self, info: MessageInfo) -> None:
        at = self._index.get(info.id)
        if at is None:
            self._append(MessageState(info))
            return
        message = self._messages[at]
        if message is None:
            return
        message.info = info
        if info.finished and info.part_ids:
            order = {part_id: n for n, part_id in enumerate(info.part_ids)}
            kept = sorted((p for p in message.parts if p in order), key=order.__getitem__)
            message.parts = {part_id: message.parts[part_id] for part_id in kept}
        for state in message.parts.values():
            if info.finished and state.flow is not None:
                state.flow.finish()
        self._changes.entries.add(at)

    def _append(self, message: MessageState) -> int:
        at = len(self._messages)
        self._messages.append(message)
        self._sizes.append(0)
        self._index[message.info.id] = at
        self._changes.appended += 1
        self._changes.entries.update((at, max(at - 1, 0)))
        self._end_changed()
        return at

    def _part_updated(self, message_id: str, part: Part) -> None:
        at = self._index.get(message_id)
        if at is None:
            info = MessageInfo(id=message_id, session_id=self._session_id, role="assistant")
            at = self._append(MessageState(info))
        message = self._messages[at]
        if message is None:
            return
        info = message.info
        if info.finished and info.part_ids and part.id not in info.part_ids:
            return
        state = message.parts.get(part.id)
        if state is None:
            state = message.parts[part.id] = PartState(part)
        self._set_part(state, part, finished=info.finished)
        self._changes.entries.add(at)
        self._end_changed()

    def _set_part(self, state: PartState, part: Part, *, finished: bool) -> None:
        if isinstance(part, TextPart):
            set_text(state, part.text, finished=finished)
        elif isinstance(part, ReasoningPart):
            state.live = ""
        elif isinstance(part, ToolPart):
            if isinstance(part.state, ToolRunning):
                state.live = part.state.output
                state.since = state.since or self._clock()
            elif not isinstance(part.state, ToolPending):
                state.live = ""
        state.part = part

    def _delta(self, delta: PartDelta) -> None:
        at = self._index.get(delta.message_id)
        message = self._messages[at] if at is not None else None
        state = message.parts.get(delta.part_id) if message is not None else None
        if state is None or at is None:
            return  # its snapshot will come, and hold all of it
        if state.flow is not None:
            state.flow.append(delta.text)
        elif isinstance(state.part, ToolPart):
            state.live = (state.live + delta.text)[-MAX_LIVE_OUTPUT:]
        else:
            state.live += delta.text
        self._changes.entries.add(at)

    # ---------------------------------------------------------------- session

    def _status(self, status: SessionStatus) -> None:
        took = self._run.take(status, now=self._clock())
        last = self._messages[-1] if self._messages else None
        if took and last is not None and last.info.role == "assistant":
            last.seconds = took
        self._recent_changed()

    def _error(self, error: SessionError) -> None:
        if error.level == "error":
            self._notice(ErrorItem(error.code, error.text))
        else:
            self._notice(LineItem("notice", error.text, error.level, error.code))

    def _notice(self, item: LineItem | ErrorItem) -> None:
        last = self._messages[-1] if self._messages else None
        (last.notices if last is not None else self._end_notices).append(item)
        self._changes.entries.add(max(len(self._messages) - 1, 0))
        self._end_changed()

    def _call_changed(self, call_id: str) -> None:
        for at in range(len(self._messages) - 1, -1, -1):
            message = self._messages[at]
            if message is None or not call_id:
                break
            if any(
                isinstance(s.part, ToolPart) and s.part.call_id == call_id
                for s in message.parts.values()
            ):
                self._changes.entries.add(at)
                break
        self._end_changed()

    def _recent_changed(self) -> None:
        """Whatever looks different while a run goes on: the messages of the last turn."""
        for at in range(len(self._messages) - 1, -1, -1):
            message = self._messages[at]
            if message is None:
                break
            self._changes.entries.add(at)
            if is_human(message):
                break
        self._end_changed()

    def _end_changed(self) -> None:
        self._changes.entries.add(len(self._messages))

    # ------------------------------------------------------------------- rows

    def rows(self, index: int) -> list[Row]:
        """Return the rows of an entry, made again; index ``count`` is the end."""
        if index == len(self._messages):
            return self._end()
        message = self._messages[index]
        if message is not None:
            return build(message, self._context(index, message))
        row = self._blank.get(index)
        if row is None:
            row = self._blank[index] = Row("blank", "blank", BlankItem(self._sizes[index]))
        return [row]

    def _context(self, index: int, message: MessageState) -> Context:
        last = index == len(self._messages) - 1
        following = None if last else self._messages[index + 1]
        ends = (last and not self.running) or (following is not None and is_human(following))
        summary: SummaryItem | None = None
        if ends and message.info.role == "assistant":
            summary = summary_of(self._messages, index)
        return Context(
            active=self._run.owns(message.info.id, last_turn=self._in_last_turn(index)),
            waiting=frozenset(self._run.waiting.values()),
            last=last,
            can_retry=self.can_continue,
            summary=summary,
        )

    def _in_last_turn(self, index: int) -> bool:
        if not self.running:
            return False
        for at in range(len(self._messages) - 1, index, -1):
            message = self._messages[at]
            if message is None or is_human(message):
                return False
        return True

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
        last = self._messages[-1] if self._messages else None
        if self.can_continue and not (last is not None and _shows_error(last)):
            yield ("interrupted", "line", LineItem("interrupted", level="warning"))


def set_text(state: PartState, text: str, *, finished: bool) -> None:
    """Bring the segments of a text to ``text``; what is there already stays."""
    flow = state.flow
    known = flow.text if flow is not None else ""
    if flow is None or not text.startswith(known):
        state.flow = Flow(text, finished=finished)
        return
    flow.append(text[len(known) :])
    if finished:
        flow.finish()


def _shows_error(message: MessageState) -> bool:
    failed = message.info.error not in ("", "aborted")
    return failed or any(isinstance(item, ErrorItem) for item in message.notices[-1:])


def _loaded(given: TranscriptMessage) -> MessageState:
    message = MessageState(given.info)
    for part in given.parts:
        state = message.parts[part.id] = PartState(part)
        if isinstance(part, TextPart):
            set_text(state, part.text, finished=given.info.finished)
        elif isinstance(part, ToolPart) and isinstance(part.state, ToolRunning):
            state.live = part.state.output
    return message
