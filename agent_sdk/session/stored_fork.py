"""Forks of sessions: in files, with their children, or in memory.

Everything of the source is read and checked before anything of the fork can
be seen: its children first, and then its own file, all at once. The source
may be in use; what is durable of it is forked. ``fork_session`` blocks; on an
event loop it is called in a thread.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from agent_sdk.core.errors import (
    ForkFailed,
    InvalidInput,
    SessionDamaged,
    SessionNotFound,
    SessionReadOnly,
    StorageError,
)
from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults
from agent_sdk.core.fsio import AppendLog, make_dirs, publish_file, storage_error
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.session.codec import Item, parse_line
from agent_sdk.session.fork import Fork, NewIds
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.paths import find_session
from agent_sdk.session.records import SessionHeader
from agent_sdk.session.store import LoadReport, MemoryStore, TranscriptStore, scan

_BATCH = 4 * 1024 * 1024
CHILDREN = "subagents"


def fork_session(
    session_id: str,
    *,
    sessions_dir: str | Path,
    ids: Ids,
    clock: Clock,
    up_to: str | None = None,
    faults: Faults | None = PROCESS_FAULTS,
) -> str:
    """Make a new session with the records of another, under new ids.

    Args:
        session_id: The source's id, or a unique beginning of at least 8 characters.
        sessions_dir: Folder of all sessions.
        ids: Source of ids.
        clock: Source of time.
        up_to: Id of the message with which the fork ends; None for all. Only
            children that were called for by then go along.
        faults: The armed failpoint, for tests.

    Returns:
        Id of the fork; it lies beside its source.

    Raises:
        InvalidInput: If it is no session id, or there is no such message.
        SessionNotFound: If there is no such session.
        SessionDamaged: If it or one of its children is broken.
        SessionReadOnly: If it was written by a newer version.
        ForkFailed: If the fork could not be written; names the fork's id.
    """
    source = find_session(sessions_dir, session_id)
    tree = _Tree(source, ids=ids, clock=clock, up_to=up_to, faults=faults)
    done = False
    try:
        tree.write()
        done = True
    except StorageError as error:
        if isinstance(error, SessionNotFound | SessionDamaged | SessionReadOnly):
            raise
        text = f"The session {source.stem!r} could not be forked: {error.message}"
        raise ForkFailed(text, session_id=tree.session_id, hint=error.hint) from error
    finally:
        if not done:
            tree.remove()
    return tree.session_id


class _Draft:
    """A session's file on its way: whole or not at all."""

    def __init__(self, target: Path, *, faults: Faults | None) -> None:
        self.target = target
        self._faults = faults
        self._temp = target.with_name(f".{target.stem}.tmp")
        self._log: AppendLog | None = None
        self._lines: list[bytes] = []
        self._size = 0

    def put(self, line: bytes) -> None:
        """Add a line."""
        self._lines.append(line)
        self._size += len(line)
        if self._size >= _BATCH:
            self._flush()

    def finish(self) -> None:
        """Have everything on the disk, under a name that is not yet the file's."""
        self._flush()
        if self._log is not None:
            self._log.close()

    def publish(self) -> None:
        """Give the file its name."""
        publish_file(self._temp, self.target, faults=self._faults)

    def remove(self) -> None:
        """Take everything back, as far as that can be done."""
        if self._log is not None:
            self._log.close()
        for path in (self._temp, self.target):
            with contextlib.suppress(OSError):
                path.unlink()

    def _flush(self) -> None:
        if self._log is None:
            make_dirs(self._temp.parent, faults=self._faults)
            self._log = AppendLog.create(self._temp, faults=self._faults)
        if self._lines:
            self._log.append(b"\n".join([*self._lines, b""]))
        self._lines, self._size = [], 0


class _Tree:
    """A session and its children, to be forked together."""

    def __init__(
        self, source: Path, *, ids: Ids, clock: Clock, up_to: str | None, faults: Faults | None
    ) -> None:
        self.session_id = ids.new()
        self._source = source
        self._ids = ids
        self._clock = clock
        self._up_to = up_to
        self._faults = faults
        self._new = NewIds(ids)
        self._drafts: list[_Draft] = []

    def write(self) -> None:
        """Write children and session, and let them be seen in this order."""
        target = self._source.with_name(f"{self.session_id}.jsonl")
        fork = Fork(new=self._new, ids=self._ids, up_to=self._up_to)
        main = self._copied(self._source, target, fork, session_id=self.session_id)
        main.put(fork.mark(self._clock))
        main.finish()
        folder = target.with_suffix("") / CHILDREN
        waiting = dict(self._children())
        while due := [path for path, call in waiting.items() if call in self._new.tools]:
            for path in due:
                del waiting[path]
                child = Fork(new=self._new, ids=self._ids)
                self._copied(path, folder / path.name, child).finish()
        for draft in (*self._drafts[1:], main):
            draft.publish()

    def remove(self) -> None:
        """Take everything back, as far as that can be done."""
        for draft in self._drafts:
            draft.remove()
        folder = self._source.with_name(self.session_id)
        for path in (folder / CHILDREN, folder):
            with contextlib.suppress(OSError):
                path.rmdir()

    def _copied(
        self, source: Path, target: Path, fork: Fork, *, session_id: str | None = None
    ) -> _Draft:
        draft = _Draft(target, faults=self._faults)
        self._drafts.append(draft)

        def visit(item: Item) -> None:
            if session_id is not None and isinstance(item.record, SessionHeader):
                self._new.others[item.record.session_id] = session_id
            line = fork.line(item)
            if line is not None:
                draft.put(line)

        try:
            with source.open("rb", buffering=1 << 18) as stream:
                report = scan(stream.readline, visit)
        except OSError as error:
            raise storage_error(error, source, "read") from error
        _check(report, str(source))
        if not fork.reached:
            raise InvalidInput(f"The session {source.stem!r} has no message {self._up_to!r}.")
        return draft

    def _children(self) -> Iterator[tuple[Path, str]]:
        """Yield the source's children and the call that started each."""
        folder = self._source.with_suffix("") / CHILDREN
        for path in sorted(folder.glob("agent-*.jsonl")):
            try:
                with path.open("rb") as stream:
                    header = parse_line(stream.readline().rstrip(b"\n"))
            except OSError as error:
                raise storage_error(error, path, "read") from error
            if not isinstance(header, SessionHeader):
                raise SessionDamaged(f"The session file {str(path)!r} has no header.")
            yield path, header.parent_tool_use_id


async def fork_lines(
    source: TranscriptStore, *, ids: Ids, clock: Clock, up_to: str | None = None
) -> list[bytes]:
    """Return the lines of a fork of a session without children, wherever it is kept.

    Args:
        source: The session's store, not yet loaded; it is not closed.
        ids: Source of ids.
        clock: Source of time.
        up_to: As for ``fork_session``.

    Raises:
        InvalidInput: If there is no such message.
        SessionDamaged: If the session is broken.
        SessionReadOnly: If it was written by a newer version.
        StorageError: If it cannot be read.
    """
    fork = Fork(new=NewIds(ids), ids=ids, up_to=up_to)
    lines: list[bytes] = []

    def visit(item: Item) -> None:
        line = fork.line(item)
        if line is not None:
            lines.append(line)

    report = await source.load(visit)
    _check(report, fork.source_id)
    if not fork.reached:
        raise InvalidInput(f"The session {fork.source_id!r} has no message {up_to!r}.")
    return [*lines, fork.mark(clock)]


async def fork_in_memory(
    manager: SessionManager, *, ids: Ids, clock: Clock, up_to: str | None = None
) -> SessionManager:
    """Fork a session that is kept in memory; the fork is, too.

    Args:
        manager: The session; it goes on as before.
        ids: Source of ids.
        clock: Source of time.
        up_to: As for ``fork_session``.

    Raises:
        InvalidInput: If the session is not in memory, or has no such message.
        SessionNotFound: If nothing was ever said in it.
    """
    store = manager.store
    if not isinstance(store, MemoryStore):
        raise InvalidInput(
            f"The session {manager.session_id!r} is not in memory.", hint="Fork it by its id."
        )
    source = MemoryStore(lines=store.lines)
    lines = await fork_lines(source, ids=ids, clock=clock, up_to=up_to)
    copy = MemoryStore(lines=lines, blobs=store.blobs)
    return await SessionManager.from_store(copy, ids=ids, clock=clock)


def _check(report: LoadReport, name: str) -> None:
    if report.damage:
        bad = report.damage[0]
        raise SessionDamaged(
            f"The session {name!r} is damaged: line {bad.number} {bad.reason}.",
            hint="It can be read, but not forked.",
        )
    if not report.count:
        raise SessionNotFound(f"{name!r} holds no session.", hint="Nothing was ever saved in it.")
    if report.newer:
        raise SessionReadOnly(
            f"The session {name!r} was written by a newer ZPI.", hint="Fork it with that version."
        )
