"""Reads files and folders that may be anything: bounded, and without waiting.

Folders of strangers hold pipes, loops of links, devices, names that are no
text. Nothing here blocks on them or follows a project's link out of the
project; what cannot be used is an ``Unusable`` with a sentence. It reads the
disk, so callers on an event loop use a thread.
"""

import errno
import os
import stat
from pathlib import Path

from msgspec import Struct

from agent_sdk.resources.problems import Unusable

MOST_ENTRIES = 5_000
"""Most entries of a folder; a larger one is not read at all."""

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOINHERIT", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
)
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})


class Head(Struct, frozen=True):
    """The beginning of a text file, or all of it.

    Attributes:
        text: Decoded, without a byte order mark.
        whole: Whether that is all.
    """

    text: str
    whole: bool


def read_text(path: Path, *, most: int, within: Path | None = None) -> str | None:
    """Return a whole text file; None if there is none.

    Args:
        path: The file.
        most: Most bytes; a larger file is refused.
        within: Real path of the folder that links must not lead out of; None
            for files of the user's own, which may be anywhere.

    Raises:
        Unusable: If it cannot be read, is no ordinary file, is too large, is
            no UTF-8, or lies elsewhere.
    """
    head = read_head(path, most=most, within=within)
    if head is not None and not head.whole:
        size = f"{most // 1024} KiB" if most % 1024 == 0 else f"{most} bytes"
        raise Unusable(f"It is larger than {size}.", hint="Shorten it, or split it up.")
    return head.text if head else None


def read_head(path: Path, *, most: int, within: Path | None = None) -> Head | None:
    """Return a text file's beginning, at most so many bytes; see ``read_text``."""
    try:
        _check_regular(path.stat())
        _check_within(path, within)
        fd = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in _MISSING and not path.is_symlink():
            return None
        raise _unreadable(error) from None
    try:
        _check_regular(os.fstat(fd))
        data = _read(fd, most + 1)
    except OSError as error:
        raise _unreadable(error) from None
    finally:
        os.close(fd)
    return Head(_decoded(data[:most], cut=len(data) > most), len(data) <= most)


def list_folder(path: Path, *, within: Path | None = None) -> tuple[str, ...]:
    """Return the names in a folder, sorted; nothing if there is no such folder.

    Raises:
        Unusable: If it cannot be read, is no folder, holds more than
            ``MOST_ENTRIES``, or lies elsewhere than ``within``.
    """
    names: list[str] = []
    try:
        _check_within(path, within)
        with os.scandir(path) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > MOST_ENTRIES:
                    raise Unusable(
                        f"It holds more than {MOST_ENTRIES} entries and was not read.",
                        hint="Move what does not belong there elsewhere.",
                    )
    except OSError as error:
        if error.errno in _MISSING and not _is_there(path):
            return ()
        raise _unreadable(error) from None
    return tuple(sorted(names))


def is_folder(path: Path) -> bool:
    """Return whether there is a folder, or a link to one; an unusable path is none."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Unusable("It is no ordinary file.", hint="Put a text file in its place.")


def _read(fd: int, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := os.read(fd, min(most, 1 << 16))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _decoded(data: bytes, *, cut: bool) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if cut and error.reason == "unexpected end of data" and len(data) - error.start < 4:
            return data[: error.start].decode("utf-8-sig")
        line = data.count(b"\n", 0, error.start) + 1
        raise Unusable(f"It is no UTF-8 text (line {line}).", hint="Save it as UTF-8.") from None


def _check_within(path: Path, within: Path | None) -> None:
    """Refuse a path whose real place is not below the folder."""
    if within is None:
        return
    real = os.path.realpath(path)
    if real != str(within) and not real.startswith(str(within).rstrip(os.sep) + os.sep):
        raise Unusable(
            "It is a link that leads out of the project.",
            hint="Put the file itself there, or use a folder of your own.",
        )


def _unreadable(error: OSError) -> Unusable:
    match error.errno:
        case errno.ELOOP:
            return Unusable("It is a link that leads back to itself.", hint="Remove the link.")
        case errno.ENOENT:
            return Unusable("It is a link that leads nowhere.", hint="Remove or mend the link.")
        case errno.ENOTDIR:
            return Unusable("It is no folder.", hint="Put a folder in its place, or remove it.")
        case _:
            reason = os.strerror(error.errno) if error.errno else str(error)
            hint = "Check its permissions, or remove it."
            return Unusable(f"It cannot be read ({reason}).", hint=hint)
