"""A fork of a session: its records once more, under new ids. Pure.

The fork gets a new session id, each record a new id, each call a new id;
whatever points to one of them follows. Records of types that this version
does not know, and those that hosts keep, stay as they are byte for byte, apart
from such ids. Two things do not go along, since they belong to the source
alone: what ties messages to rows of a host, and the checkpoints of files.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from agent_sdk.core.errors import InvalidInput
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.session.codec import MAX_RECORD_BYTES, Item, encode
from agent_sdk.session.file_log import MARK_TYPE
from agent_sdk.session.records import (
    AssistantRecord,
    CustomRecord,
    FileChangeRecord,
    Record,
    SessionHeader,
    UnknownRecord,
    UserRecord,
)

FORK_TYPE = "zpi.fork"
"""``customType`` of a fork's last record: where it comes from."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_PREFIX = re.compile(
    rb'\{"type":("[A-Za-z0-9_.-]+"),"uuid":"[^"\\]+","parentUuid":"[^"\\]+","sessionId":"[^"\\]+"'
)
_POINTERS = ("keepFromUuid", "clearToolResultsBeforeUuid", "previousUuid", "restores")


class NewIds:
    """The new id for each old one, in a session and its children.

    Attributes:
        tools: Of calls.
        others: Of sessions and records.
    """

    def __init__(self, ids: Ids) -> None:
        self.tools: dict[str, str] = {}
        self.others: dict[str, str] = {}
        self._ids = ids

    def session(self, old: str) -> str:
        """Return the new id of a session."""
        if old not in self.others:
            self.others[old] = self._ids.new()
        return self.others[old]

    def record(self, old: str) -> str:
        """Return a new id for a record that comes now."""
        new = self.others[old] = self._ids.new()
        return new

    def tool(self, old: str) -> str:
        """Return the new id of a call."""
        if old not in self.tools:
            self.tools[old] = f"call_{self._ids.new().replace('-', '')}"
        return self.tools[old]

    def known(self, old: str) -> str:
        """Return the new id for anything that was met; other text as it is."""
        return self.others.get(old) or self.tools.get(old) or old


class Fork:
    """Takes the records of one file in order and gives the fork's lines.

    Args:
        new: The new ids; shared with the forks of the children.
        ids: Source of ids.
        up_to: The message with which the fork ends; None for all.

    Attributes:
        source_id: Id of the session that is forked; empty before its header.
        reached: Whether the fork is complete as far as is known.
    """

    def __init__(self, *, new: NewIds, ids: Ids, up_to: str | None = None) -> None:
        self.source_id = ""
        self.reached = up_to is None
        self._new = new
        self._ids = ids
        self._up_to = up_to
        self._last: str | None = None
        self._ended = False
        self._dropped: dict[str, str | None] = {}  # with the new id of what is before
        self._waiting: list[str] = []  # dropped, and nothing that was kept came since

    def line(self, item: Item) -> bytes | None:
        """Take the next record; return its line in the fork, None if it has none.

        Raises:
            InvalidInput: If the fork would end with something that is no
                message, or a line became too long.
        """
        record = item.record
        if self._ended:
            return None
        if record.uuid == self._up_to:
            self._check_message(record)
            self.reached = self._ended = True
        if _stays_behind(record):
            self._dropped[record.uuid] = self._last
            self._waiting.append(record.uuid)
            return None
        if isinstance(record, SessionHeader):
            self.source_id = record.session_id
        uuid = self._new.record(record.uuid)
        for old in self._waiting:
            self._new.others[old] = uuid
        self._waiting = []
        line = self._written(item, uuid)
        self._last = uuid
        if len(line) > MAX_RECORD_BYTES:
            raise InvalidInput(f"The record {record.uuid!r} is too large under its new id.")
        return line

    def mark(self, clock: Clock) -> bytes:
        """Return the last line: a record that says where the fork comes from."""
        data = {"sessionId": self.source_id, "upToUuid": self._up_to}
        record = CustomRecord(
            uuid=self._ids.new(),
            parent_uuid=self._last,
            session_id=self._new.session(self.source_id),
            timestamp=clock.iso(),
            custom_type=FORK_TYPE,
            data=data,
        )
        return encode(record)[0]

    def _check_message(self, record: Record) -> None:
        if not isinstance(record, UserRecord | AssistantRecord):
            raise InvalidInput(
                f"The record {record.uuid!r} is no message.", hint="A fork ends with a message."
            )

    def _written(self, item: Item, uuid: str) -> bytes:
        record = item.record
        session = self._new.session(record.session_id)
        found = _PREFIX.match(item.raw)
        if isinstance(record, UnknownRecord | CustomRecord) and found is not None:
            head = b'{"type":%b,"uuid":"%b","parentUuid":"%b","sessionId":"%b"' % (
                found[1],
                uuid.encode(),
                (self._last or "").encode(),
                session.encode(),
            )
            return head + _STRING.sub(self._token, item.raw[found.end() :])
        data: dict[str, Any] = msgspec.json.decode(item.raw)
        data |= {"uuid": uuid, "parentUuid": self._last, "sessionId": session}
        if isinstance(record, UnknownRecord | CustomRecord):
            for name in set(data) - {"type", "uuid", "parentUuid", "sessionId", "timestamp"}:
                data[name] = _mapped(data[name], self._new.known)
        else:
            self._follow(data)
        return msgspec.json.encode(data)

    def _token(self, found: re.Match[bytes]) -> bytes:
        text = found[0][1:-1]
        if b"\\" in text:
            return found[0]
        old = text.decode("utf-8", "surrogateescape")
        new = self._new.known(old)
        return found[0] if new is old else b'"%b"' % new.encode()

    def _follow(self, data: dict[str, Any]) -> None:
        """Let everything in a record of a known type point to the new ids."""
        new = self._new
        for name in ("toolUseId", "parentToolUseId"):
            if data.get(name):
                data[name] = new.tool(data[name])
        if data.get("parentSessionId"):
            data["parentSessionId"] = new.session(data["parentSessionId"])
        for name in _POINTERS:
            if isinstance(data.get(name), str):
                data[name] = new.others.get(data[name], data[name])
        if data["type"] == "rewind" and self._dropped.get(data["toUuid"]):
            data["toUuid"] = self._dropped[data["toUuid"]]
        elif data["type"] == "rewind":
            data["toUuid"] = new.others.get(data["toUuid"], data["toUuid"])
        elif "message" in data:
            self._follow_message(data)

    def _follow_message(self, data: dict[str, Any]) -> None:
        if isinstance(data.get("origin"), dict):
            data["origin"] = {k: v for k, v in data["origin"].items() if k != "id"}
        if "details" in data:
            data["details"] = _mapped(data["details"], self._new.known)
        content = data["message"].get("content")
        for block in content if isinstance(content, list) else ():
            for kind, name in (("tool_use", "id"), ("tool_result", "tool_use_id")):
                if block.get("type") == kind and isinstance(block.get(name), str):
                    block[name] = self._new.tool(block[name])


def _stays_behind(record: Record) -> bool:
    if isinstance(record, CustomRecord):
        return record.custom_type == MARK_TYPE
    return isinstance(record, FileChangeRecord)


def _mapped(value: object, change: Callable[[str], str]) -> object:
    """Return a JSON value with each string, names included, as ``change`` has it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(one, change) for one in value]
    if isinstance(value, dict):
        return {change(k): _mapped(v, change) for k, v in value.items()}
    return value
