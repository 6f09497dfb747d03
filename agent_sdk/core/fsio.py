"""The only place that writes files which must survive.

Whole files are replaced (``replace_file``) or made (``create_file``); a log
grows by ``AppendLog``. What these return from is on the disk: a power cut or
SIGKILL afterwards does not lose it, and one before leaves the old content,
or for a log at most a torn tail. Everything here blocks; callers on an event
loop use a thread.

Files are made 0600 and folders 0700 whatever the umask says. A symbolic link
at the target is replaced, never followed: what was approved was this path,
so callers resolve links first where they mean the file behind.

Failpoints (``core.failpoints``): ``replace.*``, ``create.*``, ``append.*``,
``truncate.*``, ``copy.*``, ``remove.*`` and ``mkdir.*``, each with the step's name.
"""

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Self

from agent_sdk.core.errors import DiskFull, StorageError
from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults, die, fault_error
from agent_sdk.core.filelock import FileLock, try_lock

_CHUNK = 1 << 20
_BASE_FLAGS = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOINHERIT", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)
_MODE_BITS = 0o7777
_PRIVATE = 0o600
_WINDOWS_TRIES = 5
_WINDOWS_WAIT_SECONDS = 0.2

_HINTS = {
    errno.EACCES: "Check who owns it and its permissions.",
    errno.EPERM: "Check who owns it and its permissions.",
    errno.EROFS: "The file system is mounted read-only.",
    errno.ENOENT: "A folder on the way does not exist.",
    errno.ENOTDIR: "Something on the way is not a folder.",
    errno.EIO: "The disk reports errors; check it before going on.",
    errno.ELOOP: "It is a symbolic link where a plain file is expected.",
    errno.EFBIG: "A limit on file sizes is in force.",
}
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})


def storage_error(error: OSError, path: str | Path, doing: str) -> StorageError:
    """Return the typed error for a failed file operation.

    Args:
        error: What the system said.
        path: The file or folder it was about.
        doing: The operation, to follow "Cannot", such as ``write``.
    """
    reason = os.strerror(error.errno) if error.errno else str(error)
    text = f"Cannot {doing} {str(path)!r}: {reason}."
    if error.errno in _FULL:
        return DiskFull(text, hint="Free some space; nothing that was saved is lost.")
    return StorageError(text, hint=_HINTS.get(error.errno or 0, ""))


# ------------------------------------------------------------- whole files


def replace_file(
    path: str | Path,
    data: bytes,
    *,
    mode: int = 0o600,
    keep_mode: bool = False,
    faults: Faults | None = PROCESS_FAULTS,
) -> None:
    """Put ``data`` in the file's place, all of it or nothing, durably.

    The file is a new one afterwards: hard links keep the old content.

    Args:
        path: The file; its folder must exist.
        data: The whole content.
        mode: Permission bits of the file.
        keep_mode: Take the bits (and, where allowed, the owner) of the file
            that is replaced, if there is one.
        faults: The armed failpoint, if any.

    Raises:
        DiskFull: If there is no room; the old file is untouched.
        StorageError: If it cannot be written; the old file is untouched,
            unless only the folder could not be synced.
    """
    target = Path(path)
    old = _lstat(target) if keep_mode else None
    if old is not None and stat.S_ISREG(old.st_mode):
        mode = stat.S_IMODE(old.st_mode)
    temp = target.parent / f".zpi-{os.urandom(8).hex()}.tmp"
    try:
        _point(faults, "replace.open")
        with _removed_on_failure(temp):
            _write_new(temp, data, mode=mode, owner=old, faults=faults)
            _point(faults, "replace.rename")
            _rename(temp, target)
        _point(faults, "replace.dirsync")
        sync_dir(target.parent)
        _point(faults, "replace.done")
    except OSError as error:
        raise storage_error(error, target, "write") from error


def create_file(
    path: str | Path,
    data: bytes,
    *,
    mode: int = 0o600,
    faults: Faults | None = PROCESS_FAULTS,
) -> None:
    """Make a new file durably; a crash leaves it whole, empty or absent.

    Raises:
        FileExistsError: If something is there already; it is untouched.
        DiskFull: If there is no room; nothing is left behind.
        StorageError: If it cannot be written.
    """
    target = Path(path)
    try:
        _point(faults, "create.open")
        os.close(_open_new(target))  # the name is ours now
    except FileExistsError:
        raise
    except OSError as error:
        raise storage_error(error, target, "write") from error
    with _removed_on_failure(target):
        replace_file(target, data, mode=mode, faults=faults)


def make_dirs(path: str | Path, *, faults: Faults | None = PROCESS_FAULTS) -> None:
    """Make the folder and what is missing above it, 0700, durably.

    Folders that exist keep their permissions.

    Raises:
        StorageError: If it cannot be made, or something else has its name.
    """
    target = Path(path)
    missing = []
    while not target.is_dir():
        missing.append(target)
        if target.parent == target:
            break
        target = target.parent
    for folder in reversed(missing):
        try:
            _point(faults, "mkdir.make")
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                if sys.platform != "win32":
                    folder.chmod(0o700)  # the umask may have taken bits away
            if not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            _point(faults, "mkdir.dirsync")
            sync_dir(folder.parent)
        except OSError as error:
            raise storage_error(error, folder, "make the folder") from error


def copy_aside(
    source: str | Path,
    target: str | Path,
    *,
    start: int = 0,
    faults: Faults | None = PROCESS_FAULTS,
) -> None:
    """Copy a file from byte ``start`` to its end into a new file, durably.

    Raises:
        FileExistsError: If the target exists already.
        DiskFull: If there is no room; nothing is left behind.
        StorageError: If it cannot be copied.
    """
    try:
        _point(faults, "copy.open")
        fd = _open_new(Path(target))
        with _removed_on_failure(Path(target)):
            try:
                with Path(source).open("rb") as stream:
                    stream.seek(start)
                    while chunk := stream.read(_CHUNK):
                        _write_all(fd, chunk, point="copy.write", faults=faults)
                _point(faults, "copy.sync")
                sync_fd(fd)
            finally:
                os.close(fd)
        _point(faults, "copy.dirsync")
        sync_dir(Path(target).parent)
    except FileExistsError:
        raise
    except OSError as error:
        raise storage_error(error, target, "write") from error


def publish_file(
    temp: str | Path, target: str | Path, *, faults: Faults | None = PROCESS_FAULTS
) -> None:
    """Put a file that another library has written in the target's place, durably.

    Args:
        temp: The finished file, in the target's folder; gone afterwards.
        target: Where it shall be.
        faults: The armed failpoint, if any.

    Raises:
        StorageError: If it cannot be done; the target is as it was.
    """
    try:
        _point(faults, "publish.sync")
        fd = os.open(temp, os.O_RDWR | _BASE_FLAGS)
        try:
            sync_fd(fd)
        finally:
            os.close(fd)
        _point(faults, "publish.rename")
        _rename(Path(temp), Path(target))
        sync_dir(Path(target).parent)
    except OSError as error:
        raise storage_error(error, target, "write") from error


def move_file(source: str | Path, target: str | Path) -> bool:
    """Move a file to another folder of the same file system, durably.

    Returns:
        False if there is no such file.

    Raises:
        StorageError: If it cannot be moved.
    """
    try:
        _rename(Path(source), Path(target))
        sync_dir(Path(target).parent)
        sync_dir(Path(source).parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_error(error, source, "move") from error
    return True


def remove_file(path: str | Path, *, faults: Faults | None = PROCESS_FAULTS) -> bool:
    """Remove a file, durably.

    Returns:
        False if there is no such file.

    Raises:
        StorageError: If it cannot be removed.
    """
    target = Path(path)
    try:
        _point(faults, "remove.unlink")
        target.unlink()
        _point(faults, "remove.dirsync")
        sync_dir(target.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_error(error, target, "remove") from error
    return True


# --------------------------------------------------------------------- log


class AppendLog:
    """A file that only grows, written by one owner.

    A batch that ``append`` returned from is durable. One that failed is not
    there at all, and later ones may succeed (the disk was full, and is no
    longer), unless a sync failed: the kernel may then have dropped pages
    that it calls clean, so the log refuses every further write for good.

    Attributes:
        path: The file.
        size: Its length in bytes, all of it durable.
        failure: Why it takes no more writes; None while it does.
    """

    def __init__(self, path: Path, fd: int, *, faults: Faults | None, new: bool) -> None:
        self.path = path
        self.size = os.fstat(fd).st_size
        self.failure: str | None = None
        self._fd = fd
        self._faults = faults
        self._entry_durable = not new
        self._lock: FileLock | None = None

    @classmethod
    def create(cls, path: str | Path, *, faults: Faults | None = PROCESS_FAULTS) -> Self:
        """Make a new, empty log; its folder must exist.

        Raises:
            FileExistsError: If something is there already.
            StorageError: If it cannot be made.
        """
        target = Path(path)
        try:
            _point(faults, "append.create")
            fd = _open_new(target, extra=os.O_APPEND)
        except FileExistsError:
            raise
        except OSError as error:
            raise storage_error(error, target, "make") from error
        return cls(target, fd, faults=faults, new=True)

    @classmethod
    def open(cls, path: str | Path, *, faults: Faults | None = PROCESS_FAULTS) -> Self:
        """Open an existing log for writing.

        Raises:
            StorageError: If it cannot be opened.
        """
        target = Path(path)
        try:
            _point(faults, "append.open")
            fd = os.open(target, os.O_RDWR | os.O_APPEND | _BASE_FLAGS)
        except OSError as error:
            raise storage_error(error, target, "open") from error
        # A crash may have come between its creation and the folder's sync.
        return cls(target, fd, faults=faults, new=True)

    def lock(self) -> bool:
        """Become the file's owner, until it is closed; False if there is one.

        Raises:
            StorageError: If the file system cannot lock.
        """
        if self._lock is None:
            self._lock = try_lock(self._fd)
            self.size = os.fstat(self._fd).st_size
        return self._lock is not None

    def append(self, data: bytes) -> None:
        """Add a batch at the end, with one write, and sync it.

        Raises:
            DiskFull: If there is no room; nothing of the batch is there.
            StorageError: If it cannot be written, the file was changed or
                deleted by someone else, or the log refuses writes.
        """
        self._check()
        try:
            written = self._write(data)
        except OSError as error:
            self._undo()
            raise storage_error(error, self.path, "write") from error
        if written != len(data):
            self._undo()
            raise DiskFull(
                f"Only {written} of {len(data)} bytes could be added to {str(self.path)!r}.",
                hint="Free some space; nothing that was saved is lost.",
            )
        self._sync("append.sync")
        self.size += len(data)
        _point(self._faults, "append.done")

    def truncate_to(self, size: int) -> None:
        """Cut the file to ``size`` bytes, durably.

        Raises:
            StorageError: If it cannot be cut.
        """
        self._check()
        try:
            _point(self._faults, "truncate.cut")
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise storage_error(error, self.path, "shorten") from error
        self._sync("truncate.sync")
        self.size = size

    def close(self) -> None:
        """Close and release the lock; may be called twice."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        if self._lock is not None:
            self._lock.release()
        os.close(fd)

    def _check(self) -> None:
        if self._fd < 0:
            raise StorageError(f"{str(self.path)!r} is closed.")
        if self.failure is not None:
            raise StorageError(self.failure, hint="Open the session again to go on.")
        now = os.fstat(self._fd)
        if now.st_size != self.size:
            self._refuse(f"{str(self.path)!r} was changed by another program.")
        if now.st_nlink == 0:
            self._refuse(f"{str(self.path)!r} was deleted while it was in use.")

    def _refuse(self, why: str, cause: OSError | None = None) -> None:
        self.failure = why
        raise StorageError(why, hint="Open the session again to go on.") from cause

    def _write(self, data: bytes) -> int:
        action = self._faults.strike("append.write") if self._faults else None
        if action is None:
            return os.write(self._fd, data)
        return _faulty_write(self._fd, data, action)

    def _undo(self) -> None:
        """Take back what was written of a batch that failed."""
        try:
            os.ftruncate(self._fd, self.size)
        except OSError as error:
            self._refuse(f"{str(self.path)!r} holds half a batch that cannot be undone.", error)

    def _sync(self, point: str) -> None:
        try:
            _point(self._faults, point)
            _sync_data(self._fd)
            if not self._entry_durable:
                _point(self._faults, "append.dirsync")
                sync_dir(self.path.parent)
                self._entry_durable = True
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            self._refuse(
                f"{str(self.path)!r} could not be made durable ({reason}); it is not written to any more.",
                error,
            )


# ------------------------------------------------------------------- steps


def sync_fd(fd: int) -> None:
    """Make a file's content and size durable, past the drive's cache."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 - does not exist on Windows

        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
            os.fsync(fd)  # a file system that has no such thing
    else:
        os.fsync(fd)


def _sync_data(fd: int) -> None:
    """Like ``sync_fd``, without the file's times where that is possible."""
    if sys.platform == "linux":
        os.fdatasync(fd)
    else:
        sync_fd(fd)


def sync_dir(path: Path) -> None:
    """Make a folder's entries durable; Windows has no such call."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
            raise
    finally:
        os.close(fd)


def _point(faults: Faults | None, name: str) -> None:
    if faults is not None:
        faults.act(name)


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _open_new(path: Path, *, extra: int = 0) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BASE_FLAGS | extra, _PRIVATE)
    try:
        if sys.platform != "win32":
            _set_mode(fd, _PRIVATE)  # the umask may have taken bits away
    except BaseException:
        os.close(fd)
        raise
    return fd


def _set_mode(fd: int, mode: int) -> None:
    if sys.platform != "win32" and stat.S_IMODE(os.fstat(fd).st_mode) != mode & _MODE_BITS:
        os.fchmod(fd, mode & _MODE_BITS)


def _write_new(
    path: Path,
    data: bytes,
    *,
    mode: int,
    owner: os.stat_result | None,
    faults: Faults | None,
) -> None:
    fd = _open_new(path)
    try:
        _write_all(fd, data, point="replace.write", faults=faults)
        if owner is not None:
            _give_to(fd, owner)
        _set_mode(fd, mode)  # after the owner: changing that clears set-id bits
        _point(faults, "replace.sync")
        sync_fd(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _removed_on_failure(path: Path) -> Generator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        raise


def _give_to(fd: int, owner: os.stat_result) -> None:
    """Keep the owner of a replaced file, where we may give files away."""
    if sys.platform != "win32":
        mine = os.fstat(fd)
        if (mine.st_uid, mine.st_gid) != (owner.st_uid, owner.st_gid):
            with contextlib.suppress(PermissionError):
                os.fchown(fd, owner.st_uid, owner.st_gid)


def _write_all(fd: int, data: bytes, *, point: str, faults: Faults | None) -> None:
    view = memoryview(data)
    while view:
        action = faults.strike(point) if faults else None
        if action is None:
            written = os.write(fd, view)
        else:
            written = _faulty_write(fd, bytes(view), action)
        view = view[written:]


def _faulty_write(fd: int, data: bytes, action: str) -> int:
    if action == "kill":
        die()
    if action == "delay":
        time.sleep(0.05)
        return os.write(fd, data)
    written = os.write(fd, data[: len(data) // 2])
    if action == "torn":
        die()
    if action == "short":
        return written
    raise fault_error(action)


def _rename(source: Path, target: Path) -> None:
    """Put a finished file in place; on Windows scanners may hold either for a moment."""
    for attempt in range(_WINDOWS_TRIES):
        try:
            os.replace(source, target)
        except PermissionError:
            if sys.platform != "win32" or attempt == _WINDOWS_TRIES - 1:
                raise
            time.sleep(_WINDOWS_WAIT_SECONDS)
        else:
            return
