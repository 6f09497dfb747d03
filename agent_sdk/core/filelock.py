"""A lock on an open file that dies with its process.

The kernel holds it (``flock``; a byte range on Windows) and drops it however
the process ends, so no process id is ever compared and nothing has to be
cleaned up. Programs that are started do not inherit it, and a forked copy of
this process lets go of it at once.
"""

import errno
import os
import sys
import weakref

from agent_sdk.core.errors import StorageError

# Far behind any content: the lock of Windows is mandatory for its bytes, and
# readers must be able to read.
_WINDOWS_OFFSET = 0x7FFF_FFFF_0000

_BUSY = frozenset({errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK})


class FileLock:
    """An exclusive lock on a descriptor, from ``try_lock``.

    The descriptor belongs to the caller, who releases the lock before closing
    it: afterwards the number may stand for another file.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        _held.add(self)

    def release(self) -> None:
        """Let go; may be called twice."""
        _held.discard(self)
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _unlock(fd)

    def forget_in_child(self) -> None:
        """In a forked child: close the copy of the descriptor.

        The lock belongs to the open file, not to the process, so that a copy
        left open would keep it held after its owner has died.
        """
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def try_lock(fd: int) -> FileLock | None:
    """Lock the open file; None if another process or handle has it.

    Raises:
        StorageError: If the file system or this Python cannot lock files.
    """
    try:
        _lock(fd)
    except OSError as error:
        if error.errno in _BUSY:
            return None
        raise StorageError(
            f"The file cannot be locked: {os.strerror(error.errno or 0)}.",
            hint="Keep ZPI's data on a local disk; some network file systems have no locks.",
        ) from error
    except ImportError as error:
        raise StorageError("This Python cannot lock files: it has no fcntl module.") from error
    return FileLock(fd)


def _lock(fd: int) -> None:
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - exists on Windows only

        os.lseek(fd, _WINDOWS_OFFSET, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl  # noqa: PLC0415 - does not exist on Windows

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlock(fd: int) -> None:
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - exists on Windows only

        os.lseek(fd, _WINDOWS_OFFSET, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl  # noqa: PLC0415 - does not exist on Windows

        fcntl.flock(fd, fcntl.LOCK_UN)


def _forget_all() -> None:
    for lock in tuple(_held):
        lock.forget_in_child()
    _held.clear()


# The one list that a fork must know; locks leave it when they are released.
_held: "weakref.WeakSet[FileLock]" = weakref.WeakSet()
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_all)
