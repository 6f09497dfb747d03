"""The host's end of the channel: bytes in, bytes out, and a queue that cannot grow for ever."""

import asyncio
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from agent_sdk.events.wire import Event, PartDelta, PartUpdated
from agent_sdk.host import Clock, Ids
from desktop.bridge.frames import EventFrame, Frame, encode

MAX_QUEUED = 4 * 1024 * 1024
"""Bytes that may wait before deltas of a part collapse into its snapshot."""

MAX_LAG = 64 * 1024 * 1024
"""Bytes that may wait before the window counts as gone."""

_PIECE = 64 * 1024


class Channel(Protocol):
    """Carries bytes to the window and back."""

    async def receive(self) -> bytes:
        """Return what arrived next; nothing at the end."""
        ...

    async def send(self, data: bytes) -> bool:
        """Send; return whether the window can still be reached."""
        ...

    async def aclose(self) -> None:
        """Send no more."""
        ...


class StdioChannel:
    """Standard input and output, read and written by two threads.

    The event loop cannot wait for pipes on Windows, hence the threads. They
    are daemons: one that is stuck in a call does not keep the process alive.

    Args:
        reading: Descriptor to read.
        writing: Descriptor to write, a private copy.
    """

    def __init__(self, *, reading: int, writing: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._outgoing: queue.SimpleQueue[tuple[bytes, asyncio.Future[bool]] | None]
        self._outgoing = queue.SimpleQueue()
        self._ended = False
        reader = threading.Thread(target=self._read, args=(reading,), daemon=True, name="zpi-in")
        writer = threading.Thread(target=self._write, args=(writing,), daemon=True, name="zpi-out")
        reader.start()
        writer.start()

    async def receive(self) -> bytes:
        """Return what arrived next; nothing at the end."""
        if self._ended:
            return b""
        data = await self._incoming.get()
        self._ended = not data
        return data

    async def send(self, data: bytes) -> bool:
        """Write; returns when the pipe has taken it."""
        done: asyncio.Future[bool] = self._loop.create_future()
        self._outgoing.put((data, done))
        return await done

    async def aclose(self) -> None:
        """Let the writing thread end."""
        self._outgoing.put(None)

    # --- on the threads

    def _read(self, fd: int) -> None:
        data = b"-"
        while data:
            try:
                data = os.read(fd, _PIECE)
            except OSError:
                data = b""
            if not self._call(self._incoming.put_nowait, data):
                return

    def _write(self, fd: int) -> None:
        alive = True
        while (item := self._outgoing.get()) is not None:
            data, done = item
            view = memoryview(data)
            try:
                while alive and view:
                    view = view[os.write(fd, view) :]
            except OSError:  # the window has gone; what comes is dropped
                alive = False
            if not self._call(_settle, done, alive):
                return

    def _call(self, function: Callable[..., object], *args: object) -> bool:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop has ended
            return False
        return True


def _settle(done: "asyncio.Future[bool]", alive: object) -> None:
    if not done.done():
        done.set_result(bool(alive))


class Snapshots(Protocol):
    """Knows how parts are now."""

    def snapshot(self, delta: PartDelta) -> PartUpdated | None:
        """Return all of the part that a delta belongs to; None if it has gone."""
        ...


class _Entry(Struct):
    data: bytes
    delta: PartDelta | None = None
    lazy: bool = False


class Outbox:
    """Frames that wait to be written.

    Nothing durable is ever left out. Past ``MAX_QUEUED`` bytes the deltas of a
    part give way to one snapshot of it, which is made when it is written.

    Attributes:
        overflown: Whether more waits than a living window would leave.
    """

    def __init__(self, *, snapshots: Snapshots, ids: Ids, clock: Clock) -> None:
        self.overflown = False
        self._snapshots = snapshots
        self._ids = ids
        self._clock = clock
        self._entries: deque[_Entry] = deque()
        self._deltas: dict[str, list[_Entry]] = {}
        self._collapsed: set[str] = set()
        self._size = 0
        self._news = asyncio.Event()

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self._size

    def put(self, frame: Frame) -> None:
        """Queue a frame."""
        body = frame.event.body if isinstance(frame, EventFrame) else None
        if not isinstance(body, PartDelta):
            self._add(_Entry(encode(frame)))
            return
        if body.part_id in self._collapsed:
            return  # the snapshot that waits will have it
        if self._size <= MAX_QUEUED:
            entry = _Entry(encode(frame), body)
            self._deltas.setdefault(body.part_id, []).append(entry)
            self._add(entry)
            return
        for entry in self._deltas.pop(body.part_id, ()):
            self._size -= len(entry.data)
            entry.data, entry.delta = b"", None
        self._collapsed.add(body.part_id)
        self._add(_Entry(b"", body, lazy=True))

    def _add(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._size += len(entry.data)
        self.overflown = self.overflown or self._size > MAX_LAG
        self._news.set()

    async def take(self, most: int = _PIECE * 4) -> bytes:
        """Wait for frames and return some of them, encoded."""
        while True:
            pieces: list[bytes] = []
            size = 0
            while self._entries and size < most:
                data = self._render(self._entries.popleft())
                pieces.append(data)
                size += len(data)
            if pieces and size:
                return b"".join(pieces)
            self._news.clear()
            await self._news.wait()

    def _render(self, entry: _Entry) -> bytes:
        self._size -= len(entry.data)
        if entry.delta is None:
            return entry.data
        if not entry.lazy:
            waiting = self._deltas[entry.delta.part_id]
            del waiting[0]  # they leave in the order in which they came
            if not waiting:
                del self._deltas[entry.delta.part_id]
            return entry.data
        self._collapsed.discard(entry.delta.part_id)
        body = self._snapshots.snapshot(entry.delta)
        if body is None:
            return b""
        event = Event(
            seq=0,
            id=self._ids.new(),
            at=self._clock.iso(),
            session_id=body.session_id,
            body=body,
        )
        return encode(EventFrame(event=event))
