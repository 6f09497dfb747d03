"""The loop's events folded into sessions, messages and parts.

A pure fold: it takes an event and the time and returns what changed. It is
fed live, and again from a stored history, and both give the same messages
and parts. Deltas are joined until 2 KiB or 33 ms have gathered, since a
front end cannot show more and every frame costs something; an owner that
streams calls ``flush`` when ``due`` says so.
"""

from collections.abc import Sequence
from typing import TypeAlias, assert_never

from msgspec import structs

from agent_sdk.events.call_parts import CallParts, Change
from agent_sdk.events.wire import (
    CompactionPart,
    FilePart,
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
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolPart,
    ToolPending,
    ToolRunning,
)
from agent_sdk.loop.types import (
    AgentEvent,
    AssistantMessageAdded,
    CompactionEnded,
    CompactionStarted,
    Notice,
    PermissionAsked,
    PermissionReplied,
    RunEnded,
    RunStarted,
    StreamProgress,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessageAdded,
)
from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamRetry,
    StreamStart,
    StreamWaiting,
    TextDelta,
    ThinkingDelta,
)
from agent_sdk.providers.messages import (
    Block,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

JOIN_BYTES = 2048
JOIN_SECONDS = 0.033


_Durable: TypeAlias = (
    RunStarted
    | TurnStarted
    | UserMessageAdded
    | AssistantMessageAdded
    | ToolStarted
    | ToolFinished
    | PermissionAsked
    | PermissionReplied
    | Notice
    | CompactionStarted
    | CompactionEnded
    | TurnEnded
    | RunEnded
)


class _Pending:
    """Deltas of one part that wait to be sent together."""

    __slots__ = ("message_id", "part_id", "parts", "since", "size")

    def __init__(self) -> None:
        self.message_id = ""
        self.part_id = ""
        self.parts: list[str] = []
        self.size = 0
        self.since = 0.0


class Projector:
    """Folds the events of one session.

    Args:
        session_id: The session.
    """

    def __init__(self, *, session_id: str) -> None:
        self._session_id = session_id
        self._run_id = ""
        self._running = False
        self._turn = 0
        self._message: MessageInfo | None = None
        self._model = ""
        self._calls = CallParts(session_id=session_id)
        self._pending = _Pending()

    # ----------------------------------------------------------------- the fold

    def fold(self, event: AgentEvent, now: float) -> list[Change]:
        """Take one event and return what changed.

        Args:
            event: The event.
            now: Seconds on a monotonic clock, to join deltas by.
        """
        if isinstance(event, StreamProgress):
            return self._stream(event.event, now)
        if isinstance(event, ToolProgress):
            return self._tool_progress(event, now)
        return self.flush() + self._durable(event)

    def _durable(self, event: _Durable) -> list[Change]:
        match event:
            case RunStarted() | TurnStarted() | TurnEnded() | RunEnded():
                return self._boundary(event)
            case UserMessageAdded():
                return self._user(event)
            case AssistantMessageAdded():
                return self._assistant(event)
            case ToolStarted():
                return self._calls.change(event.call, ToolRunning(input=event.call.input))
            case ToolFinished():
                return self._calls.finish(event)
            case PermissionAsked() | PermissionReplied():
                return [_permission(event, self._session_id)]
            case CompactionStarted() | CompactionEnded():
                return self._compaction(event)
            case Notice():
                body = SessionError(
                    session_id=self._session_id,
                    code=event.code,
                    text=event.text,
                    level=event.level,
                )
                return [Change(body)]
            case _:
                assert_never(event)

    def _boundary(self, event: RunStarted | TurnStarted | TurnEnded | RunEnded) -> list[Change]:
        match event:
            case RunStarted():
                self._run_id, self._turn, self._running = event.run_id, 0, True
                return [self._status("running")]
            case TurnStarted():
                changes = self._abandon()
                self._turn = event.turn
                return changes
            case RunEnded():
                return self._run_ended(event)
            case TurnEnded():
                return []
            case _:
                assert_never(event)

    # ------------------------------------------------------------------- deltas

    @property
    def due(self) -> float | None:
        """When joined deltas should be flushed, on the clock of ``fold``; None if none wait."""
        return self._pending.since + JOIN_SECONDS if self._pending.parts else None

    def flush(self) -> list[Change]:
        """Return the deltas that wait, as one event."""
        pending = self._pending
        if not pending.parts:
            return []
        body = PartDelta(
            session_id=self._session_id,
            message_id=pending.message_id,
            part_id=pending.part_id,
            text="".join(pending.parts),
        )
        pending.parts, pending.size = [], 0
        return [Change(body)]

    def _join(self, message_id: str, part_id: str, *, text: str, now: float) -> list[Change]:
        pending = self._pending
        changes = self.flush() if pending.part_id != part_id else []
        if not pending.parts:
            pending.since = now
        pending.message_id, pending.part_id = message_id, part_id
        pending.parts.append(text)
        pending.size += len(text)
        if pending.size >= JOIN_BYTES or now - pending.since >= JOIN_SECONDS:
            changes += self.flush()
        return changes

    def _stream(self, event: StreamEvent, now: float) -> list[Change]:
        match event:
            case TextDelta() | ThinkingDelta():
                message_id = self._message_id()
                part_id = f"{message_id}.{event.index}"
                return self._join(message_id, part_id, text=event.text, now=now)
            case BlockStart():
                changes = self.flush() + self._begin()
                part = _starting_part(f"{self._message_id()}.{event.index}", event)
                if isinstance(part, ToolPart):
                    self._calls.begin(self._message_id(), part)
                return [*changes, self._part(self._message_id(), part)]
            case BlockEnd():
                part_id = f"{self._message_id()}.{event.index}"
                return self.flush() + self._blocks(self._message_id(), [(part_id, event.block)])
            case StreamStart():
                return self._begin()
            case StreamRetry():
                return [self._status("retry", reason=event.error.message)]
            case ArgsDelta() | StreamWaiting() | StreamDone() | StreamFailed():
                return []
            case _:
                assert_never(event)

    # ----------------------------------------------------------------- messages

    def _message_id(self) -> str:
        return f"{self._run_id}.{self._turn}"

    def _begin(self) -> list[Change]:
        """Start the answer's message, once."""
        if self._message is not None:
            return []
        self._message = MessageInfo(
            id=self._message_id(),
            session_id=self._session_id,
            role="assistant",
            model=self._model,
        )
        start = StepStartPart(id=f"{self._message_id()}.start")
        return [
            Change(MessageUpdated(message=self._message)),
            self._part(self._message_id(), start),
        ]

    def _abandon(self) -> list[Change]:
        """Take back an answer of which nothing was stored: it has no parts left."""
        begun, self._message = self._message, None
        if begun is None or begun.finished:
            return []
        return [Change(MessageUpdated(message=structs.replace(begun, finished=True)))]

    def _user(self, event: UserMessageAdded) -> list[Change]:
        parts = [
            (f"{event.uuid}.{i}", block)
            for i, block in enumerate(event.message.content)
            if not isinstance(block, ToolResultBlock)
        ]
        info = MessageInfo(
            id=event.uuid,
            session_id=self._session_id,
            role="user",
            origin=event.message.origin.kind,
            finished=True,
            part_ids=tuple(part_id for part_id, _ in parts),
        )
        changes = self._blocks(event.uuid, parts)
        return [Change(MessageUpdated(message=info), event.uuid), *changes]

    def _assistant(self, event: AssistantMessageAdded) -> list[Change]:
        message = event.message
        self._model = f"{message.provider}/{message.model}"
        changes = self._begin()
        message_id = self._message_id()
        parts = [(f"{message_id}.{i}", block) for i, block in enumerate(message.content)]
        changes += self._blocks(message_id, parts)
        finish = StepFinishPart(
            id=f"{message_id}.finish", stop_reason=message.stop_reason, usage=message.usage
        )
        info = MessageInfo(
            id=message_id,
            session_id=self._session_id,
            role="assistant",
            model=self._model,
            finished=True,
            part_ids=(f"{message_id}.start", *(part_id for part_id, _ in parts), finish.id),
            error=message.error or ("aborted" if message.stop_reason == "aborted" else ""),
        )
        self._message = info
        return [
            *changes,
            self._part(message_id, finish),
            Change(MessageUpdated(message=info), event.uuid),
        ]

    def _compaction(self, event: CompactionStarted | CompactionEnded) -> list[Change]:
        """Tell of a compaction, and show a summary as a message of its own."""
        # Outside of a run its owner says whether the session is at work.
        if isinstance(event, CompactionStarted):
            return [self._status("running", reason="compacting")] if self._running else []
        changes = [self._status("running")] if self._running else []
        if event.status != "completed" or not event.uuid:
            return changes
        part = CompactionPart(id=f"{event.uuid}.0", summary=event.summary)
        info = MessageInfo(
            id=event.uuid,
            session_id=self._session_id,
            role="assistant",
            finished=True,
            part_ids=(part.id,),
        )
        message = Change(MessageUpdated(message=info), event.uuid)
        return [*changes, message, self._part(event.uuid, part)]

    def _blocks(self, message_id: str, parts: Sequence[tuple[str, Block]]) -> list[Change]:
        changes: list[Change] = []
        for part_id, block in parts:
            part = self._finished_part(message_id, part_id, block)
            if part is not None:
                changes.append(self._part(message_id, part))
        return changes

    def _finished_part(self, message_id: str, part_id: str, block: Block) -> Part | None:
        match block:
            case TextBlock():
                return TextPart(id=part_id, text=block.text)
            case ThinkingBlock():
                return ReasoningPart(id=part_id, text=block.thinking)
            case RedactedThinkingBlock():
                return ReasoningPart(id=part_id, redacted=True)
            case ImageBlock() | DocumentBlock():
                media = str(block.source.get("media_type", ""))
                return FilePart(id=part_id, media_type=media, source=block.source)
            case ToolUseBlock():
                return self._calls.arrived(message_id, part_id, block)
            case ToolResultBlock() | OpaqueBlock():
                return None  # results belong to their calls; the unknown is not drawn
            case _:
                assert_never(block)

    def _part(self, message_id: str, part: Part) -> Change:
        body = PartUpdated(session_id=self._session_id, message_id=message_id, part=part)
        return Change(body)

    def _tool_progress(self, event: ToolProgress, now: float) -> list[Change]:
        place = self._calls.progress(event)
        if place is None:
            return []
        message_id, part_id = place
        return self._join(message_id, part_id, text=event.text, now=now)

    # --------------------------------------------------------------------- rest

    def _status(self, status: str, *, reason: str = "") -> Change:
        return Change(
            SessionStatus(
                session_id=self._session_id,
                status="retry" if status == "retry" else "running",
                run_id=self._run_id,
                reason=reason,
            )
        )

    def _run_ended(self, event: RunEnded) -> list[Change]:
        changes: list[Change] = []
        if event.status == "error":
            error = SessionError(
                session_id=self._session_id, code=event.error_code, text=event.error
            )
            changes.append(Change(error))
        changes += self._abandon()
        self._running = False
        self._calls.clear()
        idle = SessionStatus(
            session_id=self._session_id, status="idle", run_id=event.run_id, reason=event.status
        )
        return [*changes, Change(idle)]


def _starting_part(part_id: str, event: BlockStart) -> Part:
    match event.kind:
        case "text":
            return TextPart(id=part_id)
        case "thinking":
            return ReasoningPart(id=part_id)
        case "redacted_thinking":
            return ReasoningPart(id=part_id, redacted=True)
        case "tool_use":
            return ToolPart(
                id=part_id, call_id=event.tool_id, tool=event.tool_name, state=ToolPending()
            )
        case _:
            assert_never(event.kind)


def _permission(event: PermissionAsked | PermissionReplied, session_id: str) -> Change:
    if isinstance(event, PermissionReplied):
        return Change(
            PermissionRepliedEvent(
                session_id=session_id,
                request_id=event.request_id,
                reply=event.reply,
                reason=event.reason,
            )
        )
    requests = event.requests
    can_always = all(r.always and not r.protected for r in requests)
    rules = (rule for r in requests for rule in r.always)
    return Change(
        PermissionAskedEvent(
            session_id=session_id,
            request_id=event.request_id,
            call_id=event.call.id,
            tool=event.call.name,
            title=next((r.title for r in requests if r.title), event.call.name),
            input_hash=event.input_hash,
            permissions=tuple(dict.fromkeys(r.permission for r in requests)),
            patterns=tuple(p for r in requests for p in r.patterns),
            can_always=can_always,
            always=tuple(f"{r.permission} {r.pattern}" for r in rules) if can_always else (),
            protected=any(r.protected for r in requests),
        )
    )
