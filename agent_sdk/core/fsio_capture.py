"""Files that hold a copy of something for a person to look into.

Unlike what ``fsio`` writes they are not synced: a power cut may lose them,
and nothing is ever decided by their content.
"""

import os
from pathlib import Path

from agent_sdk.core.fsio import make_dirs, storage_error

_FLAGS = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)


class CaptureFile:
    """A new file of limited size, private to the user.

    Attributes:
        path: Its real path.
        size: Bytes written.
        full: Whether something was left out because of the limit.
    """

    def __init__(self, folder: str | Path, *, prefix: str, suffix: str, limit: int) -> None:
        """Make the file, and its folder if it is missing.

        Args:
            folder: Where.
            prefix: Start of its name; 16 random hexadecimal digits follow.
            suffix: End of its name.
            limit: Most bytes that it takes.

        Raises:
            StorageError: If it cannot be made.
        """
        make_dirs(folder)
        name = f"{prefix}-{os.urandom(8).hex()}{suffix}"
        self.path = str(Path(folder).resolve() / name)
        self.size = 0
        self.full = False
        self._limit = limit
        try:
            self._fd = os.open(self.path, _FLAGS, 0o600)
        except OSError as error:
            raise storage_error(error, self.path, "write") from error

    def write(self, data: bytes | bytearray) -> None:
        """Append the data, or as much of it as still fits.

        Raises:
            StorageError: If it cannot be written; the file is closed then.
        """
        rest = memoryview(data)[: self._limit - self.size]
        self.full = self.full or len(rest) < len(data)
        try:
            while rest:
                written = os.write(self._fd, rest)
                self.size += written
                rest = rest[written:]
        except OSError as error:
            self.close()
            raise storage_error(error, self.path, "write") from error

    def close(self) -> None:
        """Close the file; doing it again changes nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def discard(self) -> None:
        """Close and remove the file."""
        self.close()
        Path(self.path).unlink(missing_ok=True)
