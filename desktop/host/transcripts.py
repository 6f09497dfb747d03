"""A session's transcript as the window has it, kept by the host.

It applies the very events that are sent, so that what it holds when a session
is opened equals what whoever watched has seen. Pure.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct, structs

from agent_sdk.events.wire import (
    EventBody,
    MessageInfo,
    MessageUpdated,
    Part,
    PartDelta,
    PartUpdated,
    ReasoningPart,
    TextPart,
    ToolPart,
    ToolRunning,
)
from agent_sdk.host import (
    AssistantRecord,
    Block,
    Change,
    LastRun,
    Projector,
    Record,
    Replay,
    RunRecord,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UserRecord,
    in_view,
)
from desktop.bridge.messages import TranscriptMessage, TranscriptPage

MAX_PAGE_MESSAGES = 50
MAX_PAGE_CHARACTERS = 256 * 1024
MAX_LIVE_OUTPUT = 64 * 1024
"""Characters of a running call's output that are kept, as in the SDK's snapshots."""


class _Message:
    """One message, with text that is still arriving kept in pieces."""

    __slots__ = ("info", "parts", "size", "tails")

    def __init__(self, info: MessageInfo) -> None:
        self.info = info
        self.parts: dict[str, Part] = {}
        self.tails: dict[str, list[str]] = {}
        self.size = -1

    def join(self, part_id: str) -> Part:
        """Return a part with all the text that has come for it."""
        part = self.parts[part_id]
        tail = self.tails.pop(part_id, None)
        if tail:
            part = self.parts[part_id] = _with_text(part, "".join(tail))
        return part

    def joined(self) -> tuple[Part, ...]:
        """Return all parts."""
        for part_id in tuple(self.tails):
            self.join(part_id)
        return tuple(self.parts.values())

    def characters(self) -> int:
        """Return the characters of text, counted once it does not change any more."""
        if self.size >= 0:
            return self.size
        size = sum(_length(part) for part in self.joined())
        if self.info.finished:
            self.size = size
        return size


class _Stored:
    """A message that is still in the records of its run only."""

    __slots__ = ("run", "size")

    def __init__(self, run: "StoredRun", size: int) -> None:
        self.run = run
        self.size = size

    def characters(self) -> int:
        """Return the characters of text, roughly."""
        return self.size


class StoredRun:
    """The records of one run, and how many messages they are.

    Opening a long session costs no more than counting: records become
    messages when somebody looks at them.

    Attributes:
        first: Index of its first message.
        count: How many it has.
    """

    def __init__(self, session_id: str, *, first: int) -> None:
        self.first = first
        self.count = 0
        self._session_id = session_id
        self._records: list[Record] = []

    def take(self, record: Record) -> int:
        """Take a record; return the characters of its message, or -1 if it is none."""
        self._records.append(record)
        if isinstance(record, AssistantRecord) or (
            isinstance(record, UserRecord)
            and not all(isinstance(block, ToolResultBlock) for block in record.message.content)
        ):
            size = sum(map(_block_length, record.message.content))
        else:
            return -1
        self.count += 1
        return size

    def changes(self) -> Iterator[tuple[Record, list[Change]]]:
        """Yield each record with what it changes."""
        replay, projector = Replay(), Projector(session_id=self._session_id)
        for record in self._records:
            yield record, [c for e in replay.events(record) for c in projector.fold(e, 0.0)]


class Transcript:
    """The messages of one session, in order."""

    def __init__(self) -> None:
        self._messages: list[_Message | _Stored] = []
        self._by_id: dict[str, _Message] = {}

    def store(self, run: StoredRun, size: int) -> None:
        """Put a message that lies in a run's records at the end."""
        self._messages.append(_Stored(run, size))

    def _read(self, first: int, end: int) -> None:
        """Make the messages of a range out of their records."""
        at = first
        while at < end:
            message = self._messages[at]
            if isinstance(message, _Stored):
                run = message.run
                made = Transcript()
                for _, changes in run.changes():
                    for change in changes:
                        made.apply(change.body)
                self._messages[run.first : run.first + run.count] = made._messages
                self._by_id.update(made._by_id)
            at += 1

    @property
    def count(self) -> int:
        """How many messages there are."""
        return len(self._messages)

    def apply(self, body: EventBody) -> None:
        """Take one event; what is not about messages changes nothing."""
        if isinstance(body, MessageUpdated):
            self._update(body.message)
        elif isinstance(body, PartUpdated):
            message = self._by_id.get(body.message_id)
            if message is not None:
                message.tails.pop(body.part.id, None)
                message.parts[body.part.id] = body.part
                message.size = -1
        elif isinstance(body, PartDelta):
            message = self._by_id.get(body.message_id)
            if message is not None and body.part_id in message.parts:
                message.tails.setdefault(body.part_id, []).append(body.text)

    def restore(self, message: TranscriptMessage) -> None:
        """Put a message from a page at the end."""
        self._update(structs.replace(message.info, finished=False))
        kept = self._by_id[message.info.id]
        kept.parts = {part.id: part for part in message.parts}
        kept.info = message.info

    def _update(self, info: MessageInfo) -> None:
        message = self._by_id.get(info.id)
        if message is None:
            message = self._by_id[info.id] = _Message(info)
            self._messages.append(message)
        message.info = info
        if not info.finished or info.role == "user":
            return
        message.joined()
        message.parts = {p: message.parts[p] for p in info.part_ids if p in message.parts}
        message.size = -1
        if not info.part_ids:  # an answer of which nothing came
            self._messages.remove(message)
            del self._by_id[info.id]

    def part(self, message_id: str, part_id: str) -> Part | None:
        """Return a part as it is now; None if it has gone."""
        message = self._by_id.get(message_id)
        return message.join(part_id) if message and part_id in message.parts else None

    def sizes(self) -> tuple[int, ...]:
        """Return the characters of text of each message."""
        return tuple(message.characters() for message in self._messages)

    def page(self, first: int, count: int) -> TranscriptPage:
        """Return at most ``count`` messages from ``first``, as much as fits a page.

        At least one is returned if there is one.
        """
        first = max(0, min(first, self.count))
        end = min(first + max(count, 0), self.count)
        found: list[TranscriptMessage] = []
        size = 0
        for at in range(first, end):
            size += self._messages[at].characters()
            if found and size > MAX_PAGE_CHARACTERS:
                break
            self._read(at, at + 1)
            message = self._messages[at]
            if isinstance(message, _Stored):  # pragma: no cover - it has just been read
                break
            found.append(TranscriptMessage(info=message.info, parts=message.joined()))
        return TranscriptPage(first=first, messages=tuple(found))

    def tail(self) -> TranscriptPage:
        """Return the last messages, as many as fit a page."""
        first, size = self.count, 0
        while first > 0 and self.count - first < MAX_PAGE_MESSAGES:
            self._read(first - 1, first)
            size += self._messages[first - 1].characters()
            if size > MAX_PAGE_CHARACTERS and first < self.count:
                break
            first -= 1
        return self.page(first, MAX_PAGE_MESSAGES)


class Replayed(Struct, frozen=True, kw_only=True):
    """What a session's records come to.

    Attributes:
        transcript: All messages.
        last_run: The newest run; None before the first.
        missing: What the event log has not been told, the log's newest record
            being known.
        delivered: Ids of the prompts that user records deliver, with their records.
    """

    transcript: Transcript
    last_run: LastRun | None
    missing: tuple[Change, ...]
    delivered: dict[str, str]


def replayed(session_id: str, records: Iterable[Record], *, logged: str) -> Replayed:
    """Return the transcript of a session's records.

    Args:
        session_id: The session.
        records: All of them, in order.
        logged: The record of the newest event in the log; empty if there is none.
    """
    transcript, replay = Transcript(), Replay()
    delivered: dict[str, str] = {}
    every = list(records)
    for record in every:
        if isinstance(record, UserRecord) and record.origin is not None and record.origin.id:
            delivered[record.origin.id] = record.uuid
    runs = [StoredRun(session_id, first=0)]
    told = -1  # the run that holds the newest record that was logged
    for record in in_view(every):
        if isinstance(record, RunRecord):
            replay.events(record)  # takes note of how it ended
            if record.event == "start":
                runs.append(StoredRun(session_id, first=transcript.count))
        size = runs[-1].take(record)
        if size >= 0:
            transcript.store(runs[-1], size)
        if record.uuid == logged:
            told = len(runs) - 1
    return Replayed(
        transcript=transcript,
        last_run=replay.last_run,
        missing=_missing(runs[told:], logged) if told >= 0 else (),
        delivered=delivered,
    )


def _missing(runs: Iterable[StoredRun], logged: str) -> tuple[Change, ...]:
    """Return what the records behind the logged one change.

    Beginnings and ends of runs are left out: they are told of when they happen.
    """
    missing: list[Change] = []
    behind = False
    for run in runs:
        for record, changes in run.changes():
            if behind and any(change.record for change in changes):
                missing += changes
            behind = behind or record.uuid == logged
    return tuple(missing)


def _with_text(part: Part, text: str) -> Part:
    if isinstance(part, TextPart | ReasoningPart):
        return structs.replace(part, text=part.text + text)
    if isinstance(part, ToolPart) and isinstance(part.state, ToolRunning):
        output = (part.state.output + text)[-MAX_LIVE_OUTPUT:]
        return structs.replace(part, state=structs.replace(part.state, output=output))
    return part


def _block_length(block: Block) -> int:
    if isinstance(block, TextBlock):
        return len(block.text)
    if isinstance(block, ThinkingBlock):
        return len(block.thinking)
    return _TOOL_LENGTH


_TOOL_LENGTH = 80
"""What a tool's card counts for, beside its output."""


def _length(part: Part) -> int:
    if isinstance(part, TextPart | ReasoningPart):
        return len(part.text)
    if isinstance(part, ToolPart):
        return len(getattr(part.state, "output", "")) + _TOOL_LENGTH
    return 0
