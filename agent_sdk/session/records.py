"""The records of a session file, version 1: their shapes, frozen.

A record is one JSON object. All begin with the envelope, in this order:
``type``, ``uuid``, ``parentUuid``, ``sessionId``, ``timestamp``; what follows
is in the order of the fields below, and what has its default is left out.
Whoever appends leaves the envelope empty: the session's manager fills it.

Words from a fixed set (a run's status, a stop reason) are plain strings
here, so that a reader takes words that a later version adds; ``codec``
checks them when a record is written.
"""

from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from msgspec import UNSET, Struct, UnsetType

from agent_sdk.core.usage import Usage
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    Json,
    KnownBlock,
    Message,
    OpaqueBlock,
    Origin,
    OriginKind,
    StopReason,
    ToolResultBlock,
    UserMessage,
)

if TYPE_CHECKING:
    StoredBlock: TypeAlias = Block
else:
    # Decoding in one pass knows the known blocks only; a record with another
    # one takes the slow way, which puts an OpaqueBlock here.
    StoredBlock = KnownBlock

FORMAT = "zpi"
VERSION = 1


class Envelope(
    Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type"
):
    """What every record has.

    Attributes:
        uuid: Id of the record, unique in the file.
        parent_uuid: Id of the record before it; None for the header only.
        session_id: The session.
        timestamp: Wall clock in UTC, ISO 8601 with milliseconds and ``Z``.
    """

    uuid: str = ""
    parent_uuid: str | None = ""
    session_id: str = ""
    timestamp: str = ""


class SessionHeader(Envelope, tag="session", frozen=True, kw_only=True):
    """The first line.

    Attributes:
        format: Always ``zpi``.
        version: Version of the format.
        cwd: The session's folder, an absolute real path.
        parent_session_id: For a child: the session that started it.
        parent_tool_use_id: For a child: the call that started it.
        agent_id: For a child: its id, as in its file's name.
    """

    format: str
    version: int
    cwd: str
    parent_session_id: str = ""
    parent_tool_use_id: str = ""
    agent_id: str = ""


class StoredMessage(Struct, frozen=True):
    """A message in the shape of the Anthropic Messages API."""

    role: str
    content: tuple[StoredBlock, ...]


class StoredOrigin(Struct, frozen=True, omit_defaults=True):
    """Where a user message came from; see ``providers.messages.Origin``."""

    kind: str
    id: str | None = None


class UserRecord(Envelope, tag="user", frozen=True, kw_only=True):
    """A prompt, context, or one call's result.

    Attributes:
        message: Role ``user``.
        origin: Where it came from; left out for tool results.
        details: For a result: facts for front ends, never sent to the model.
    """

    message: StoredMessage
    origin: StoredOrigin | None = None
    details: Json | None = None


class AssistantRecord(Envelope, tag="assistant", frozen=True, kw_only=True):
    """One answer; fields as in ``providers.messages.AssistantMessage``."""

    message: StoredMessage
    api: str
    provider: str
    model: str
    thinking_level: str = ""
    stop_reason: str
    usage: Usage = Usage()
    response_id: str = ""
    error: str = ""


class RunRecord(Envelope, tag="run", frozen=True, kw_only=True):
    """A run's start or end; a start without an end was interrupted.

    Attributes:
        event: ``start`` or ``end``.
        run_id: The run.
        status: For the end: ``completed``, ``aborted``, ``error``,
            ``max_turns`` or ``interrupted``.
        turns: Requests that were answered.
        usage: Tokens of the run's requests.
        error_code: Stable code, for ``error``.
        error: Its text.
    """

    event: str
    run_id: str
    status: str = ""
    turns: int = 0
    usage: Usage = Usage()
    error_code: str = ""
    error: str = ""


class ToolJournalRecord(Envelope, tag="tool_journal", frozen=True, kw_only=True):
    """A call with side effects is about to start; its result closes it.

    Attributes:
        status: Always ``started``.
        tool_use_id: The call.
        name: Its tool.
        input_hash: SHA-256 of its canonical input, in hex.
    """

    status: str
    tool_use_id: str
    name: str
    input_hash: str = ""


class FileVersion(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A file's content at one moment.

    Attributes:
        sha256: Of the content, in hex.
        size: In bytes.
        mode: Permission bits; 0 where there are none.
    """

    sha256: str
    size: int
    mode: int = 0


class FileChangeRecord(Envelope, tag="file_change", frozen=True, kw_only=True):
    """A file was changed by a tool.

    Attributes:
        path: Its absolute real path.
        tool_use_id: The call that did it.
        before: Its version before; absent if the file was made.
        after: Its version after; absent if it was deleted.
    """

    path: str
    tool_use_id: str = ""
    before: FileVersion | None = None
    after: FileVersion | None = None


class TodoItem(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One thing to do: ``pending``, ``in_progress`` or ``completed``."""

    content: str
    status: str = "pending"
    active_form: str = ""
    id: str = ""


class TodoRecord(Envelope, tag="todo", frozen=True, kw_only=True):
    """The list of things to do, all of it, as it is from here on."""

    items: tuple[TodoItem, ...]


class StoredRule(Struct, frozen=True):
    """A permission rule; ``action`` is ``allow``, ``deny`` or ``ask``."""

    permission: str
    pattern: str
    action: str


class PermissionRuleRecord(Envelope, tag="permission_rule", frozen=True, kw_only=True):
    """Rules were added to the session's, or (``removed``) taken from them."""

    rules: tuple[StoredRule, ...]
    removed: bool = False
    tool_use_id: str = ""


class PermissionModeChangeRecord(Envelope, tag="permission_mode_change", frozen=True, kw_only=True):
    """The permission mode in force from here on."""

    mode: str


class ModelChangeRecord(Envelope, tag="model_change", frozen=True, kw_only=True):
    """The model in force from here on."""

    provider: str
    model: str
    api: str = ""


class ThinkingLevelChangeRecord(Envelope, tag="thinking_level_change", frozen=True, kw_only=True):
    """The reasoning level in force from here on; empty for none."""

    thinking_level: str


class SessionInfoRecord(Envelope, tag="session_info", frozen=True, kw_only=True):
    """Title or tag were set; null clears one, an absent one is unchanged."""

    title: str | UnsetType | None = UNSET
    tag: str | UnsetType | None = UNSET


class StoredSection(Struct, frozen=True):
    """A named part of the system prompt."""

    name: str
    text: str


class SystemRecord(Envelope, tag="system", frozen=True, kw_only=True):
    """The system prompt or the tools changed.

    Attributes:
        sections: All sections in force from here on; absent if unchanged.
        tools_added: Names of tools that came.
        tools_removed: Names of tools that went.
    """

    sections: tuple[StoredSection, ...] | UnsetType = UNSET
    tools_added: tuple[str, ...] = ()
    tools_removed: tuple[str, ...] = ()


class CompactionRecord(Envelope, tag="compaction", frozen=True, kw_only=True):
    """The model sees a summary in the place of older messages from here on.

    Attributes:
        summary: The summary; empty if none is put in.
        keep_from_uuid: First record that stays in view; null keeps none.
        clear_tool_results_before_uuid: Results in records before this one
            lose their content; null clears none.
        tokens_before: Tokens in context when it was made.
        usage: What the summary cost.
        model: ``provider/id`` of the model that wrote it; empty for none.
        previous_uuid: The compaction before it, if there is one.
    """

    summary: str
    keep_from_uuid: str | None
    clear_tool_results_before_uuid: str | None = None
    tokens_before: int = 0
    usage: Usage = Usage()
    model: str = ""
    previous_uuid: str | None = None


class RewindRecord(Envelope, tag="rewind", frozen=True, kw_only=True):
    """What lies between ``to_uuid`` and this record is out of view.

    Attributes:
        to_uuid: Last record that stays in view; a record that an earlier
            rewind skipped comes back with what led to it.
        reason: ``edit``, ``rewind`` or ``resume_at``.
        restores: The rewind that this one takes back, if it does.
    """

    to_uuid: str
    reason: str
    restores: str | None = None


class CustomRecord(Envelope, tag="custom", frozen=True, kw_only=True):
    """Something that a host or an extension keeps; not in the context."""

    custom_type: str
    data: Any = None


class UnknownRecord(Struct, frozen=True, kw_only=True):
    """A record of a type that this version does not know.

    Attributes:
        data: The whole JSON object.
    """

    type: str
    uuid: str
    parent_uuid: str | None
    session_id: str
    timestamp: str
    data: Json


KnownRecord: TypeAlias = (
    SessionHeader
    | UserRecord
    | AssistantRecord
    | RunRecord
    | ToolJournalRecord
    | FileChangeRecord
    | TodoRecord
    | PermissionRuleRecord
    | PermissionModeChangeRecord
    | ModelChangeRecord
    | ThinkingLevelChangeRecord
    | SessionInfoRecord
    | SystemRecord
    | CompactionRecord
    | RewindRecord
    | CustomRecord
)
Record: TypeAlias = KnownRecord | UnknownRecord

RECORD_TYPES: dict[str, type[KnownRecord]] = {
    str(cls.__struct_config__.tag): cls for cls in get_args(KnownRecord)
}

WORDS: dict[tuple[str, str], frozenset[str]] = {
    ("run", "event"): frozenset({"start", "end"}),
    ("run", "status"): frozenset({"", "completed", "aborted", "error", "max_turns", "interrupted"}),
    ("tool_journal", "status"): frozenset({"started"}),
    ("assistant", "stop_reason"): frozenset(get_args(StopReason)),
    ("rewind", "reason"): frozenset({"edit", "rewind", "resume_at"}),
}
"""The words that may be written, by record type and field."""

_ORIGINS = frozenset(get_args(OriginKind))
_STOP_REASONS = WORDS["assistant", "stop_reason"]
_NO_ORIGIN = Origin("human")


# ------------------------------------------------- messages and their records


def user_record(message: UserMessage, *, details: Json | None = None) -> UserRecord:
    """Return the record that stores a user message or a call's result."""
    only_results = all(isinstance(b, ToolResultBlock) for b in message.content)
    origin: StoredOrigin | None = StoredOrigin(message.origin.kind, message.origin.id)
    if only_results and message.content and message.origin == _NO_ORIGIN:
        origin = None
    return UserRecord(
        message=StoredMessage("user", message.content), origin=origin, details=details or None
    )


def assistant_record(message: AssistantMessage) -> AssistantRecord:
    """Return the record that stores an answer."""
    return AssistantRecord(
        message=StoredMessage("assistant", message.content),
        api=message.api,
        provider=message.provider,
        model=message.model,
        thinking_level=message.thinking_level,
        stop_reason=message.stop_reason,
        usage=message.usage,
        response_id=message.response_id,
        error=message.error,
    )


def message_of(record: UserRecord | AssistantRecord) -> Message:
    """Return the message that a record stores.

    An origin or stop reason that this version does not know reads as
    ``context`` or ``end_turn``.
    """
    if isinstance(record, UserRecord):
        return UserMessage(content=record.message.content, origin=_origin_of(record.origin))
    reason: Any = record.stop_reason if record.stop_reason in _STOP_REASONS else "end_turn"
    return AssistantMessage(
        content=record.message.content,
        api=record.api,
        provider=record.provider,
        model=record.model,
        stop_reason=reason,
        usage=record.usage,
        thinking_level=record.thinking_level,
        response_id=record.response_id,
        error=record.error,
    )


def _origin_of(stored: StoredOrigin | None) -> Origin:
    if stored is None:
        return _NO_ORIGIN
    kind: Any = stored.kind if stored.kind in _ORIGINS else "context"
    return Origin(kind, stored.id)


def has_opaque(record: Record) -> bool:
    """Whether a message holds a block of a kind that is not known."""
    return isinstance(record, UserRecord | AssistantRecord) and any(
        isinstance(block, OpaqueBlock) for block in record.message.content
    )
