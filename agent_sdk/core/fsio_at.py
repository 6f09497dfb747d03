"""Files opened and replaced by exactly the path that was checked.

A path that was resolved, shown to a person and allowed must still mean the
same file when it is used. So nothing here follows a symbolic link: the folders
of the path are opened one after the other, each relative to the one before,
and the file is opened, checked, read and replaced through the last of them.
Somebody who swaps a folder for a link in between gets an error, not a file
elsewhere. Where the system has no such calls (Windows), the path is compared
with what it resolves to, which is the best that can be had there.

For files of the user that a tool changes; ZPI's own data is ``fsio``'s.

Failpoints (``core.failpoints``), in the order in which they are passed:
``at.create``, ``at.write``, ``at.sync``, ``at.check``, ``at.rename`` (or
``at.remove``) and ``at.dirsync``.
"""

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults, die, fault_error
from agent_sdk.core.fsio import sync_fd
from agent_sdk.core.fsio_swap import swap_names, taking_turns

ANCHORED = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether this system can open a file relative to an open folder."""

TEMP_PREFIX = ".zpi-"
TEMP_SUFFIX = ".tmp"
TEMP_MAX_AGE = 600.0
"""Seconds after which a temporary file must be one that a kill left behind."""

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW
# Non-blocking: a pipe or a device that gets in the way must not hold us up.
_READ = (
    os.O_RDONLY | _NOFOLLOW | _BINARY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


class PathMoved(OSError):
    """A part of the path is a link, though it was none when it was resolved."""


class NotRegularFile(OSError):
    """It is something else than a file with contents.

    Attributes:
        kind: What it is, such as ``directory`` or ``named pipe``.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(errno.EINVAL, f"is a {kind}")
        self.kind = kind


class NotDurable(OSError):
    """The change was made, but could not be made durable: a power cut may take it back."""


class TooLarge(OSError):
    """The file has more bytes than may be read.

    Attributes:
        size: Its size in bytes; at least, for a file that does not tell.
    """

    def __init__(self, size: int) -> None:
        super().__init__(errno.EFBIG, f"has {size} bytes")
        self.size = size


class Folder:
    """An open folder; everything is named relative to it. Close it, or use ``with``."""

    def __init__(self, *, path: str, fd: int | None) -> None:
        self.path = path
        self._fd = fd

    @classmethod
    def open(cls, path: str, *, make: bool = False) -> Self:
        """Open a folder by its real path, following no link.

        Args:
            path: Absolute path without links.
            make: Create the folders that are missing.

        Raises:
            PathMoved: If a part of it is a link.
            OSError: If a part of it is missing, no folder, or not permitted.
        """
        if not ANCHORED:
            return cls._open_by_name(path, make=make)
        fd = os.open("/", _FOLDER)
        try:
            for part in path.split("/"):
                if part:
                    fd = _descend(fd, part, make=make)
        except BaseException:
            os.close(fd)
            raise
        return cls(path=path, fd=fd)

    @classmethod
    def _open_by_name(cls, path: str, *, make: bool) -> Self:
        if os.path.realpath(path) != path:
            raise PathMoved(errno.ELOOP, "is reached through a link")
        if make:
            os.makedirs(path, exist_ok=True)
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is no folder")
        return cls(path=path, fd=None)

    def close(self) -> None:
        """Close it; doing so again changes nothing."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _at(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self.path, name)

    def stat(self, name: str) -> os.stat_result:
        """Return the status of an entry itself, not of what it links to."""
        return os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)

    def open_file(self, name: str) -> int:
        """Open a regular file for reading and return the descriptor.

        Raises:
            NotRegularFile: If it is anything else; devices are not even opened.
            PathMoved: If it is a link.
        """
        _require_regular(self.stat(name))
        fd = os.open(self._at(name), _READ, dir_fd=self._fd)
        try:
            _require_regular(os.fstat(fd))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def read(self, name: str, limit: int) -> tuple[bytes, os.stat_result]:
        """Return the contents of a regular file, and its status.

        Raises:
            TooLarge: If it has more than ``limit`` bytes.
            NotRegularFile: If it is no regular file.
            BlockingIOError: If it makes the reader wait.
        """
        fd = self.open_file(name)
        try:
            status = os.fstat(fd)
            return _read_all(fd, status, limit=limit), status
        finally:
            os.close(fd)

    def writable(self, name: str) -> bool:
        """Return whether this user might write to an entry in place."""
        return os.access(self._at(name), os.W_OK, dir_fd=self._fd)

    def create(self, name: str, mode: int) -> int:
        """Create a file that must not exist and return the descriptor."""
        return os.open(self._at(name), _CREATE, mode, dir_fd=self._fd)

    def publish(self, temp: str, name: str) -> None:
        """Give a finished file its name, which must be free.

        Raises:
            FileExistsError: If the name is taken.
        """
        try:
            os.link(
                self._at(temp),
                self._at(name),
                src_dir_fd=self._fd,
                dst_dir_fd=self._fd,
                follow_symlinks=False,
            )
        except OSError as error:
            if isinstance(error, FileExistsError) or error.errno not in _NO_HARD_LINKS:
                raise
        else:
            self.remove(temp)
            return
        with contextlib.suppress(FileNotFoundError):
            self.stat(name)
            raise FileExistsError(errno.EEXIST, "exists")
        self.replace(temp, name)

    def replace(self, temp: str, name: str) -> None:
        """Put a finished file in the place of another, at once."""
        os.replace(self._at(temp), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def exchange(self, temp: str, name: str) -> bool:
        """Exchange two entries at once; return False where that cannot be done."""
        return swap_names(self._fd, temp, name)

    def turn(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which no other session of ZPI changes names here."""
        return taking_turns(self._fd)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        os.rmdir(self._at(name), dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self._at(name), dir_fd=self._fd)

    def sync(self) -> None:
        """Make renames in the folder durable, where the system can."""
        if self._fd is None:
            return
        _sync_folder(self._fd)

    def sweep(self) -> int:
        """Remove temporary files that killed processes left; return how many."""
        removed = 0
        oldest = time.time() - TEMP_MAX_AGE
        with os.scandir(self.path) as entries:
            names = [e.name for e in entries if e.name.startswith(TEMP_PREFIX)]
        for name in names:
            with contextlib.suppress(OSError):
                status = self.stat(name)
                if (
                    name.endswith(TEMP_SUFFIX)
                    and stat.S_ISREG(status.st_mode)
                    and max(status.st_mtime, status.st_ctime) < oldest
                ):
                    self.remove(name)
                    removed += 1
        return removed


def read_regular(path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Return the contents of the regular file at a real path, and its status.

    Raises:
        PathMoved: If a part of the path is a link.
        NotRegularFile: If it is no regular file.
        TooLarge: If it has more than ``limit`` bytes.
        OSError: As the system says.
    """
    parent, name = split(path)
    with Folder.open(parent) as folder:
        return folder.read(name, limit)


def split(path: str) -> tuple[str, str]:
    """Return the folder and the name of an absolute path."""
    parent, name = os.path.split(path)
    if not name:
        raise NotRegularFile("directory")
    return parent, name


class Staged:
    """The new contents of a file, on the disk beside it under another name.

    What takes room and time is done; ``place`` gives them the file's name.

    Attributes:
        status: The status of the new file.
    """

    def __init__(
        self, folder: Folder, name: str, *, temp: str, status: os.stat_result, faults: Faults | None
    ) -> None:
        self.status = status
        self._folder = folder
        self._name = name
        self._temp = temp
        self._faults = faults

    def place(self, check: Callable[[str], None], *, over: bool) -> None:
        """Put the new contents in the file's place.

        Args:
            check: Raises if the entry of a name is no longer the file that was
                looked at. It is asked right before, by the file's name, and
                where the system can exchange two names also right after, by
                the name that the old file then has: so that what somebody
                else writes in between is noticed, and put back.
            over: Whether there is a file; otherwise there must be none.

        Raises:
            FileExistsError: If a file appeared where none was.
            NotDurable: If the file has its new contents, but only for now.
            OSError: As the system says; the file then has its old contents.
        """
        with self._folder.turn():
            self._exchange(check, over=over)
        _sync_names(self._folder, self._faults)

    def _exchange(self, check: Callable[[str], None], *, over: bool) -> None:
        try:
            _point(self._faults, "at.check")
            check(self._name)
            _point(self._faults, "at.rename")
            exchanged = over and self._folder.exchange(self._temp, self._name)
            if not over:
                self._folder.publish(self._temp, self._name)
            elif not exchanged:
                self._folder.replace(self._temp, self._name)
        except BaseException:
            self.discard()
            raise
        if not exchanged:
            return
        try:
            check(self._temp)
        except BaseException:
            self._put_back()  # if that fails, what lies there is not ours to remove
            self.discard()
            raise
        self.discard()

    def _put_back(self) -> None:
        """Give the name back to what somebody else has put there just before."""
        try:
            self._folder.exchange(self._temp, self._name)
        except FileNotFoundError:  # they have removed ours at once
            self._folder.publish(self._temp, self._name)
            return
        if not os.path.samestat(self._folder.stat(self._temp), self.status):
            # They have written once more in between, and the last one counts.
            self._folder.exchange(self._temp, self._name)

    def discard(self) -> None:
        """Remove what lies under the other name; it is swept later if that fails."""
        with contextlib.suppress(OSError):
            self._folder.remove(self._temp)


def stage_at(
    folder: Folder,
    name: str,
    data: bytes,
    *,
    existing: os.stat_result | None,
    mode: int | None = None,
    faults: Faults | None = PROCESS_FAULTS,
) -> Staged:
    """Write the new contents of a file beside it, durably.

    Mode, owner and extended attributes of the file are kept; of several hard
    links only this name will change.

    Args:
        folder: Its folder.
        name: Its name there.
        data: The new contents.
        existing: Status of the file that will be replaced; None if there must
            be none.
        mode: Permission bits (of 0o777) that it shall have; None for those
            of the old file, or what the umask leaves for a new one.
        faults: An armed failpoint.

    Raises:
        OSError: As the system says; nothing is left behind.
    """
    temp = f"{TEMP_PREFIX}{os.urandom(8).hex()}{TEMP_SUFFIX}"
    _point(faults, "at.create")
    fd = folder.create(temp, 0o666 if existing is None else 0o600)
    try:
        try:
            _write_all(fd, data, faults)
            _set_attributes(folder, name, fd=fd, existing=existing, mode=mode)
            _point(faults, "at.sync")
            sync_fd(fd)
            status = os.fstat(fd)
        finally:
            os.close(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            folder.remove(temp)
        raise
    return Staged(folder, name, temp=temp, status=status, faults=faults)


def remove_folders(paths: Sequence[str]) -> None:
    """Remove folders that are empty; others, and those that are gone, are left alone."""
    for path in paths:
        parent, name = split(path)
        with contextlib.suppress(OSError), Folder.open(parent) as folder:
            folder.remove_folder(name)


def missing_folders(path: str) -> list[str]:
    """Return the folders of a path that do not exist, the innermost first."""
    missing: list[str] = []
    while path and not os.path.lexists(path):
        missing.append(path)
        path = os.path.split(path)[0]
    return missing


def remove_at(
    folder: Folder,
    name: str,
    *,
    check: Callable[[str], None],
    faults: Faults | None = PROCESS_FAULTS,
) -> None:
    """Remove a file, durably.

    Args:
        folder: Its folder.
        name: Its name there.
        check: Called with the name right before; raises if the file is no
            longer the one that was looked at.
        faults: An armed failpoint.

    Raises:
        NotDurable: If it is gone, but only for now.
        OSError: As the system says; the file is then still there.
    """
    _point(faults, "at.check")
    check(name)
    _point(faults, "at.remove")
    folder.remove(name)
    _sync_names(folder, faults)


def _sync_names(folder: Folder, faults: Faults | None) -> None:
    try:
        _point(faults, "at.dirsync")
        folder.sync()
    except OSError as error:
        raise NotDurable(error.errno, error.strerror) from error


def _point(faults: Faults | None, name: str) -> None:
    if faults is not None:
        faults.act(name)


def _descend(fd: int, part: str, *, make: bool) -> int:
    """Open a folder in an open one, which is closed when that succeeds."""
    try:
        inner = os.open(part, _FOLDER, dir_fd=fd)
    except FileNotFoundError:
        if not make:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=fd)
            _sync_folder(fd)
        inner = os.open(part, _FOLDER, dir_fd=fd)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and _is_link(fd, part):
            raise PathMoved(errno.ELOOP, "is reached through a link") from None
        raise
    os.close(fd)
    return inner


def _is_link(fd: int, part: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode)
    except OSError:
        return False


_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "directory"),
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


def _require_regular(status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISLNK(status.st_mode):
        raise PathMoved(errno.ELOOP, "is a link now")
    raise NotRegularFile(next((k for test, k in _KINDS if test(status.st_mode)), "special file"))


def _read_all(fd: int, status: os.stat_result, *, limit: int) -> bytes:
    if status.st_size > limit:
        raise TooLarge(status.st_size)
    # Files below /proc say 0 and some grow while they are read: hence the loop
    # up to the limit, and one byte more than expected to see the end at once.
    chunks: list[bytes] = []
    total = 0
    want = status.st_size + 1
    while True:
        chunk = os.read(fd, want)
        if not chunk:
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.append(chunk)
        total += len(chunk)
        if total > limit:
            raise TooLarge(total)
        want = max(status.st_size + 1 - total, 1) if total <= status.st_size else 65_536


def _write_all(fd: int, data: bytes, faults: Faults | None) -> None:
    view = memoryview(data)
    while view:
        action = faults.strike("at.write") if faults is not None else None
        if action is None or action == "delay":
            view = view[os.write(fd, view) :]
            continue
        if action == "kill":
            die()
        view = view[os.write(fd, view[: len(view) // 2]) :]
        if action == "torn":
            die()
        if action != "short":
            raise fault_error(action)


def _sync_folder(folder: int) -> None:
    fd = os.open(".", os.O_RDONLY, dir_fd=folder)  # an O_PATH descriptor cannot be flushed
    try:
        sync_fd(fd)
    finally:
        os.close(fd)


def _set_attributes(
    folder: Folder, name: str, *, fd: int, existing: os.stat_result | None, mode: int | None
) -> None:
    if existing is not None:
        _keep_attributes(folder, name, fd=fd, existing=existing)
    if mode is not None and sys.platform != "win32":
        os.fchmod(fd, mode & 0o777)


def _keep_attributes(folder: Folder, name: str, *, fd: int, existing: os.stat_result) -> None:
    """Give the new file the old one's owner, mode and extended attributes.

    The owner may not be ours to give and attributes may not be supported;
    the mode is set last, since a change of owner clears bits of it.
    """
    if sys.platform == "win32":
        return
    mode = stat.S_IMODE(existing.st_mode)
    status = os.fstat(fd)
    if (status.st_uid, status.st_gid) != (existing.st_uid, existing.st_gid):
        try:
            os.fchown(fd, existing.st_uid, existing.st_gid)
        except PermissionError:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)  # never lend ourselves to a program
    if sys.platform == "linux":
        source = folder.open_file(name)
        try:
            for attribute in _attributes(source):
                with contextlib.suppress(OSError):  # some are not ours to set; others still are
                    os.setxattr(fd, attribute, os.getxattr(source, attribute))
        finally:
            os.close(source)
    os.fchmod(fd, mode)


def _attributes(fd: int) -> list[str]:
    """Return the names of a file's extended attributes; none where there are no such."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.listxattr(fd)
    return []
