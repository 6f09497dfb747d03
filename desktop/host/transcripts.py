"""A session's transcript as the window has it, kept by the host.

It applies the very events that are sent, so that what it holds when a session
is opened equals what whoever watched has seen. Pure.
"""

from collections.abc import Iterable

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
from agent_sdk.host import Change, LastRun, Projector, Record, Replay, UserRecord, in_view
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


class Transcript:
    """The messages of one session, in order."""

    def __init__(self) -> None:
        self._messages: list[_Message] = []
        self._by_id: dict[str, _Message] = {}

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
        found: list[TranscriptMessage] = []
        size = 0
        for message in self._messages[first : first + max(count, 0)]:
            size += message.characters()
            if found and size > MAX_PAGE_CHARACTERS:
                break
            found.append(TranscriptMessage(info=message.info, parts=message.joined()))
        return TranscriptPage(first=first, messages=tuple(found))

    def tail(self) -> TranscriptPage:
        """Return the last messages, as many as fit a page."""
        first, size = self.count, 0
        while first > 0 and self.count - first < MAX_PAGE_MESSAGES:
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
    projector = Projector(session_id=session_id)
    missing: list[Change] = []
    delivered: dict[str, str] = {}
    behind = False
    every = list(records)
    for record in every:
        if isinstance(record, UserRecord) and record.origin is not None and record.origin.id:
            delivered[record.origin.id] = record.uuid
    for record in in_view(every):
        for event in replay.events(record):
            changes = projector.fold(event, 0.0)
            for change in changes:
                transcript.apply(change.body)
            if behind and any(change.record for change in changes):
                missing += changes  # beginnings and ends of runs are told of when they happen
        behind = behind or record.uuid == logged
    return Replayed(
        transcript=transcript,
        last_run=replay.last_run,
        missing=tuple(missing) if logged else (),
        delivered=delivered,
    )


def _with_text(part: Part, text: str) -> Part:
    if isinstance(part, TextPart | ReasoningPart):
        return structs.replace(part, text=part.text + text)
    if isinstance(part, ToolPart) and isinstance(part.state, ToolRunning):
        output = (part.state.output + text)[-MAX_LIVE_OUTPUT:]
        return structs.replace(part, state=structs.replace(part.state, output=output))
    return part


def _length(part: Part) -> int:
    if isinstance(part, TextPart | ReasoningPart):
        return len(part.text)
    if isinstance(part, ToolPart):
        return len(getattr(part.state, "output", "")) + 80
    return 0
