"""Session, message and part, and the eleven events that tell of their changes.

One frozen contract for every front end. It stands alone: importing it loads
nothing but msgspec, so that a window can draw before anything else is there.

A session holds messages, a message holds parts; a part is the smallest thing
that streams. Ids are the same live and after a restart: a user message has
the id of its record, an answer ``<run id>.<turn>``, a part
``<message id>.<index>``.

Each durable event has ``seq``, which counts up from 1 within its session.
``message.part.delta`` is transient: it has seq 0, is never stored, and a
later ``message.part.updated`` of the same part holds all of its text.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from agent_sdk.core.usage import Usage

WIRE_VERSION = 1

Json: TypeAlias = dict[str, Any]


class _Frozen(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


# ------------------------------------------------------------------- parts


class TextPart(_Frozen, frozen=True, tag_field="type", tag="text"):
    """Text of a person or of the model."""

    id: str
    text: str = ""


class ReasoningPart(_Frozen, frozen=True, tag_field="type", tag="reasoning"):
    """The model's reasoning; ``redacted`` when the provider encrypted it."""

    id: str
    text: str = ""
    redacted: bool = False


class ToolPending(_Frozen, frozen=True, tag_field="status", tag="pending"):
    """The call is arriving, or waits for its turn or for consent."""

    input: Json = msgspec.field(default_factory=dict)


class ToolRunning(_Frozen, frozen=True, tag_field="status", tag="running"):
    """The call runs; ``output`` is what it has printed so far."""

    input: Json = msgspec.field(default_factory=dict)
    output: str = ""


class ToolCompleted(_Frozen, frozen=True, tag_field="status", tag="completed"):
    """The call succeeded.

    Attributes:
        output: What the model was given.
        seconds: How long it ran.
        details: Facts such as a diff or an exit code.
    """

    input: Json = msgspec.field(default_factory=dict)
    output: str = ""
    seconds: float = 0.0
    details: Json = msgspec.field(default_factory=dict)


class ToolFailed(_Frozen, frozen=True, tag_field="status", tag="error"):
    """The call failed, was refused, or was not run.

    Attributes:
        output: What the model was told.
        denied: Whether permission was refused.
        ran: Whether it had begun.
    """

    input: Json = msgspec.field(default_factory=dict)
    output: str = ""
    seconds: float = 0.0
    denied: bool = False
    ran: bool = False
    details: Json = msgspec.field(default_factory=dict)


ToolState: TypeAlias = ToolPending | ToolRunning | ToolCompleted | ToolFailed


class ToolPart(_Frozen, frozen=True, tag_field="type", tag="tool"):
    """One call of a tool."""

    id: str
    call_id: str
    tool: str
    state: ToolState


class StepStartPart(_Frozen, frozen=True, tag_field="type", tag="step-start"):
    """A request to the model began."""

    id: str


class StepFinishPart(_Frozen, frozen=True, tag_field="type", tag="step-finish"):
    """A request to the model ended, with the tokens it took."""

    id: str
    stop_reason: str
    usage: Usage = Usage()


class SubtaskPart(_Frozen, frozen=True, tag_field="type", tag="subtask"):
    """A child session works on something."""

    id: str
    session_id: str
    title: str = ""


class FilePart(_Frozen, frozen=True, tag_field="type", tag="file"):
    """An attached image or document; ``source`` as in the stored block."""

    id: str
    media_type: str
    source: Json = msgspec.field(default_factory=dict)


class CompactionPart(_Frozen, frozen=True, tag_field="type", tag="compaction"):
    """Older history was replaced by this summary for the model."""

    id: str
    summary: str = ""


Part: TypeAlias = (
    TextPart
    | ReasoningPart
    | ToolPart
    | StepStartPart
    | StepFinishPart
    | SubtaskPart
    | FilePart
    | CompactionPart
)


# ------------------------------------------------------- session and message


class SessionInfo(_Frozen, frozen=True):
    """A session as front ends see it.

    Attributes:
        workspace: Its folder, fixed at creation.
        user: Whose it is; empty on a machine of one's own.
        agent: Name of the primary agent.
        model: ``provider/id``; empty before the first run.
        parent_id: The session that started it, for children.
        queued: Prompts that wait, first in first out.
    """

    id: str
    workspace: str
    title: str = ""
    user: str = ""
    agent: str = "default"
    model: str = ""
    parent_id: str = ""
    queued: tuple[str, ...] = ()


class MessageInfo(_Frozen, frozen=True):
    """A message without its parts.

    Attributes:
        role: Who speaks.
        origin: For user messages, where it came from (``human``, ``steered`` …).
        finished: Whether it will not change any more.
        part_ids: Once finished, all of its parts in order; parts that are not
            in it have gone (calls of an answer that was cut).
        error: Why an answer was cut; empty if it is whole.
    """

    id: str
    session_id: str
    role: Literal["user", "assistant"]
    origin: str = ""
    model: str = ""
    finished: bool = False
    part_ids: tuple[str, ...] = ()
    error: str = ""


# ------------------------------------------------------------------- events


class SessionUpdated(_Frozen, frozen=True, tag_field="kind", tag="session.updated"):
    """The session's own facts changed."""

    session: SessionInfo


class SessionStatus(_Frozen, frozen=True, tag_field="kind", tag="session.status"):
    """The session began or ceased to work.

    Attributes:
        status: ``retry`` while a failed request waits to be made again.
        run_id: The run it is about.
        reason: How a run ended, when it has just become idle; why a retry is
            needed; ``compacting`` while a run makes room in its context.
    """

    session_id: str
    status: Literal["idle", "running", "retry"]
    run_id: str = ""
    reason: str = ""


class SessionError(_Frozen, frozen=True, tag_field="kind", tag="session.error"):
    """Something went wrong that belongs to no message."""

    session_id: str
    code: str
    text: str
    level: Literal["info", "warning", "error"] = "error"


class MessageUpdated(_Frozen, frozen=True, tag_field="kind", tag="message.updated"):
    """A message began or changed."""

    message: MessageInfo


class PartUpdated(_Frozen, frozen=True, tag_field="kind", tag="message.part.updated"):
    """A part began or changed; this is all of it."""

    session_id: str
    message_id: str
    part: Part


class PartDelta(_Frozen, frozen=True, tag_field="kind", tag="message.part.delta"):
    """Text was added to a part: to its text, or to a running call's output."""

    session_id: str
    message_id: str
    part_id: str
    text: str


class PermissionAskedEvent(_Frozen, frozen=True, tag_field="kind", tag="permission.asked"):
    """Someone is asked whether a call may run.

    Attributes:
        input_hash: Hash of what is shown; an answer must carry it.
        patterns: What would be touched, one line each.
        can_always: Whether *always* may be answered.
        always: What *always* would allow, one line each: permission and pattern.
        protected: Whether it touches something that no rule may allow for good.
    """

    session_id: str
    request_id: str
    call_id: str
    tool: str
    title: str
    input_hash: str
    permissions: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    can_always: bool = False
    always: tuple[str, ...] = ()
    protected: bool = False


class PermissionRepliedEvent(_Frozen, frozen=True, tag_field="kind", tag="permission.replied"):
    """A question was answered or expired."""

    session_id: str
    request_id: str
    reply: Literal["once", "always", "reject", "expired"]
    reason: str = ""


class TodoItem(_Frozen, frozen=True):
    """One line of the model's list of things to do."""

    text: str
    status: Literal["pending", "in_progress", "completed", "cancelled"]


class TodoUpdated(_Frozen, frozen=True, tag_field="kind", tag="todo.updated"):
    """The list of things to do was replaced."""

    session_id: str
    items: tuple[TodoItem, ...]


class FileEdited(_Frozen, frozen=True, tag_field="kind", tag="file.edited"):
    """A tool created or changed a file."""

    session_id: str
    call_id: str
    path: str
    operation: Literal["created", "modified"]
    additions: int = 0
    deletions: int = 0


class ArtifactCreated(_Frozen, frozen=True, tag_field="kind", tag="artifact.created"):
    """A result was too large for the model and lies in a file."""

    session_id: str
    call_id: str
    path: str
    size: int = 0


EventBody: TypeAlias = (
    SessionUpdated
    | SessionStatus
    | SessionError
    | MessageUpdated
    | PartUpdated
    | PartDelta
    | PermissionAskedEvent
    | PermissionRepliedEvent
    | TodoUpdated
    | FileEdited
    | ArtifactCreated
)


class Event(_Frozen, frozen=True):
    """One event of a session.

    Attributes:
        seq: Place in the session's log, from 1; 0 for transient events.
        id: Id of the event.
        at: When, UTC ISO 8601 with milliseconds.
        record: Id of the session record that it tells of; empty if none.
    """

    seq: int
    id: str
    at: str
    session_id: str
    body: EventBody
    record: str = ""


def is_transient(body: EventBody) -> bool:
    """Return whether the event is live only and never stored."""
    return isinstance(body, PartDelta)


def encode_event(event: Event) -> bytes:
    """Return the event as one line of JSON, without the newline."""
    return msgspec.json.encode(event)


def decode_event(line: bytes) -> Event:
    """Return the event of a line.

    Raises:
        msgspec.ValidationError: If it is not an event of this version.
    """
    return msgspec.json.decode(line, type=Event)
