"""A session's state as bytes, so that it need not be folded again from the start.

A snapshot is derived: folding the records that it covers gives the same. What
reads one checks that it is whole and of its own version; everything else
(whether those records are still what they were) is for whoever keeps it.

The bytes are lines: version and checksum, the facts, then each message in
view as a record line, its artifacts pointed to as in the session file.
"""

import zlib
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from agent_sdk import __version__
from agent_sdk.core.errors import InvalidInput
from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import PromptSection
from agent_sdk.providers.messages import AssistantMessage, Message
from agent_sdk.session.artifacts import restore_artifacts, split_artifacts
from agent_sdk.session.codec import encode, parse_line
from agent_sdk.session.history import SessionState, stored_rule
from agent_sdk.session.records import (
    AssistantRecord,
    CompactionRecord,
    Record,
    SessionHeader,
    StoredRule,
    StoredSection,
    TodoItem,
    ToolJournalRecord,
    UserRecord,
    assistant_record,
    message_of,
    user_record,
)
from agent_sdk.session.spending import Spending
from agent_sdk.session.trail import Trail
from agent_sdk.session.view import View, ViewEntry

SNAPSHOT_VERSION = 2
"""Goes up with every change of what a snapshot holds, or of the fold, between two releases;
a snapshot of another release of this program is not used anyway."""

MAX_SNAPSHOT_BYTES = 64 * 1024 * 1024
"""Largest snapshot that is made or read."""


class SnapshotFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a state says beside the messages; fields as in ``SessionState``.

    Attributes:
        count: Records that are covered.
        known: Positions of records that later ones may point to, by id.
        asked: Index of the message that made the unanswered calls; -1 for none.
        unanswered: Ids of those calls, in order.
    """

    count: int
    header: SessionHeader
    last_uuid: str
    timestamp: str = ""
    model: str = ""
    thinking_level: str = ""
    permission_mode: str = ""
    permission_rules: tuple[StoredRule, ...] = ()
    title: str = ""
    tag: str = ""
    first_prompt: str = ""
    spent: dict[str, Usage] = {}
    children: tuple[str, ...] = ()
    sections: tuple[StoredSection, ...] = ()
    tools: tuple[str, ...] = ()
    open_calls: tuple[ToolJournalRecord, ...] = ()
    open_run: str = ""
    todos: tuple[TodoItem, ...] = ()
    compaction: CompactionRecord | None = None
    known: dict[str, int] = {}
    asked: int = -1
    unanswered: tuple[str, ...] = ()


class StateSnapshot(Struct, frozen=True):
    """The state of a session as of one record."""

    facts: SnapshotFacts
    view: tuple[ViewEntry, ...]


_PLAIN_FACTS = (
    "count",
    "header",
    "last_uuid",
    "timestamp",
    "model",
    "thinking_level",
    "permission_mode",
    "title",
    "tag",
    "first_prompt",
    "tools",
    "open_run",
)
"""What state and snapshot have under the same name."""


class _Seal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    program: str
    crc: int
    size: int


class _Body(Struct, frozen=True, kw_only=True):
    facts: SnapshotFacts
    entries: tuple[tuple[str, int], ...]


_seals: msgspec.json.Decoder[_Seal] = msgspec.json.Decoder(_Seal)
_bodies: msgspec.json.Decoder[_Body] = msgspec.json.Decoder(_Body)


class UnusableSnapshot(Exception):
    """The bytes are no snapshot that this version can use; fold the records instead."""


def take_snapshot(state: SessionState) -> StateSnapshot:
    """Return what a state is now; it does not change with it, and is quick.

    Raises:
        ValueError: If there is no header yet.
    """
    view = state.view
    if state.header is None or state.last_uuid is None:
        raise ValueError("a session without a header has no snapshot")
    rules = (StoredRule(r.permission, r.pattern, r.action) for r in state.permission_rules)
    facts = SnapshotFacts(
        **{name: getattr(state, name) for name in _PLAIN_FACTS},
        spent=dict(state.spending.models),
        children=tuple(state.spending.children),
        permission_rules=tuple(rules),
        sections=tuple(StoredSection(s.name, s.text) for s in state.sections),
        open_calls=tuple(state.open_calls.values()),
        todos=view.todos,
        compaction=view.compaction,
        known=state.landmarks(),
        asked=view.asked,
        unanswered=tuple(view.unanswered),
    )
    return StateSnapshot(facts, view.entries())


def restored_state(snapshot: StateSnapshot) -> SessionState:
    """Return the state of a snapshot; it is partial.

    Raises:
        UnusableSnapshot: If it contradicts itself.
    """
    facts, state = snapshot.facts, SessionState()
    for name in _PLAIN_FACTS:
        if name != "count":
            setattr(state, name, getattr(facts, name))
    state.spending = Spending(facts.spent, facts.children)
    state.permission_rules = [stored_rule(stored) for stored in facts.permission_rules]
    state.sections = tuple(PromptSection(s.name, s.text) for s in facts.sections)
    state.open_calls = {record.tool_use_id: record for record in facts.open_calls}
    try:
        view = View.restored(snapshot.view, asked=facts.asked, unanswered=facts.unanswered)
    except LookupError as error:
        raise UnusableSnapshot("it contradicts itself") from error
    view.todos, view.compaction = facts.todos, facts.compaction
    state.view = view
    state.trail = Trail(base=facts.count, known=facts.known, view=view.copy())
    return state


def snapshot_to_bytes(snapshot: StateSnapshot) -> bytes | None:
    """Return the snapshot as bytes; None if it would be too large to be of use."""
    lines: list[bytes] = []
    size = 0
    for entry in snapshot.view:
        try:
            line = _message_line(entry.message)
        except InvalidInput:  # larger than a record may be: it never came out of one
            return None
        lines.append(line)
        size += len(line) + 1
        if size > MAX_SNAPSHOT_BYTES:
            return None
    entries = tuple((entry.uuid, entry.at) for entry in snapshot.view)
    facts = msgspec.json.encode(_Body(facts=snapshot.facts, entries=entries))
    body = b"\n".join([facts, *lines, b""])
    seal = _Seal(
        version=SNAPSHOT_VERSION, program=__version__, crc=zlib.crc32(body), size=len(body)
    )
    return msgspec.json.encode(seal) + b"\n" + body


def snapshot_from_bytes(data: bytes, blob: Callable[[str], bytes | None]) -> StateSnapshot:
    """Return the snapshot for its bytes.

    Args:
        data: As ``snapshot_to_bytes`` made them.
        blob: Returns an artifact by its hash, or None if it is not there.

    Raises:
        UnusableSnapshot: If they are cut, changed or of another version of
            the format or of the program, or an artifact is missing.
    """
    first, _, body = data.partition(b"\n")
    try:
        seal = _seals.decode(first)
        if seal.version != SNAPSHOT_VERSION:
            raise UnusableSnapshot(f"it has version {seal.version}, not {SNAPSHOT_VERSION}")
        if seal.program != __version__:
            raise UnusableSnapshot(f"it was made by version {seal.program!r} of the program")
        if len(body) != seal.size or zlib.crc32(body) != seal.crc:
            raise UnusableSnapshot("it is not whole")
        facts, *lines = body.split(b"\n")[:-1]
        inner = _bodies.decode(facts)
        pairs = zip(inner.entries, lines, strict=True)
        view = tuple(ViewEntry(uuid, at, _line_message(ln, blob)) for (uuid, at), ln in pairs)
    except (ValueError, RecursionError) as error:  # MsgspecError is a ValueError
        raise UnusableSnapshot(f"it cannot be read ({error})") from error
    return StateSnapshot(inner.facts, view)


def _message_line(message: Message) -> bytes:
    if isinstance(message, AssistantMessage):
        draft: UserRecord | AssistantRecord = assistant_record(message)
    else:
        draft = user_record(message)
    stored, _ = split_artifacts(draft)
    # The envelope is that of the message's record, which is named elsewhere.
    named: Any = msgspec.structs.replace(
        stored, uuid="-", parent_uuid=None, session_id="-", timestamp="-"
    )
    return encode(named)[0]


def _line_message(line: bytes, blob: Callable[[str], bytes | None]) -> Message:
    record: Record | str = parse_line(line)
    if not isinstance(record, UserRecord | AssistantRecord):
        raise UnusableSnapshot("a message cannot be read")
    if b'"artifact"' in line:
        record, missing = restore_artifacts(record, blob)
        if missing or not isinstance(record, UserRecord | AssistantRecord):
            raise UnusableSnapshot("an artifact is missing")
    return message_of(record)
