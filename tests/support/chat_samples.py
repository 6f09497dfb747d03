"""Sessions, messages and events for tests and pictures of the transcript."""

from collections.abc import Iterable, Sequence

from agent_sdk.core.usage import Usage
from agent_sdk.events.wire import (
    Event,
    EventBody,
    Json,
    MessageInfo,
    MessageUpdated,
    Part,
    PartDelta,
    PartUpdated,
    PermissionAskedEvent,
    ReasoningPart,
    SessionInfo,
    SessionStatus,
    StepFinishPart,
    TextPart,
    ToolCompleted,
    ToolPart,
    ToolState,
)
from desktop.bridge.messages import (
    ErrorInfo,
    OpenedSession,
    SessionRow,
    SessionStatusKind,
    TranscriptMessage,
    TranscriptPage,
)

SESSION = "s1"


def user(message_id: str, text: str, *, origin: str = "human") -> TranscriptMessage:
    """A prompt."""
    part = TextPart(id=f"{message_id}.0", text=text)
    info = MessageInfo(
        id=message_id,
        session_id=SESSION,
        role="user",
        origin=origin,
        finished=True,
        part_ids=(part.id,),
    )
    return TranscriptMessage(info=info, parts=(part,))


def answer(
    message_id: str, *parts: Part, error: str = "", stop: str = "end_turn"
) -> TranscriptMessage:
    """A finished answer."""
    finish = StepFinishPart(id=f"{message_id}.finish", stop_reason=stop, usage=Usage())
    every = (*parts, finish)
    info = MessageInfo(
        id=message_id,
        session_id=SESSION,
        role="assistant",
        finished=True,
        part_ids=tuple(part.id for part in every),
        error=error,
    )
    return TranscriptMessage(info=info, parts=every)


def text(part_id: str, words: str) -> TextPart:
    """Text of the model."""
    return TextPart(id=part_id, text=words)


def reasoning(part_id: str, words: str) -> ReasoningPart:
    """Reasoning of the model."""
    return ReasoningPart(id=part_id, text=words)


def tool(part_id: str, name: str, state: ToolState) -> ToolPart:
    """A call; its id is that of the part with ``call-`` before it."""
    return ToolPart(id=part_id, call_id=f"call-{part_id}", tool=name, state=state)


def edited(path: str, diff: str, *, plus: int, minus: int, seconds: float = 0.1) -> ToolCompleted:
    """The state of an edit that was made."""
    change: Json = {
        "path": path,
        "operation": "modified",
        "diff": diff,
        "additions": plus,
        "deletions": minus,
    }
    return ToolCompleted(
        input={"file_path": path, "old_string": "a", "new_string": "b"},
        output=f"{path}: +{plus} -{minus} lines",
        seconds=seconds,
        details={"fileChange": change},
    )


def opened(
    messages: Sequence[TranscriptMessage],
    *,
    before: Sequence[int] = (),
    status: SessionStatusKind = "idle",
    can_continue: bool = False,
    error: ErrorInfo | None = None,
    expired: tuple[PermissionAskedEvent, ...] = (),
    session_id: str = SESSION,
) -> OpenedSession:
    """A session of which ``messages`` are the tail, after unloaded ones of these sizes."""
    sizes = [sum(len(p.text) for p in m.parts if isinstance(p, TextPart)) for m in messages]
    return OpenedSession(
        session=SessionInfo(id=session_id, workspace="/home/me/project"),
        row=SessionRow(id=session_id, project_id="p", title="", status=status),
        count=len(before) + len(messages),
        sizes=(*before, *sizes),
        page=TranscriptPage(first=len(before), messages=tuple(messages)),
        seq=10,
        epoch="e",
        can_continue=can_continue,
        error=error,
        expired=expired,
    )


class Events:
    """Makes events with ascending seq."""

    def __init__(self, *, seq: int = 10) -> None:
        self._seq = seq

    def of(self, body: EventBody) -> Event:
        """The next event."""
        if not isinstance(body, PartDelta):
            self._seq += 1
        seq = 0 if isinstance(body, PartDelta) else self._seq
        return Event(seq=seq, id=f"e{self._seq}", at="", session_id=SESSION, body=body)

    def message(self, given: TranscriptMessage) -> list[Event]:
        """What tells of a whole message."""
        first = self.of(MessageUpdated(message=given.info))
        return [first, *(self.part(given.info.id, part) for part in given.parts)]

    def begin(self, message_id: str) -> Event:
        """An answer begins."""
        info = MessageInfo(id=message_id, session_id=SESSION, role="assistant")
        return self.of(MessageUpdated(message=info))

    def part(self, message_id: str, part: Part) -> Event:
        """A part begins or changes."""
        return self.of(PartUpdated(session_id=SESSION, message_id=message_id, part=part))

    def delta(self, message_id: str, part_id: str, words: str) -> Event:
        """Text is added to a part."""
        return self.of(
            PartDelta(session_id=SESSION, message_id=message_id, part_id=part_id, text=words)
        )

    def finish(self, message_id: str, part_ids: Iterable[str], *, error: str = "") -> Event:
        """An answer is whole."""
        info = MessageInfo(
            id=message_id,
            session_id=SESSION,
            role="assistant",
            finished=True,
            part_ids=tuple(part_ids),
            error=error,
        )
        return self.of(MessageUpdated(message=info))

    def running(self, run_id: str = "r1") -> Event:
        """A run goes on."""
        return self.of(SessionStatus(session_id=SESSION, status="running", run_id=run_id))

    def idle(self, reason: str = "completed", run_id: str = "r1") -> Event:
        """A run has ended."""
        return self.of(
            SessionStatus(session_id=SESSION, status="idle", run_id=run_id, reason=reason)
        )


def asked(
    tool_name: str, call_id: str, *, patterns: tuple[str, ...], **more: object
) -> PermissionAskedEvent:
    """A question."""
    given: dict[str, object] = {
        "session_id": SESSION,
        "request_id": "q1",
        "call_id": call_id,
        "tool": tool_name,
        "title": patterns[0] if patterns else tool_name,
        "input_hash": "hash",
        "permissions": (tool_name,),
        "patterns": patterns,
    }
    return PermissionAskedEvent(**(given | more))  # type: ignore[arg-type]
