"""Finding processes by a word that only they carry, and waiting for their end."""

import asyncio
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING and sys.platform == "win32":
    raise ImportError  # these look into /proc

STATES_OF_THE_DEAD = (b"Z", b"X")

_issued: list[str] = []


def unique_word() -> str:
    """A word to put on command lines, so that the processes can be told from all others."""
    _issued.append(f"zpi-test-{uuid.uuid4().hex}")
    return _issued[-1]


def destroy_leftovers() -> None:
    """Kill what carries a word of this test run, so that a failure leaves nothing behind."""
    words = [word.encode() for word in _issued]
    _issued.clear()
    for _ in range(5):
        for pid in _newest_first():
            try:
                line = _read(f"/proc/{pid}/cmdline")
                if pid != os.getpid() and any(word in line for word in words):
                    os.kill(pid, signal.SIGKILL)
            except OSError:  # it ended meanwhile
                continue


def carrying(word: str) -> list[int]:
    """Return the living processes that have the word in their command line.

    The newest come first, so that a process that lives for a few milliseconds
    only is looked at before it has gone.
    """
    found = []
    for pid in _newest_first():
        try:
            line = _read(f"/proc/{pid}/cmdline")
            state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0]
        except OSError:  # it ended meanwhile
            continue
        if word.encode() in line and pid != os.getpid() and state not in STATES_OF_THE_DEAD:
            found.append(pid)
    return found


def _newest_first() -> list[int]:
    return sorted((int(n) for n in os.listdir("/proc") if n.isdigit()), reverse=True)


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)


async def appear(word: str, *, least: int = 1, seconds: float = 10) -> list[int]:
    """Wait until that many processes carry the word."""
    return await _until(word, lambda count: count >= least, seconds=seconds)


async def vanish(word: str, *, seconds: float = 2) -> None:
    """Wait until no process carries the word; 0 seconds: none may do now.

    Raises:
        AssertionError: If some still do after that time.
    """
    end = time.monotonic() + seconds
    # A chain of processes that replace each other can slip through one look at the table.
    for _ in range(4):
        left = await _until(word, lambda count: count == 0, seconds=end - time.monotonic())
        assert left == []
        await asyncio.sleep(0.003)


async def _until(word: str, enough: Callable[[int], bool], *, seconds: float) -> list[int]:
    end = time.monotonic() + seconds
    while not enough(len(found := carrying(word))) and time.monotonic() < end:
        await asyncio.sleep(0.01)
    return found
