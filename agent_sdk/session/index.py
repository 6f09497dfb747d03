"""``<id>.index`` beside a session file: what its records come to.

With it a long session opens without being read from the start. It is derived and may be deleted at any time; whoever owns the session's file
writes it again. It holds one line of facts, which lists are made of, and a
snapshot of the state.

It is trusted only where the file is still the one it was made of: the same
inode, not shorter, and with the same last line, at the same place. Blocks
spread over the file must have their checksum. If the file has not grown, its
modification time must be the same too. What was added since is read and
checked in full, by whoever loads it. So an editor, a tool that writes the file
anew, or a copy makes the index useless, and all is read again. What is not
seen: bytes changed in place between the sampled blocks after the file has
grown without its index, which takes a crash and an edit before the next start;
and a new record with the id of one before the index. A full load sees both.
"""

import logging
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import StorageError
from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults
from agent_sdk.core.fsio import replace_file
from agent_sdk.core.usage import Usage, total
from agent_sdk.session.codec import MAX_RECORD_BYTES, peek
from agent_sdk.session.records import FORMAT, VERSION
from agent_sdk.session.state_snapshot import (
    MAX_SNAPSHOT_BYTES,
    StateSnapshot,
    UnusableSnapshot,
    snapshot_from_bytes,
    snapshot_to_bytes,
)

logger = logging.getLogger("zpi.session")

INDEX_VERSION = 1
MIN_FILE_BYTES = 256 * 1024
"""Files below this are read as fast without an index."""

MAX_FACTS_BYTES = 16 * 1024
_BLOCK = 4096
_SAMPLES = 16
_MAX_PROMPT = 200  # characters


class IndexFacts(Struct, frozen=True, kw_only=True):
    """The first line of an index.

    Attributes:
        version: Version of the index.
        size: Bytes of the session file that are covered.
        inode: The file's number in its file system.
        mtime_ns: When it was changed last, in nanoseconds.
        last_uuid: Id of the last record that is covered.
        last_length: Bytes of its line, with the newline.
        checksum: Of that line, and of blocks spread over the file.
        count: Records that are covered.
        session_id: The session.
        cwd: Its folder.
        created: Wall clock of the first record, ISO 8601.
        last_used: Wall clock of the last one.
        title: Title that was set; empty for none.
        first_prompt: Beginning of the first prompt, on one line.
        model: ``provider/id`` in force.
        usage: Tokens of all requests.
        compaction_uuid: The compaction in force; empty for none.
        snapshot: Bytes of the snapshot that follows; 0 for none.
    """

    version: int
    size: int
    inode: int
    mtime_ns: int
    last_uuid: str
    last_length: int
    checksum: int
    count: int
    session_id: str
    cwd: str
    created: str
    last_used: str
    title: str = ""
    first_prompt: str = ""
    model: str = ""
    usage: Usage = Usage()
    compaction_uuid: str = ""
    snapshot: int = 0


class Indexed(Struct, frozen=True):
    """A good index: what the beginning of a file comes to, and where that ends."""

    snapshot: StateSnapshot
    size: int


_facts: msgspec.json.Decoder[IndexFacts] = msgspec.json.Decoder(IndexFacts)


def index_path(path: Path) -> Path:
    """Return where the index of a session file is."""
    return path.with_suffix(".index")


# ----------------------------------------------------------------- writing


def write_index(
    path: Path, snapshot: StateSnapshot, *, faults: Faults | None = PROCESS_FAULTS
) -> int | None:
    """Write the index of a session file; only for the file's owner.

    Args:
        path: The session file.
        snapshot: The state as of the file's last record.
        faults: The armed failpoint, if any.

    Returns:
        The bytes that were written. None if nothing was: the file has gone on
        since the snapshot was taken, is too small to gain from an index, or
        the index could not be written, which is logged and costs no more than
        time when the session is opened.
    """
    try:
        with path.open("rb") as stream:
            facts = _make_facts(stream, snapshot)
    except OSError as error:
        logger.warning("no index of %s: %s", path, error)
        return None
    if facts is None:
        return None
    body = snapshot_to_bytes(snapshot) or b""
    line = msgspec.json.encode(msgspec.structs.replace(facts, snapshot=len(body)))
    if len(line) >= MAX_FACTS_BYTES:
        return None  # an odd session: a title of many pages
    data = line + b"\n" + body
    try:
        replace_file(index_path(path), data, faults=faults)
    except StorageError as error:
        logger.warning("no index of %s: %s", path, error)
        return None
    return len(data)


def _make_facts(stream: BinaryIO, snapshot: StateSnapshot) -> IndexFacts | None:
    said = snapshot.facts
    status = os.fstat(stream.fileno())
    if status.st_size < MIN_FILE_BYTES:
        return None
    line = _last_line(stream, status.st_size)
    seen = peek(line)
    if seen is None or seen[1] != said.last_uuid:
        return None
    return IndexFacts(
        version=INDEX_VERSION,
        size=status.st_size,
        inode=status.st_ino,
        mtime_ns=status.st_mtime_ns,
        last_uuid=said.last_uuid,
        last_length=len(line),
        checksum=_checksum(stream, size=status.st_size, last_length=len(line)),
        count=said.count,
        session_id=said.header.session_id,
        cwd=said.header.cwd,
        created=said.header.timestamp,
        last_used=said.timestamp,
        title=said.title,
        first_prompt=short_prompt(said.first_prompt),
        model=said.model,
        usage=total(said.spent.values()),
        compaction_uuid=said.compaction.uuid if said.compaction else "",
    )


def short_prompt(text: str) -> str:
    """Return the beginning of a prompt on one line, as lists show it."""
    return " ".join(text[:_MAX_PROMPT].split())


def _last_line(stream: BinaryIO, size: int) -> bytes:
    """Return the last line with its newline; empty if the file does not end with one."""
    length = 16 * _BLOCK
    while True:
        length = min(length, size)
        stream.seek(size - length)
        tail = stream.read(length)
        if tail[-1:] != b"\n":
            return b""
        at = tail.rfind(b"\n", 0, -1)
        if at >= 0 or length == size:
            return tail[at + 1 :]
        if length > MAX_RECORD_BYTES:
            return b""
        length *= 4


def _checksum(stream: BinaryIO, *, size: int, last_length: int) -> int:
    stream.seek(size - last_length)
    value = zlib.crc32(stream.read(last_length))
    for n in range(_SAMPLES):
        stream.seek((size - _BLOCK) * n // _SAMPLES)
        value = zlib.crc32(stream.read(_BLOCK), value)
    return value


# ----------------------------------------------------------------- reading


def read_facts(path: Path) -> IndexFacts | None:
    """Return the facts of a session file's index, if it has not changed since.

    The file itself is not read: this is for lists.
    """
    try:
        with index_path(path).open("rb") as stream:
            facts = _read_line(stream)
        status = path.stat()
    except OSError:
        return None
    if facts is None or not _same(facts, status) or status.st_size != facts.size:
        return None
    return facts


def read_index(path: Path, blob: Callable[[str], bytes | None]) -> Indexed | None:
    """Return the index of a session file, if it can be trusted.

    Args:
        path: The session file.
        blob: Returns an artifact by its hash, or None if it is not there.
    """
    try:
        with index_path(path).open("rb") as stream:
            facts = _read_line(stream)
            if facts is None or not 0 < facts.snapshot <= 2 * MAX_SNAPSHOT_BYTES:
                return None
            data = stream.read(facts.snapshot + 1)
        with path.open("rb") as stream:
            if not _fits(facts, stream):
                return None
        snapshot = snapshot_from_bytes(data, blob)
    except FileNotFoundError:
        return None
    except (OSError, UnusableSnapshot) as error:
        logger.info("the index of %s is not used: %s", path, error)
        return None
    said = snapshot.facts
    if said.last_uuid != facts.last_uuid or said.header.session_id != facts.session_id:
        return None
    if said.header.format != FORMAT or said.header.version > VERSION:
        return None
    return Indexed(snapshot, facts.size)


def _read_line(stream: BinaryIO) -> IndexFacts | None:
    line = stream.readline(MAX_FACTS_BYTES)
    try:
        facts = _facts.decode(line) if line[-1:] == b"\n" else None
    except (msgspec.MsgspecError, RecursionError):
        return None
    return facts if facts is not None and facts.version == INDEX_VERSION else None


def _same(facts: IndexFacts, status: os.stat_result) -> bool:
    """Whether the file is the one that was indexed, as far as its entry tells."""
    if not facts.inode or status.st_ino != facts.inode or status.st_size < facts.size:
        return False
    return status.st_size > facts.size or status.st_mtime_ns == facts.mtime_ns


def _fits(facts: IndexFacts, stream: BinaryIO) -> bool:
    if not _same(facts, os.fstat(stream.fileno())):
        return False
    if not 0 < facts.last_length <= min(facts.size, MAX_RECORD_BYTES + 1):
        return False
    stream.seek(facts.size - 1)
    if stream.read(1) != b"\n":
        return False
    known = _checksum(stream, size=facts.size, last_length=facts.last_length)
    return known == facts.checksum
