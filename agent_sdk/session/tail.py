"""The end of a session's file, without reading what is before.

For whoever wants to see the last messages at once, however long the session
is; nothing is checked but that each line is a record.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from agent_sdk.core.errors import SessionNotFound
from agent_sdk.core.fsio import storage_error
from agent_sdk.session.codec import parse_line
from agent_sdk.session.records import AssistantRecord, Record, RewindRecord, UserRecord
from agent_sdk.session.replay import in_view

_BLOCK = 256 * 1024


def read_tail(path: Path, *, messages: int) -> tuple[Record, ...]:
    """Return the last records in view, in order, with at least so many messages.

    Fewer come only where there are no more. Lines that are broken are left
    out; artifacts stay pointers.

    Args:
        path: The session file.
        messages: How many prompts, answers and results are wanted.

    Raises:
        SessionNotFound: If there is no such file.
        StorageError: If it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return _read(stream, messages)
    except FileNotFoundError as error:
        raise SessionNotFound(f"There is no session file {str(path)!r}.") from error
    except OSError as error:
        raise storage_error(error, path, "read") from error


def _read(stream: BinaryIO, messages: int) -> tuple[Record, ...]:
    size = stream.seek(0, os.SEEK_END)
    length = _BLOCK
    while True:
        start = max(0, size - length)
        stream.seek(start)
        lines = stream.read(size - start).split(b"\n")[:-1]  # a cut last line never counted
        records = [
            record
            for line in (lines if start == 0 else lines[1:])
            if not isinstance(record := parse_line(line), str)
        ]
        if start == 0 or _is_enough(records, messages):
            return tuple(in_view(records))
        length *= 4


def _is_enough(records: Sequence[Record], messages: int) -> bool:
    """Whether the messages are there, and every rewind leads to a record that is, too."""
    known = {record.uuid for record in records}
    seen = list(in_view(records))
    if any(isinstance(record, RewindRecord) and record.to_uuid not in known for record in seen):
        return False
    return sum(isinstance(record, UserRecord | AssistantRecord) for record in seen) >= messages
