"""Output of a child, line by line."""

import asyncio
from collections.abc import AsyncIterator, Callable

from agent_sdk.core.errors import ProcessError

MAX_LINE = 8 * 1024 * 1024
"""Bytes of the longest line that is taken."""

_HIGH_WATER = 1024 * 1024


class Lines:
    """Turns output into lines for one reader, and slows the child down to it."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._ended = False
        self._news = asyncio.Event()
        self.pause: Callable[[], None] = _nothing
        self.resume: Callable[[], None] = _nothing

    def feed(self, data: bytes) -> None:
        """Take output."""
        self._buffer += data
        self._news.set()
        if len(self._buffer) > _HIGH_WATER:
            self.pause()

    def end(self) -> None:
        """Say that nothing more comes."""
        self._ended = True
        self._news.set()

    async def read(self) -> AsyncIterator[bytes]:
        r"""Yield lines without their ``\n`` (or ``\r\n``); the last may lack it.

        Raises:
            ProcessError: If a line is longer than ``MAX_LINE`` bytes.
        """
        while True:
            end = self._buffer.find(b"\n", self._scanned)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._scanned = 0
                if len(self._buffer) <= _HIGH_WATER:
                    self.resume()
                yield line.removesuffix(b"\r")
                continue
            self._scanned = len(self._buffer)
            if self._scanned > MAX_LINE:
                raise ProcessError(f"A line of the child's output is longer than {MAX_LINE} bytes.")
            if self._ended:
                break
            self.resume()
            self._news.clear()
            await self._news.wait()
        if self._buffer:
            rest = bytes(self._buffer)
            self._buffer.clear()
            yield rest


def _nothing() -> None:
    return
