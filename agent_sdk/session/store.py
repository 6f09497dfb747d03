"""Where a session's lines are kept: a file, or memory.

``TranscriptStore`` is the seam for hosts with a store of their own. A store
keeps lines in order and says when they are durable; what they mean is the
manager's business.

``JsonlStore`` owns one file and one thread. Whatever is queued when the
thread is free goes down with one write and one sync; there is no timer.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

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
from agent_sdk.session.codec import BadLine, Chain, Item, read_items
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


def scan(readline: Callable[[int], bytes], visit: Visit) -> LoadReport:
    """Read lines, visit the good ones and tell torn tail from damage.

    At most the last whole line and the fragment behind it are a torn tail;
    with more broken lines, or one before a good one, the file is damaged.
    """
    chain = Chain()
    damage: list[BadLine] = []
    tail: list[BadLine] = []  # broken lines behind the last good one
    good_end = 0
    fragment = False
    for line, ended in read_items(readline):
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
        await self._thread.commit(b"\n".join([*lines, b""]), blobs)

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

    async def close(self) -> None:
        """Finish what is queued, release the lock and end the thread."""
        if self._closed:
            return
        self._closed = True
        await self._thread.close(self._release)

    # --- on the writer's thread

    def _load(self, visit: Visit) -> LoadReport:
        if self._mode == "read":
            return self._scan(visit)
        try:
            self._log = self._open()
            report = self._scan(visit)
            self._newer = report.newer
            if report.newer:
                self._release()
                return report
            self._check(report)
            return self._repair(report)
        except BaseException:
            self._release()
            raise

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

    def _scan(self, visit: Visit) -> LoadReport:
        try:
            with self._path.open("rb", buffering=1 << 18) as stream:
                return scan(stream.readline, visit)
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
