"""What sessions there are, from each file's index or bounded reads of its two ends.

Files are never opened for writing here, and modification times decide
nothing but whether an index is of use: the last record says when a session
was last used.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import UNSET, Struct

from agent_sdk.core.errors import SessionNotFound
from agent_sdk.session.codec import MAX_RECORD_BYTES, parse_line, peek
from agent_sdk.session.history import is_prompt, prompt_text
from agent_sdk.session.index import read_facts, short_prompt
from agent_sdk.session.paths import project_key, real_folder, same_folder
from agent_sdk.session.records import (
    FORMAT,
    VERSION,
    SessionHeader,
    SessionInfoRecord,
    UserRecord,
)

_BLOCK = 64 * 1024
_WHOLE = 4 * _BLOCK  # smaller files are read whole
_MOST = MAX_RECORD_BYTES + 2 * _BLOCK


class SessionSummary(Struct, frozen=True, kw_only=True):
    """One session in a list.

    Attributes:
        session_id: Its id; for a file without a readable header its name.
        path: Its file.
        cwd: Its folder; empty if the header cannot be read.
        title: Title that was set, as far as the index or the file's ends show.
        first_prompt: Beginning of the first prompt.
        created: When it began, ISO 8601.
        last_used: When its last record was written, ISO 8601.
        size: Bytes of the file.
        damaged: Whether what was read holds broken lines, other than a torn
            tail; or the header cannot be read.
        newer: Whether only a newer version can write it.
    """

    session_id: str
    path: Path
    cwd: str = ""
    title: str = ""
    first_prompt: str = ""
    created: str = ""
    last_used: str = ""
    size: int = 0
    damaged: bool = False
    newer: bool = False

    @property
    def label(self) -> str:
        """The title, or else the first prompt."""
        return self.title or self.first_prompt


def list_sessions(sessions_dir: str | Path, cwd: str | Path | None = None) -> list[SessionSummary]:
    """Return the sessions, those used last first.

    Args:
        sessions_dir: Folder of all sessions.
        cwd: Only those of this folder (and damaged ones that may be its).

    Files in which nothing was ever saved are left out, as are files that
    cannot be read at all.
    """
    found = [s for path in _files(sessions_dir, cwd) if (s := summarize(path)) is not None]
    if cwd is not None:
        real = real_folder(cwd)
        found = [s for s in found if not s.cwd or same_folder(s.cwd, real)]
    return sorted(found, key=lambda s: (s.last_used, s.session_id), reverse=True)


def latest_session(sessions_dir: str | Path, cwd: str | Path) -> Path:
    """Return the file of the folder's session that was used last.

    Raises:
        SessionNotFound: If the folder has none.
    """
    found = [s for s in list_sessions(sessions_dir, cwd) if s.cwd]
    if not found:
        raise SessionNotFound(
            f"There is no session to continue in {real_folder(cwd)!r}.", hint="Start one first."
        )
    return found[0].path


def _files(sessions_dir: str | Path, cwd: str | Path | None) -> Iterator[Path]:
    root = Path(sessions_dir)
    yield from sorted(root.glob("*/*.jsonl" if cwd is None else f"{project_key(cwd)}/*.jsonl"))


def summarize(path: Path) -> SessionSummary | None:
    """Return what a session's index or the two ends of its file say; None if it holds nothing."""
    facts = read_facts(path)
    if facts is not None:
        return SessionSummary(
            session_id=facts.session_id,
            path=path,
            cwd=facts.cwd,
            title=facts.title,
            first_prompt=facts.first_prompt,
            created=facts.created,
            last_used=facts.last_used,
            size=facts.size,
        )
    try:
        with path.open("rb") as stream:
            size, lines = _ends(stream)
    except OSError:
        return None
    if not lines:
        return None  # not even a header was saved whole
    header = parse_line(lines[0])
    if not isinstance(header, SessionHeader) or header.format != FORMAT:
        return SessionSummary(session_id=path.stem, path=path, size=size, damaged=True)
    ends = _Ends()
    for line in lines:
        ends.take(line)
    return SessionSummary(
        session_id=header.session_id,
        path=path,
        cwd=header.cwd,
        title=ends.title,
        first_prompt=ends.prompt,
        created=header.timestamp,
        last_used=ends.timestamp,
        size=size,
        damaged=ends.damaged,
        newer=header.version > VERSION,
    )


def _ends(stream: BinaryIO) -> tuple[int, list[bytes]]:
    """Return a file's size and its whole lines near the beginning and the end."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if size <= _WHOLE:
        return size, stream.read(_WHOLE).split(b"\n")[:-1]
    head = stream.read(_BLOCK).split(b"\n")[:-1]
    length = _BLOCK
    while True:
        stream.seek(size - length)
        tail = stream.read(length)
        # Its first line is cut, unless the block begins with one by chance.
        if tail.count(b"\n") > 1 or length >= min(size, _MOST):
            return size, head + tail.split(b"\n")[1:-1]
        length = min(4 * length, size)


class _Ends:
    """What the lines of a session's two ends say."""

    def __init__(self) -> None:
        self.title = ""
        self.prompt = ""
        self.timestamp = ""
        self.damaged = False

    def take(self, line: bytes) -> None:
        """Take a line; only those that may matter are parsed."""
        seen = peek(line)
        if seen is not None and line[-1:] == b"}" and b"\0" not in line:
            kind, _, timestamp = seen
            self.timestamp = timestamp
            if kind != "session_info" and (kind != "user" or self.prompt):
                return
        record = parse_line(line)
        if isinstance(record, str):
            self.damaged = True
            return
        self.timestamp = record.timestamp
        if isinstance(record, SessionInfoRecord) and record.title is not UNSET:
            self.title = record.title or ""
        elif isinstance(record, UserRecord) and not self.prompt and is_prompt(record):
            self.prompt = short_prompt(prompt_text(record))
