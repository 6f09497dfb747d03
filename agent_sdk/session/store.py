"""Where a session's lines are kept: a file, or memory.

``TranscriptStore`` is the seam for hosts with a store of their own. A store
keeps lines in order and says when they are durable; what they mean is the
manager's business.

``JsonlStore`` owns one file and one thread. Whatever is queued when the
thread is free goes down with one write and one sync; there is no timer.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace as structs_replace

from agent_sdk.core.errors import (
    SessionDamaged,
    SessionLocked,
    SessionNotFound,
    SessionReadOnly,
    StorageError,
)
from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults
from agent_sdk.core.fsio import (
    AppendLog,
    copy_aside,
    make_dirs,
    replace_file,
    storage_error,
)
from agent_sdk.session.artifacts import MAX_ARTIFACT_BYTES
from agent_sdk.session.codec import BadLine, Chain, Item, peek, read_items
from agent_sdk.session.index import Indexed, read_index, write_index
from agent_sdk.session.state_snapshot import SnapshotFacts, StateSnapshot
from agent_sdk.session.writer import WriterThread

Visit: TypeAlias = Callable[[Item], None]


class LoadReport(Struct, frozen=True, kw_only=True):
    """What a store holds.

    Attributes:
        count: Good records.
        newer: Whether the format is newer than this program's.
        size: Bytes up to the end of the last good line.
        damage: Lines that are broken, or do not follow the one before.
        torn: What the last write left unfinished, if it did.
        saved_as: The copy of that, once it was cut off.
    """

    count: int = 0
    newer: bool = False
    size: int = 0
    damage: tuple[BadLine, ...] = ()
    torn: BadLine | None = None
    saved_as: Path | None = None


class TranscriptStore(Protocol):
    """Keeps the lines of one session.

    One manager owns a store and never overlaps its calls; it may be used
    from one event loop only.
    """

    @property
    def path(self) -> Path | None:
        """The file, where there is one."""
        ...

    @property
    def writable(self) -> bool:
        """Whether appends can succeed."""
        ...

    async def load(self, visit: Visit) -> LoadReport:
        """Read everything, once, before anything else.

        ``visit`` is called with each good record in order, perhaps on
        another thread, but before this returns. A writing store becomes the
        owner and repairs a torn tail first.

        Raises:
            SessionNotFound: If there is nothing.
            SessionLocked: If someone else writes it.
            SessionDamaged: If it is to be written and is broken in the middle.
            StorageError: If it cannot be read.
        """
        ...

    async def append(self, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> None:
        """Add lines (without newlines), all or none; return when they are durable.

        Args:
            lines: Encoded records.
            blobs: Artifacts that they point to, by hash; durable before them.

        Raises:
            DiskFull: If there is no room now; later appends may succeed.
            StorageError: If it failed; see ``writable``.
        """
        ...

    def blob(self, name: str) -> bytes | None:
        """Return an artifact by its hash, or None; may be called while loading."""
        ...

    async def close(self) -> None:
        """Finish what is queued and let go; may be called twice."""
        ...


@runtime_checkable
class StateKeeper(TranscriptStore, Protocol):
    """A store that also keeps what its records came to, so that opening is quick.

    What it keeps is derived: losing it costs time only. A manager asks a
    store that is one; every other store is read from the start.
    """

    async def load_state(self) -> StateSnapshot | None:
        """Return what was kept last, if it still is what the records come to.

        May be called before anything else. None means that ``load`` is to be
        used. A writing store becomes the owner, as when it loads.

        Raises:
            StorageError: As for ``load``.
        """
        ...

    async def load_rest(self, visit: Visit) -> LoadReport:
        """Read what came after the state that ``load_state`` has returned.

        Like ``load``, which may be called afterwards, when the state turns
        out not to be enough.
        """
        ...

    async def load_again(self, visit: Visit) -> None:
        """Read the records once more, from the first to the last.

        Raises:
            StorageError: If they cannot be read, or have changed meanwhile.
        """
        ...

    @property
    def state_due(self) -> bool:
        """Whether so much was appended that the state is worth being kept now."""
        ...

    @property
    def strict(self) -> bool:
        """Whether an append ends only when a state that is due is kept, and fails if it is not."""
        ...

    async def keep_state(self, snapshot: StateSnapshot) -> None:
        """Keep a state for the next time, unless records have come since.

        Raises:
            StorageError: If it failed and the store is strict; otherwise
                that is logged and changes nothing.
        """
        ...


def scan(
    readline: Callable[[int], bytes],
    visit: Visit,
    *,
    chain: Chain | None = None,
    start: int = 0,
) -> LoadReport:
    """Read lines, visit the good ones and tell torn tail from damage.

    At most the last whole line and the fragment behind it are a torn tail;
    with more broken lines, or one before a good one, the file is damaged.

    Args:
        readline: Of a binary stream; takes the most bytes to return.
        visit: Called with each good record.
        chain: What is before the first of these lines; nothing by default.
        start: Where that ends, in bytes.
    """
    chain = chain or Chain()
    damage: list[BadLine] = []
    tail: list[BadLine] = []  # broken lines behind the last good one
    good_end = start
    fragment = False
    for line, ended in read_items(readline, first=chain.count + 1, offset=start):
        if isinstance(line, BadLine):
            tail.append(line)
            fragment = not ended
            continue
        damage += tail
        tail = []
        known = chain.knows(line.record.uuid)
        problem = chain.step(line.record)
        good_end = line.offset + len(line.raw) + 1
        if problem:
            damage.append(BadLine(line.number, line.offset, len(line.raw) + 1, problem))
        if not known:
            visit(line)
    torn = None
    if tail:
        whole = len(tail) - (1 if fragment else 0)
        if whole > 1:
            damage += tail
        else:
            length = sum(line.length for line in tail)
            torn = BadLine(tail[0].number, tail[0].offset, length, tail[0].reason)
    return LoadReport(
        count=chain.count,
        newer=chain.newer,
        size=good_end,
        damage=tuple(damage),
        torn=torn,
    )


class MemoryStore:
    """Keeps lines in memory only."""

    def __init__(self, *, lines: Sequence[bytes] = (), blobs: Mapping[str, bytes] = {}) -> None:
        self.lines = list(lines)
        self.blobs = dict(blobs)
        self._closed = False

    @property
    def path(self) -> Path | None:
        """None."""
        return None

    @property
    def writable(self) -> bool:
        """Whether it is open."""
        return not self._closed

    async def load(self, visit: Visit) -> LoadReport:
        """Visit the lines that it was made with."""
        rest = iter([line + b"\n" for line in self.lines])
        return scan(lambda _limit: next(rest, b""), visit)

    async def load_after(self, visit: Visit, *, facts: SnapshotFacts) -> LoadReport | None:
        """Visit the lines behind a state; see ``LazyTranscript``."""
        at = facts.count
        found = peek(self.lines[at - 1]) if 0 < at <= len(self.lines) else None
        if found is None or found[1] != facts.last_uuid:
            return None
        rest = iter([line + b"\n" for line in self.lines[at:]])
        chain = Chain(header=facts.header, last_uuid=facts.last_uuid, count=at)
        return scan(lambda _limit: next(rest, b""), visit, chain=chain)

    async def append(self, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> None:
        """Add lines."""
        if self._closed:
            raise StorageError("The session is closed.")
        self.lines.extend(lines)
        self.blobs.update(blobs)

    def blob(self, name: str) -> bytes | None:
        """Return an artifact by its hash."""
        return self.blobs.get(name)

    async def close(self) -> None:
        """Take no more lines."""
        self._closed = True


Mode: TypeAlias = Literal["new", "write", "read"]

_CLOSED = "The session is closed."

INDEX_EVERY_BYTES = 8 * 1024 * 1024
"""An index is written again when so much was appended, or twice its own size."""


class JsonlStore:
    """One session file, written by one thread.

    Args:
        path: The file.
        mode: ``new`` (it is made with the first append), ``write`` (it is
            there, and this becomes its owner) or ``read``.
        blobs_dir: Folder of the artifacts.
        stamp: Returns a text for the name of a torn tail's copy.
        faults: The armed failpoint, if any.
    """

    def __init__(
        self,
        *,
        path: Path,
        mode: Mode,
        blobs_dir: Path,
        stamp: Callable[[], str],
        faults: Faults | None = PROCESS_FAULTS,
    ) -> None:
        self._path = path
        self._mode = mode
        self._blobs_dir = blobs_dir
        self._stamp = stamp
        self._faults = faults
        self._log: AppendLog | None = None
        self._closed = False
        self._newer = False
        self._indexed: Indexed | None = None
        self._growth = 0  # bytes that no index covers
        self._due = INDEX_EVERY_BYTES
        self._thread = WriterThread(self._commit, name=f"zpi-session-{path.stem[:8]}")

    @property
    def path(self) -> Path | None:
        """The file."""
        return self._path

    @property
    def writable(self) -> bool:
        """Whether appends can succeed."""
        failed = self._log is not None and self._log.failure is not None
        return self._mode != "read" and not (self._closed or self._newer or failed)

    async def load(self, visit: Visit) -> LoadReport:
        """Read the file on the writer's thread; see the protocol."""
        if self._mode == "new":
            return LoadReport()
        return await self._thread.call(lambda: self._load(visit))

    async def append(self, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> None:
        """Queue the lines and wait until they are durable; see the protocol.

        A caller that is cancelled while it waits does not know whether they
        were stored; they are not taken back.
        """
        if not lines:
            return
        if self._closed:
            raise StorageError(_CLOSED)
        if not self.writable:
            raise SessionReadOnly(
                f"The session file {str(self._path)!r} is not written to any more.",
                hint="Open the session again to go on.",
            )
        data = b"\n".join([*lines, b""])
        await self._thread.commit(data, blobs)
        self._growth += len(data)

    def blob(self, name: str) -> bytes | None:
        """Read an artifact by its hash."""
        path = self._blobs_dir / name
        if not (name.isalnum() and name.isascii()):
            return None
        try:
            if path.stat().st_size > MAX_ARTIFACT_BYTES:
                return None
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, path, "read") from error

    async def load_state(self) -> StateSnapshot | None:
        """Return what the index holds, if it is good; see ``StateKeeper``."""
        if self._mode == "new":
            return None
        return await self._thread.call(self._load_state)

    async def load_rest(self, visit: Visit) -> LoadReport:
        """Read what came after the index; see ``StateKeeper``."""
        return await self._thread.call(lambda: self._load(visit, after=self._indexed))

    async def load_again(self, visit: Visit) -> None:
        """Read the file once more; see ``StateKeeper``."""
        report = await self._thread.call(lambda: self._scan(visit, None))
        if report.damage or report.torn:
            raise SessionDamaged(
                f"The session file {str(self._path)!r} has changed while it was open.",
                hint="Open the session again.",
            )

    @property
    def state_due(self) -> bool:
        """Whether the index has fallen far behind."""
        return self.writable and self._growth >= self._due

    @property
    def strict(self) -> bool:
        """False: the index only saves time."""
        return False

    async def keep_state(self, snapshot: StateSnapshot) -> None:
        """Write the index, if it is behind; see ``StateKeeper``."""
        if self._growth and self.writable and self._log is not None:
            self._growth = 0
            await self._thread.call(lambda: self._write_index(snapshot))

    async def close(self) -> None:
        """Finish what is queued, release the lock and end the thread."""
        if self._closed:
            return
        self._closed = True
        await self._thread.close(self._release)

    # --- on the writer's thread

    def _load_state(self) -> StateSnapshot | None:
        try:
            if self._mode != "read":
                self._log = self._log or self._open()
            self._indexed = read_index(self._path, self.blob)
        except BaseException:
            self._release()
            raise
        return self._indexed.snapshot if self._indexed else None

    def _load(self, visit: Visit, after: Indexed | None = None) -> LoadReport:
        if self._mode == "read":
            return self._scan(visit, after)
        try:
            self._log = self._log or self._open()
            report = self._scan(visit, after)
            self._growth = report.size - (after.size if after else 0)
            self._newer = report.newer
            if report.newer:
                self._release()
                return report
            self._check(report)
            return self._repair(report)
        except BaseException:
            self._release()
            raise

    def _write_index(self, snapshot: StateSnapshot) -> None:
        written = write_index(self._path, snapshot, faults=self._faults)
        if written is not None:
            self._due = max(INDEX_EVERY_BYTES, 2 * written)

    def _open(self) -> AppendLog:
        try:
            log = AppendLog.open(self._path, faults=self._faults)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise SessionNotFound(f"There is no session file {str(self._path)!r}.") from error
            raise
        return self._locked(log)

    def _locked(self, log: AppendLog) -> AppendLog:
        try:
            if log.lock():
                return log
        except BaseException:
            log.close()
            raise
        log.close()
        raise SessionLocked(
            f"Another process is writing the session file {str(self._path)!r}.",
            hint="Close the other window or command that uses it, or start a new session.",
        )

    def _scan(self, visit: Visit, after: Indexed | None) -> LoadReport:
        try:
            with self._path.open("rb", buffering=1 << 18) as stream:
                if after is None:
                    return scan(stream.readline, visit)
                facts = after.snapshot.facts
                chain = Chain(header=facts.header, last_uuid=facts.last_uuid, count=facts.count)
                stream.seek(after.size)
                return scan(stream.readline, visit, chain=chain, start=after.size)
        except FileNotFoundError as error:
            raise SessionNotFound(f"There is no session file {str(self._path)!r}.") from error
        except OSError as error:
            raise storage_error(error, self._path, "read") from error

    def _check(self, report: LoadReport) -> None:
        if report.damage:
            shown = "; ".join(f"line {bad.number} {bad.reason}" for bad in report.damage[:3])
            more = f" and {len(report.damage) - 3} more" if len(report.damage) > 3 else ""
            raise SessionDamaged(
                f"The session file {str(self._path)!r} is damaged: {shown}{more}.",
                hint="It can still be read; to go on, start a new session. The file was not changed.",
            )
        if not report.count:
            why = f": its first line {report.torn.reason}" if report.torn else ""
            raise SessionNotFound(
                f"The file {str(self._path)!r} holds no session{why}.",
                hint="Nothing was ever saved in it; start a new session.",
            )

    def _repair(self, report: LoadReport) -> LoadReport:
        """Cut off what the last write left unfinished, after copying it aside."""
        if report.torn is None or self._log is None:
            return report
        saved = self._save_tail(report.size)
        self._log.truncate_to(report.size)
        return structs_replace(report, saved_as=saved)

    def _save_tail(self, start: int) -> Path:
        stamp = self._stamp()
        for attempt in range(100):
            name = f"{self._path.name}.torn-{stamp}{f'-{attempt}' if attempt else ''}"
            target = self._path.with_name(name)
            try:
                copy_aside(self._path, target, start=start, faults=self._faults)
            except FileExistsError:
                continue
            return target
        raise StorageError(f"There are too many copies beside {str(self._path)!r}.")

    def _commit(self, data: bytes, blobs: Mapping[str, bytes]) -> None:
        try:
            if self._log is None:
                self._log = self._create()
            for name, content in blobs.items():
                self._write_blob(name, content)
            self._log.append(data)
        except OSError as error:
            raise storage_error(error, self._path, "write") from error

    def _create(self) -> AppendLog:
        make_dirs(self._path.parent, faults=self._faults)
        try:
            return self._locked(AppendLog.create(self._path, faults=self._faults))
        except FileExistsError:
            return self._take_over()

    def _take_over(self) -> AppendLog:
        """Use a file that was made but never got a whole line; refuse any other."""
        log = self._locked(AppendLog.open(self._path, faults=self._faults))
        try:
            if self._holds_a_line():
                raise StorageError(
                    f"The session file {str(self._path)!r} exists already.",
                    hint="Resume the session, or start one with another id.",
                )
            if log.size:
                self._save_tail(0)
                log.truncate_to(0)
        except BaseException:
            log.close()
            raise
        return log

    def _holds_a_line(self) -> bool:
        with self._path.open("rb") as stream:
            while block := stream.read(1 << 16):
                if b"\n" in block:
                    return True
        return False

    def _write_blob(self, name: str, content: bytes) -> None:
        path = self._blobs_dir / name
        try:
            if path.stat().st_size == len(content):
                return
        except FileNotFoundError:
            make_dirs(self._blobs_dir, faults=self._faults)
        replace_file(path, content, faults=self._faults)

    def _release(self) -> None:
        if self._log is not None:
            self._log.close()
