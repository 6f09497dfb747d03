"""Contents of files before they were changed, kept by their hash.

Beside the session's file, in ``<session id>/checkpoints/``: each content is
stored once, as ``<sha256>``, or deflated as ``<sha256>.z`` where that saves
room. ``rewind.json`` is there only while a rewind is being done, see
``session.checkpoints``. No version control is involved, and nothing of it
lies in the user's folders.

What is kept may have 1 GiB a session; changes beyond that are still made and
recorded, but cannot be taken back.
"""

import hashlib
import os
import zlib
from pathlib import Path
from typing import Protocol

from agent_sdk.core.errors import StorageError
from agent_sdk.core.failpoints import PROCESS_FAULTS, Faults
from agent_sdk.core.fsio import make_dirs, remove_file, replace_file, storage_error

MAX_KEPT = 1 << 30
"""Most bytes that are kept for one session on the disk."""

MAX_KEPT_IN_MEMORY = 64 << 20
"""Most bytes that are kept for a session in memory."""

_MAX_CONTENT = 64 << 20  # of one file; the file tools take less
_DEFLATE_FROM = 16 * 1024
_WORTH = 0.9
_DEFLATED = ".z"
_PLAN = "rewind.json"


class CheckpointStore(Protocol):
    """Keeps contents by their SHA-256, and the plan of a rewind while it is done.

    Everything blocks; what returned is durable, where the store is.
    """

    def put(self, data: bytes) -> bool:
        """Keep a content; return False if there is no room for it.

        Raises:
            StorageError: If it cannot be written.
        """
        ...

    def get(self, sha256: str) -> bytes | None:
        """Return a content; None if it is not there or is damaged.

        Raises:
            StorageError: If it cannot be read.
        """
        ...

    def plan(self) -> bytes | None:
        """Return the plan of a rewind that was begun and has not ended."""
        ...

    def set_plan(self, data: bytes | None) -> None:
        """Store the plan of a rewind; None removes it.

        Raises:
            StorageError: If it cannot be done.
        """
        ...


class MemoryCheckpoints:
    """Keeps contents in memory, for a session that is in memory."""

    def __init__(self, *, limit: int = MAX_KEPT_IN_MEMORY) -> None:
        self._limit = limit
        self._kept: dict[str, bytes] = {}
        self._size = 0
        self._plan: bytes | None = None

    def put(self, data: bytes) -> bool:
        """Keep a content."""
        name = hashlib.sha256(data).hexdigest()
        if name not in self._kept:
            if self._size + len(data) > self._limit:
                return False
            self._kept[name] = data
            self._size += len(data)
        return True

    def get(self, sha256: str) -> bytes | None:
        """Return a content."""
        return self._kept.get(sha256)

    def plan(self) -> bytes | None:
        """Return the plan."""
        return self._plan

    def set_plan(self, data: bytes | None) -> None:
        """Store or remove the plan."""
        self._plan = data


class FolderCheckpoints:
    """Keeps contents in a folder, which is made with the first one.

    Args:
        folder: The folder; it belongs to one session.
        limit: Most bytes of all files in it.
        faults: The armed failpoint, for tests.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        limit: int = MAX_KEPT,
        faults: Faults | None = PROCESS_FAULTS,
    ) -> None:
        self._folder = Path(folder)
        self._limit = limit
        self._faults = faults
        self._sizes: dict[str, int] | None = None

    def put(self, data: bytes) -> bool:
        """Keep a content; see the protocol."""
        name = hashlib.sha256(data).hexdigest()
        sizes = self._listed()
        if name in sizes or name + _DEFLATED in sizes:
            return True
        stored = data
        if len(data) >= _DEFLATE_FROM:
            deflated = zlib.compress(data, 1)
            if len(deflated) <= _WORTH * len(data):
                name, stored = name + _DEFLATED, deflated
        if sum(sizes.values()) + len(stored) > self._limit:
            return False
        make_dirs(self._folder, faults=self._faults)
        replace_file(self._folder / name, stored, faults=self._faults)
        sizes[name] = len(stored)
        return True

    def get(self, sha256: str) -> bytes | None:
        """Return a content; see the protocol."""
        if not (sha256.isalnum() and sha256.isascii()):
            return None
        data = self._read(sha256)
        if data is None:
            deflated = self._read(sha256 + _DEFLATED)
            data = None if deflated is None else _inflated(deflated)
        if data is None or hashlib.sha256(data).hexdigest() != sha256:
            return None
        return data

    def plan(self) -> bytes | None:
        """Return the plan; see the protocol."""
        return self._read(_PLAN)

    def set_plan(self, data: bytes | None) -> None:
        """Store or remove the plan; see the protocol."""
        path = self._folder / _PLAN
        if data is not None:
            make_dirs(self._folder, faults=self._faults)
            replace_file(path, data, faults=self._faults)
        else:
            remove_file(path, faults=self._faults)

    def _listed(self) -> dict[str, int]:
        if self._sizes is None:
            try:
                with os.scandir(self._folder) as entries:
                    self._sizes = {e.name: e.stat(follow_symlinks=False).st_size for e in entries}
            except FileNotFoundError:
                self._sizes = {}
            except OSError as error:
                raise storage_error(error, self._folder, "read") from error
        return self._sizes

    def _read(self, name: str) -> bytes | None:
        path = self._folder / name
        try:
            if path.stat().st_size > _MAX_CONTENT:
                return None
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(error, path, "read") from error


def _inflated(data: bytes) -> bytes | None:
    """Return the content, if it is whole and not larger than anything that was kept."""
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(data, _MAX_CONTENT)
    except zlib.error:
        return None
    return content if inflate.eof else None


def checkpoints_folder(session_file: Path) -> Path:
    """Return where the contents of a session are kept."""
    return session_file.with_suffix("") / "checkpoints"


def keep(store: CheckpointStore, content: bytes, *, name: str) -> None:
    """Keep a content that must not be lost, and look whether it is there.

    Raises:
        StorageError: If it cannot be kept.
    """
    kept = store.put(content)
    if store.get(hashlib.sha256(content).hexdigest()) != content:
        reason = "what is kept of it is damaged" if kept else "the session keeps its limit already"
        raise StorageError(
            f"What {name!r} is now cannot be kept, so it is not changed: {reason}.",
            hint="Copy the file, and restore it by hand.",
        )
