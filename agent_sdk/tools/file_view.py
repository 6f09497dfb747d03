"""What the model has seen of one file. Pure."""

import os

from msgspec import Struct

Lines = tuple[int, int]
"""A range of lines, from 1, both ends included."""


class FileView(Struct, frozen=True):
    """What is known of a file since it was last read or written.

    Attributes:
        device: Device number.
        inode: Inode number.
        size: Bytes.
        mtime_ns: Time of the last change, in nanoseconds.
        sha256: Hash of the whole contents, hexadecimal.
        lines: How many lines it has.
        seen: Which of them the model has seen.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    sha256: str
    lines: int
    seen: tuple[Lines, ...]

    @property
    def whole(self) -> bool:
        """Whether the model has seen all of it."""
        return not self.lines or self.seen == ((1, self.lines),)


def view_of(
    status: os.stat_result, digest: str, *, lines: int, seen: tuple[Lines, ...]
) -> FileView:
    """Return what is known of a file that has a status and a hash."""
    return FileView(
        device=status.st_dev,
        inode=status.st_ino,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        sha256=digest,
        lines=lines,
        seen=seen,
    )


def merge(ranges: tuple[Lines, ...], added: Lines) -> tuple[Lines, ...]:
    """Join ranges that touch; an empty one (end before start) adds nothing."""
    merged: list[Lines] = []
    for first, last in sorted((*ranges, added)):
        if last < first:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def ranges(view: FileView) -> str:
    """Return in words which lines have been seen."""
    shown = ", ".join(f"{first}-{last}" for first, last in view.seen)
    return f"lines {shown} of {view.lines}" if shown else f"none of its {view.lines} lines lately"
