"""Lines of a session file to records and back, and the check of their chain.

The one place that knows the bytes; readers and writers both use it. Pure.

Reading loses nothing: an ``Item`` keeps the line beside the record made of
it. A line that is not exactly one well-formed record gives one kind of
outcome, ``BadLine``, whatever is wrong with it. Most lines are read twice as
fast as a cautious parser could: a line that the decoded record encodes to
again, byte for byte, has no unknown fields, no duplicate keys and no odd
spelling. The others take the cautious way.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import InvalidInput
from agent_sdk.providers.messages import (
    OpaqueBlock,
    TextBlock,
    ToolUseBlock,
    block_from_json,
    block_to_json,
)
from agent_sdk.session.records import (
    FORMAT,
    RECORD_TYPES,
    VERSION,
    WORDS,
    AssistantRecord,
    KnownRecord,
    Record,
    SessionHeader,
    StoredMessage,
    UnknownRecord,
    UserRecord,
    has_opaque,
)

MAX_RECORD_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 200
"""Deepest nesting of arrays and objects in a record."""


class BadLine(Struct, frozen=True):
    """A line that is not a record.

    Attributes:
        number: Line number, counted from 1.
        offset: Where it begins, in bytes.
        length: Its length in bytes, with its newline where it has one.
        reason: What is wrong, to follow "it".
    """

    number: int
    offset: int
    length: int
    reason: str


class Item(Struct, frozen=True):
    """A good line: the record, and the bytes it came from (no newline)."""

    number: int
    offset: int
    raw: bytes
    record: Record


Line: TypeAlias = Item | BadLine

_ENVELOPE = ("type", "uuid", "parentUuid", "sessionId", "timestamp")
_PREFIX = re.compile(
    rb'\{"type":"([A-Za-z0-9_.-]+)","uuid":"([^"\\]+)","parentUuid":(?:null|"([^"\\]+)"),'
    rb'"sessionId":"([^"\\]+)","timestamp":"([^"\\]*)"'
)
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS = bytes(c for c in range(256) if c not in b"[]{}")


def _encode_opaque(value: object) -> object:
    if isinstance(value, OpaqueBlock):
        return value.raw
    raise TypeError(f"{type(value).__name__} cannot be stored")


_encoder = msgspec.json.Encoder(enc_hook=_encode_opaque)
_decoder: msgspec.json.Decoder[KnownRecord] = msgspec.json.Decoder(KnownRecord)
_plain = msgspec.json.Decoder()


# ----------------------------------------------------------------- writing


def encode(record: KnownRecord) -> tuple[bytes, KnownRecord]:
    """Return a record's line, without newline, and the record as it reads back.

    Lone surrogates become U+FFFD; otherwise the record comes back as it is.

    Raises:
        InvalidInput: If it does not fit the format or is too large.
    """
    name = str(record.__struct_config__.tag)
    for (kind, field), words in WORDS.items():
        if kind == name and getattr(record, field) not in words:
            raise InvalidInput(f"A {name!r} record cannot have {field} {getattr(record, field)!r}.")
    try:
        line = _encode_exact(record)
    except UnicodeEncodeError:
        line = _encoder.encode(
            _without_surrogates(msgspec.to_builtins(record, enc_hook=_encode_opaque))
        )
        cleaned = parse_line(line)
        if isinstance(cleaned, str | UnknownRecord):
            raise InvalidInput(f"A {name!r} record cannot be stored: {cleaned}.") from None
        record = cleaned
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"A {name!r} record cannot be stored: {error}.") from error
    _check_written(record, name, line)
    return line, record


def _check_written(record: KnownRecord, name: str, line: bytes) -> None:
    if len(line) > MAX_RECORD_BYTES:
        raise InvalidInput(
            f"A {name!r} record of {len(line):,} bytes is too large to be stored.",
            hint=f"A record may have {MAX_RECORD_BYTES:,} bytes.",
        )
    if _too_deep(line):
        raise InvalidInput(f"A {name!r} record is nested deeper than {MAX_DEPTH} levels.")
    try:
        if has_opaque(record):
            _convert(_plain.decode(line), name)
        else:
            _decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"A {name!r} record does not fit the format: {error}.") from error


def _encode_exact(record: KnownRecord) -> bytes:
    """Encode; a call without arguments still says ``"input":{}``."""
    if isinstance(record, AssistantRecord) and any(
        isinstance(b, ToolUseBlock) and not b.input for b in record.message.content
    ):
        content: Any = tuple(block_to_json(b) for b in record.message.content)
        record = msgspec.structs.replace(record, message=StoredMessage("assistant", content))
    return _encoder.encode(record)


def _without_surrogates(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(v) for v in value]
    return value


# ----------------------------------------------------------------- reading


def parse_line(raw: bytes) -> Record | str:
    """Return the record of a line (no newline), or what is wrong with it."""
    if len(raw) > MAX_RECORD_BYTES:
        return f"has {len(raw):,} bytes, more than a record may have"
    if _too_deep(raw):
        return f"is nested deeper than {MAX_DEPTH} levels"
    try:
        record = _decoder.decode(raw)
        exact = _encode_exact(record) == raw and all(
            (record.uuid, record.parent_uuid != "", record.session_id, record.timestamp)
        )
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _parse_cautiously(raw)  # which says what is wrong
    return record if exact else _parse_cautiously(raw)


def _parse_cautiously(raw: bytes) -> Record | str:
    if not raw.strip(b"\0"):
        return "holds no text, only NUL bytes" if raw else "is empty"
    if raw[:1] != b"{" or raw[-1:] != b"}":
        return "is not exactly one JSON object"
    try:
        data = _plain.decode(raw)
        if _encoder.encode(data) != raw:
            import json  # noqa: PLC0415 - only lines of other writers need it

            json.loads(raw, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:  # MsgspecError is a ValueError
        return f"is not valid JSON ({error})"
    if problem := _envelope_problem(data):
        return problem
    name = data["type"]
    if name not in RECORD_TYPES:
        return UnknownRecord(
            type=name,
            uuid=data["uuid"],
            parent_uuid=data["parentUuid"],
            session_id=data["sessionId"],
            timestamp=data["timestamp"],
            data=data,
        )
    try:
        return _convert(data, name)
    except msgspec.ValidationError as error:
        return f"is not a {name!r} record ({error})"


def _envelope_problem(data: dict[str, Any]) -> str:
    for field in _ENVELOPE:
        value = data.get(field, 0)
        if not (isinstance(value, str) and value) and not (field == "parentUuid" and value is None):
            return f"has no usable {field!r}"
    return ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object has the same key twice")
    return result


def _convert(data: dict[str, Any], name: str) -> KnownRecord:
    """Return the record for a JSON object; unknown fields stay in the line only.

    Raises:
        msgspec.ValidationError: If it does not fit its type.
    """
    cls = RECORD_TYPES[name]
    message = data.get("message")
    if cls not in (UserRecord, AssistantRecord) or not isinstance(message, dict):
        return msgspec.convert(data, type=cls)
    content = message.get("content")
    if isinstance(content, str):
        blocks: tuple[Any, ...] = (TextBlock(content),)
    elif isinstance(content, list) and all(isinstance(b, dict) for b in content):
        blocks = tuple(block_from_json(b) for b in content)
    else:
        raise msgspec.ValidationError("its content is neither text nor blocks")
    hollow = {**data, "message": {**message, "content": []}}
    record: Any = msgspec.convert(hollow, type=cls)
    return msgspec.structs.replace(  # type: ignore[no-any-return]
        record, message=StoredMessage(record.message.role, blocks)
    )


def _too_deep(raw: bytes) -> bool:
    """Whether brackets nest deeper than allowed; cheap for nearly all lines."""
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return False
    depth = 0
    for char in _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS):
        depth += 1 if char in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


class RawLine(NamedTuple):
    """A line as it lies in the file.

    Attributes:
        offset: Where it begins, in bytes.
        length: Its length with its newline.
        body: The line without its newline; of one that is longer than a
            record may be, only the beginning.
        ended: Whether it ends with a newline.
    """

    offset: int
    length: int
    body: bytes
    ended: bool


def split_lines(readline: Callable[[int], bytes], *, offset: int = 0) -> Iterator[RawLine]:
    """Split a stream at newline bytes only, holding one line at a time.

    Args:
        readline: Of a binary stream; takes the most bytes to return.
        offset: Where the stream stands, in bytes.
    """
    limit = MAX_RECORD_BYTES + 2
    while body := readline(limit):
        length = len(body)
        ended = body[-1:] == b"\n"
        if ended:
            body = body[:-1]
        elif length == limit:
            while not ended and (more := readline(limit)):
                length += len(more)
                ended = more[-1:] == b"\n"
        yield RawLine(offset, length, body, ended)
        offset += length


def read_items(
    readline: Callable[[int], bytes], *, first: int = 1, offset: int = 0
) -> Iterator[tuple[Line, bool]]:
    """Parse a file, from the beginning of a line to its end.

    Args:
        readline: Of a binary stream; takes the most bytes to return.
        first: Number of the first line that is read.
        offset: Where it begins, in bytes.

    Yields:
        Each line, and whether it ends with a newline. A last line without
        one was never acknowledged; it is a ``BadLine`` even if it parses.
    """
    for number, line in enumerate(split_lines(readline, offset=offset), first):
        parsed = parse_line(line.body) if line.ended else "was not written to its end"
        if isinstance(parsed, str):
            yield BadLine(number, line.offset, line.length, parsed), line.ended
        else:
            yield Item(number, line.offset, line.body, parsed), line.ended


# ------------------------------------------------------------------- chain


class Chain:
    """Checks record by record that a file is one strict chain.

    Args:
        header: The header, if the beginning is known to be good.
        last_uuid: Id of the last record that is known to be good.
        count: How many those are; their ids are not known.

    Attributes:
        header: The header, once it was seen.
        last_uuid: Id of the last record.
        newer: Whether the file's format is newer than this program's.
    """

    def __init__(
        self,
        *,
        header: SessionHeader | None = None,
        last_uuid: str | None = None,
        count: int = 0,
    ) -> None:
        self.header = header
        self.last_uuid = last_uuid
        self.newer = header is not None and header.version > VERSION
        self._trusted = count
        self._seen: set[str] = {uuid for uuid in (last_uuid,) if uuid is not None}

    @property
    def count(self) -> int:
        """How many records there are."""
        return max(self._trusted - 1, 0) + len(self._seen)

    def knows(self, uuid: str) -> bool:
        """Whether there is a record of that id."""
        return uuid in self._seen

    def step(self, record: Record) -> str:
        """Take the next record; return what is wrong, empty if nothing.

        A duplicate is not taken. After a break the chain goes on from the
        record at which it broke.
        """
        if record.uuid in self._seen:
            return f"has the id {record.uuid!r}, which an earlier record has"
        problem = self._problem(record)
        self._seen.add(record.uuid)
        self.last_uuid = record.uuid
        return problem

    def _problem(self, record: Record) -> str:
        if isinstance(record, SessionHeader):
            if self._seen or record.parent_uuid is not None:
                return "is a header in the middle of the file"
            if record.format != FORMAT:
                return f"has the format {record.format!r}, not {FORMAT!r}"
            self.header = record
            self.newer = record.version > VERSION
            return ""
        if not self._seen:
            return "is not a session's header"
        if record.parent_uuid != self.last_uuid:
            return f"does not follow the record {self.last_uuid!r} before it"
        if self.header is not None and record.session_id != self.header.session_id:
            return f"belongs to the session {record.session_id!r}"
        return ""


def chain_break(lines: Iterable[bytes]) -> int | None:
    """Check a chain by each line's fixed prefix, without parsing the records.

    Args:
        lines: The file's lines, with or without their newlines.

    Returns:
        Number of the first line (from 1) that breaks the chain, or whose
        prefix is not as this program writes it; None if there is none.
    """
    last: bytes | None = None
    session: bytes | None = None
    match = _PREFIX.match
    seen = set()
    for number, line in enumerate(lines, 1):
        found = match(line)
        if found is None:
            return number
        kind, uuid, parent, owner, _ = found.groups()
        if parent != last or uuid in seen or (kind == b"session") != (number == 1):
            return number
        if session is None:
            session = owner
        elif owner != session:
            return number
        seen.add(uuid)
        last = uuid
    return None


def peek(line: bytes) -> tuple[str, str, str] | None:
    """Return type, uuid and timestamp by a line's prefix; None if it has none."""
    found = _PREFIX.match(line)
    if found is None:
        return None
    return (
        found[1].decode("ascii"),
        found[2].decode("utf-8", "replace"),
        found[5].decode("utf-8", "replace"),
    )
