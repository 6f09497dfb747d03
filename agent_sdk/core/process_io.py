"""The pipes of a child: read and written by the event loop, memory bounded."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_sdk.core.errors import ProcessError
from agent_sdk.core.process_types import READ_SIZE, OutputSink

if TYPE_CHECKING and sys.platform == "win32":
    raise ImportError  # Windows has process_windows; this can be imported, but is not used


class OutputPipe:
    """Reads one pipe whenever there is something to read.

    Attributes:
        last_read: When data last came, on the loop's clock.
    """

    def __init__(self, fd: int, *, sink: OutputSink, on_end: Callable[[], None]) -> None:
        self._fd = fd
        self._sink = sink
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._paused = False
        self.last_read = self._loop.time()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._readable)

    @property
    def open(self) -> bool:
        """Whether more may come."""
        return self._fd >= 0

    def _readable(self) -> None:
        # Reading once more after a short read finds the end without another
        # turn of the loop; no more than twice, so that a flood starves nobody.
        for _ in range(2):
            try:
                data = os.read(self._fd, READ_SIZE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                self._on_end()
                return
            self.last_read = self._loop.time()
            self._sink(data)
            if len(data) == READ_SIZE or self._paused or not self.open:
                return

    def pause(self) -> None:
        """Leave further data in the pipe; the child will wait when it is full."""
        if self.open and not self._paused:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """Read again."""
        if self.open and self._paused:
            self._paused = False
            self._loop.add_reader(self._fd, self._readable)

    def detach(self) -> int:
        """Stop reading and return the descriptor, which is now the caller's."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._loop.remove_reader(fd)
        return fd

    def close(self) -> None:
        """Stop reading; closing twice is no error."""
        fd = self.detach()
        if fd >= 0:
            os.close(fd)


class InputPipe:
    """Writes to a child that may be slow to read, or never do it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._waiter: asyncio.Future[None] | None = None
        os.set_blocking(fd, False)

    async def write(self, data: bytes) -> None:
        """Write all of the data; waits while the pipe is full.

        Raises:
            ProcessError: If the child has closed its input, or has ended.
        """
        async with self._turn:
            rest = memoryview(data)
            while rest:
                try:
                    rest = rest[os.write(self._fd, rest) :]
                except BlockingIOError:
                    await self._writable()
                except OSError as error:
                    self.close()
                    raise ProcessError("The child process no longer reads its input.") from error

    async def _writable(self) -> None:
        fd = self._fd
        self._waiter = self._loop.create_future()
        self._loop.add_writer(fd, self._wake)
        try:
            await self._waiter
        finally:
            if self._fd == fd:
                self._loop.remove_writer(fd)
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """End the child's input; closing twice is no error."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._loop.remove_writer(fd)
            os.close(fd)
            self._wake()  # the write that waits will find a closed descriptor
