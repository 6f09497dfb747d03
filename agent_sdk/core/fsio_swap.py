"""Two names of a folder exchanged at once, where the system can do that; and by one at a time."""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Generator

from agent_sdk.core.errors import StorageError
from agent_sdk.core.filelock import FileLock, try_lock

_EXCHANGE = 2
"""``RENAME_EXCHANGE`` of Linux, and ``RENAME_SWAP`` of macOS."""

_CANNOT = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.ENOTSUP, getattr(errno, "EOPNOTSUPP", 0)}
)
_WAIT_SECONDS = 2.0
_PAUSE_SECONDS = 0.002
_CALLS = {"linux": "renameat2", "darwin": "renameatx_np"}


def swap_names(folder: int | None, one: str, other: str) -> bool:
    """Exchange what two names stand for; nobody ever finds one of them missing.

    Args:
        folder: Descriptor of their folder; None if there can be none.
        one: A name in it.
        other: Another name in it.

    Returns:
        Whether it was done; False if the system or the file system cannot.

    Raises:
        OSError: If one of them does not exist, or it is not permitted.
    """
    name = _CALLS.get(sys.platform)
    if name is None or folder is None:
        return False
    import ctypes  # noqa: PLC0415 - 3 ms, and of use only when a file is changed

    call = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if call is None:
        return False
    if call(folder, os.fsencode(one), folder, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code))


@contextlib.contextmanager
def taking_turns(folder: int | None) -> Generator[None]:
    """Keep other sessions and processes of ZPI from changing names in the folder meanwhile.

    Whoever finds that it replaced something else than it looked at puts that
    back; were three to do so at once, one could put back what was given up.
    Other programs know nothing of this. Nobody is waited for longer than two
    seconds, and where folders cannot be locked there is nothing to wait for.

    Args:
        folder: Descriptor of the folder; None if there can be none.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, StorageError):
            if folder is not None:
                fd = os.open(".", os.O_RDONLY, dir_fd=folder)  # O_PATH ones cannot be locked
                held.callback(os.close, fd)
                lock = _wait_for(fd)
                if lock is not None:
                    held.callback(lock.release)
        yield


def _wait_for(fd: int) -> FileLock | None:
    end = time.monotonic() + _WAIT_SECONDS
    lock = try_lock(fd)
    while lock is None and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)
        lock = try_lock(fd)
    return lock
