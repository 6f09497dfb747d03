"""One host per data folder, by a lock that the kernel drops with its process."""

from collections.abc import Callable

from agent_sdk.host import AppendLog, Clock, make_dirs
from desktop.host.errors import HostOccupied
from desktop.paths import DataPaths

PATIENCE = 6.0
"""Seconds that a host waits for an earlier one to end."""

_STEP = 0.05


class Ownership:
    """What makes this process the host; see ``acquire``."""

    def __init__(self, lock: AppendLog) -> None:
        self._lock = lock

    def release(self) -> None:
        """Let another host in; may be called twice."""
        self._lock.close()


async def acquire(
    paths: DataPaths, *, clock: Clock, waiting: Callable[[], None], patience: float = PATIENCE
) -> Ownership:
    """Become the host of a data folder.

    Args:
        paths: The data folder; made if it is missing.
        clock: Source of time.
        waiting: Called once if another host has the folder and is waited for.
        patience: Seconds to wait.

    Raises:
        HostOccupied: If another host still has it then.
        StorageError: If the folder cannot be used.
    """
    make_dirs(paths.generation)
    try:
        lock = AppendLog.create(paths.lock)
    except FileExistsError:
        lock = AppendLog.open(paths.lock)
    end = clock.monotonic() + patience
    told = False
    try:
        while not lock.lock():
            if clock.monotonic() >= end:
                raise HostOccupied(
                    f"Another ZPI uses the data folder {str(paths.data)!r}.",
                    hint="Close it, or set ZPI_DATA_DIR to another folder for this one.",
                )
            if not told:
                told = True
                waiting()
            await clock.sleep(_STEP)
    except BaseException:
        lock.close()
        raise
    return Ownership(lock)
