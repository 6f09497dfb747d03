"""What a session has come to, kept by a host beside its transcript.

A host that has a store of its own gives two things: the transcript, which is
the truth, and the current state, which is derived from it and from which the
host makes its lists and the session opens without being read from the start.

The order is a write barrier: records are durable in the transcript, then the
state that they lead to is saved, then whoever appended them is told. So a
saved state is never ahead of its transcript; one that is behind after a crash
is caught up from the records that came since.
"""

from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults
from agent_sdk.core.fsio import make_dirs, replace_file, storage_error
from agent_sdk.session.state_snapshot import SnapshotFacts
from agent_sdk.session.store import LoadReport, TranscriptStore, Visit


class SavedState(Struct, frozen=True, kw_only=True):
    """A session's state as of one record.

    Attributes:
        session_id: The session.
        facts: What a host may show: title, model, reasoning level, permission
            mode and rules, tokens, to-do list, and the record and position
            that it all belongs to (``last_uuid``, ``count``).
        data: The whole state as bytes, to go on from; empty if it is too
            large, and then the session is read from the start.
    """

    session_id: str
    facts: SnapshotFacts
    data: bytes


class SessionCurrentState(Protocol):
    """Keeps the current state of one session.

    One manager owns it and never overlaps its calls. A failure is the
    session's failure: it takes no more records until it is opened again.
    """

    async def load(self) -> SavedState | None:
        """Return what was saved last; None for nothing, or nothing that can be read.

        Raises:
            StorageError: If the store failed.
        """
        ...

    async def save(self, state: SavedState) -> None:
        """Put a state in the place of the one before; return when it is durable.

        Raises:
            StorageError: If it failed; the one before is still there then.
        """
        ...

    async def close(self) -> None:
        """Let go; may be called twice."""
        ...


@runtime_checkable
class LazyTranscript(TranscriptStore, Protocol):
    """A transcript that need not be read from its beginning.

    Unlike in other transcripts, ``load`` and ``load_after`` may be called
    again, at any time between two appends.
    """

    async def load_after(self, visit: Visit, *, facts: SnapshotFacts) -> LoadReport | None:
        """Read what came after a state; otherwise like ``load``.

        Args:
            visit: Called with each record that came later.
            facts: The state: ``count`` records, of which ``last_uuid`` is the last.

        Returns:
            What is there, the records before included. None if that record
            is not at that place; nothing was visited then.

        Raises:
            StorageError: As for ``load``.
        """
        ...


class MemoryCurrentState:
    """Keeps the current state in memory.

    Attributes:
        saved: What was saved last.
    """

    def __init__(self, saved: SavedState | None = None) -> None:
        self.saved = saved

    async def load(self) -> SavedState | None:
        """Return what was saved last."""
        return self.saved

    async def save(self, state: SavedState) -> None:
        """Keep the state."""
        self.saved = state

    async def close(self) -> None:
        """Keep what there is."""


class FileCurrentState:
    """Keeps the current state in a file, which is replaced as a whole.

    Args:
        path: The file; its folder is made when it is first written.
        faults: The armed failpoint, if any.
    """

    def __init__(self, path: Path, *, faults: Faults | None = PROCESS_FAULTS) -> None:
        self._path = path
        self._faults = faults

    async def load(self) -> SavedState | None:
        """Read the file."""
        try:
            return saved_from_bytes(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, self._path, "read") from error

    async def save(self, state: SavedState) -> None:
        """Replace the file."""
        make_dirs(self._path.parent, faults=self._faults)
        replace_file(self._path, saved_to_bytes(state), faults=self._faults)

    async def close(self) -> None:
        """Hold nothing."""


class _Line(Struct, frozen=True):
    session_id: str
    facts: SnapshotFacts


_lines: msgspec.json.Decoder[_Line] = msgspec.json.Decoder(_Line)


def saved_to_bytes(state: SavedState) -> bytes:
    """Return a state as bytes: a line of JSON for the facts, then the data."""
    line = msgspec.json.encode(_Line(state.session_id, state.facts))
    return line + b"\n" + state.data


def saved_from_bytes(body: bytes) -> SavedState | None:
    """Return the state for its bytes; None if this version cannot read them."""
    line, newline, data = body.partition(b"\n")
    if not newline:
        return None
    try:
        found = _lines.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return None  # of another version: it is derived again from the records
    return SavedState(session_id=found.session_id, facts=found.facts, data=data)
