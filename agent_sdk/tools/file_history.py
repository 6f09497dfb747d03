"""The port through which the file tools tell what they are about to change.

Whoever keeps a history of files implements it; the tools know nothing of
where it is kept. See ``tools.file_state``, the only place that calls it.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class FileFacts(Struct, frozen=True):
    """A file's contents at one moment.

    Attributes:
        sha256: Hash of the contents, hexadecimal.
        size: In bytes.
        mode: Permission bits; 0 where there are none, or for a new file,
            which gets them only when it is made.
    """

    sha256: str
    size: int
    mode: int = 0


class PendingChange(Struct, frozen=True, kw_only=True):
    """A change of a file that comes next.

    Attributes:
        path: The file's absolute real path.
        call_id: The call that makes it; empty if none does.
        before: What the file is now; None if there is none.
        after: What it will be; None if it will be deleted.
        content: Its contents now; None if there is no file.
    """

    path: str
    call_id: str
    before: FileFacts | None
    after: FileFacts | None
    content: bytes | None


class FileHistory(Protocol):
    """Keeps what files were before they were changed."""

    async def before_change(self, changes: Sequence[PendingChange]) -> None:
        """Keep what is needed to take the changes back, durably.

        Awaited right before the first of the files is touched, with every
        file that the call changes. A change that is told of here may still
        not come to be, because the file was changed by somebody else in this
        moment, or the process ends: the hashes tell it later.

        Raises:
            StorageError: If it cannot be kept; no file is changed then.
            InvalidInput: If it cannot be described in what it is kept in.
        """
        ...
