"""Event logs: events get their ``seq``, are kept, and are followed.

A log holds many sessions; within one, ``seq`` counts up from 1 without gaps.
Transient events get seq 0, reach those who listen in this process, and are
not kept. ``subscribe_event_log`` replays from a seq and goes on live, also
when another process is the one that writes.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from agent_sdk.core.errors import InvalidInput, SessionLocked, StorageError
from agent_sdk.core.fsio import AppendLog, make_dirs
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.events.wire import Event, EventBody, decode_event, encode_event, is_transient

Listener: TypeAlias = Callable[[Event], None]
READ_LIMIT = 1000


class EventLog(Protocol):
    """Keeps the events of sessions."""

    async def append(self, session_id: str, body: EventBody, *, record: str = "") -> Event:
        """Give the event its seq, keep it, then tell those who listen.

        Returns when the event is durable; transient ones are only told.

        Raises:
            StorageError: If it could not be kept; it has no seq then.
        """
        ...

    async def read(
        self, session_id: str, *, since: int = 0, limit: int = READ_LIMIT
    ) -> list[Event]:
        """Return at most ``limit`` events with a seq above ``since``, in order."""
        ...

    async def count(self, session_id: str) -> int:
        """Return the seq of the session's newest event; 0 if it has none."""
        ...

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Call the listener for each new event of this process; return how to stop."""
        ...


class Listeners:
    """Who is told of the new events of which session."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = defaultdict(list)

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Call the listener for each new event of the session; return how to stop."""
        self._listeners[session_id].append(listener)

        def stop() -> None:
            with suppress(ValueError):
                self._listeners[session_id].remove(listener)

        return stop

    def tell(self, event: Event) -> None:
        """Tell everyone who listens to the event's session."""
        for listener in tuple(self._listeners[event.session_id]):
            listener(event)


class MemoryEventLog:
    """Keeps events for as long as the process lives.

    Args:
        ids: Source of event ids.
        clock: Source of their times.
    """

    def __init__(self, *, ids: Ids, clock: Clock) -> None:
        self._ids = ids
        self._clock = clock
        self._events: dict[str, list[Event]] = defaultdict(list)
        self._told = Listeners()

    async def append(self, session_id: str, body: EventBody, *, record: str = "") -> Event:
        """Keep the event and tell those who listen."""
        kept = self._events[session_id]
        seq = 0 if is_transient(body) else len(kept) + 1
        event = Event(
            seq=seq,
            id=self._ids.new(),
            at=self._clock.iso(),
            session_id=session_id,
            body=body,
            record=record,
        )
        if seq:
            kept.append(event)
        self._told.tell(event)
        return event

    async def read(
        self, session_id: str, *, since: int = 0, limit: int = READ_LIMIT
    ) -> list[Event]:
        """Return at most ``limit`` events with a seq above ``since``, in order."""
        return self._events[session_id][max(since, 0) : max(since, 0) + limit]

    async def count(self, session_id: str) -> int:
        """Return the seq of the session's newest event; 0 if it has none."""
        return len(self._events[session_id])

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Call the listener for each new event; return how to stop."""
        return self._told.listen(session_id, listener)


class _File:
    """One session's file: its newest seq, and where each event begins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log: AppendLog | None = None
        self.offsets: list[int] = []
        self.end = 0
        self.lock = asyncio.Lock()

    def scan(self) -> None:
        """Take in what has been appended since the last look; a torn tail is left out."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.end)
                data = stream.read()
        except FileNotFoundError:
            return
        at = 0
        while (newline := data.find(b"\n", at)) >= 0:
            self.offsets.append(self.end + at)
            at = newline + 1
        self.end += at

    def own(self) -> AppendLog:
        """Open for writing, as the one owner, and cut a torn tail.

        The log is derived from the session file, so the tail is not kept aside.
        """
        if self.log is None:
            make_dirs(self.path.parent)
            try:
                log = AppendLog.create(self.path)
            except FileExistsError:
                log = AppendLog.open(self.path)
            if not log.lock():
                log.close()
                raise SessionLocked(
                    f"The event log {str(self.path)!r} is written by another process.",
                    hint="Close the other program that has this session open.",
                )
            self.scan()
            if log.size > self.end:
                log.truncate_to(self.end)
            self.log = log
        return self.log

    def read(self, since: int, limit: int) -> list[bytes]:
        self.scan()
        wanted = self.offsets[since : since + limit]
        if not wanted:
            return []
        stop = since + len(wanted)
        end = self.offsets[stop] if stop < len(self.offsets) else self.end
        with self.path.open("rb") as stream:
            stream.seek(wanted[0])
            return stream.read(end - wanted[0]).split(b"\n")[: len(wanted)]


class JsonlEventLog:
    """Keeps each session's events in a file of its own, one a line.

    Args:
        folder: Where the files are; made when the first event comes.
        ids: Source of event ids.
        clock: Source of their times.
    """

    def __init__(self, *, folder: Path, ids: Ids, clock: Clock) -> None:
        self._folder = folder
        self._ids = ids
        self._clock = clock
        self._files: dict[str, _File] = {}
        self._told = Listeners()

    def _file(self, session_id: str) -> _File:
        known = self._files.get(session_id)
        if known is None:
            if not session_id or not session_id.replace("-", "").replace("_", "").isalnum():
                raise InvalidInput(f"{session_id!r} is not the id of a session.")
            known = self._files[session_id] = _File(self._folder / f"{session_id}.events.jsonl")
        return known

    async def append(self, session_id: str, body: EventBody, *, record: str = "") -> Event:
        """Keep the event durably and tell those who listen."""
        file = self._file(session_id)
        async with file.lock:
            log = None if is_transient(body) else await asyncio.to_thread(file.own)
            seq = 0 if log is None else len(file.offsets) + 1
            event = Event(
                seq=seq,
                id=self._ids.new(),
                at=self._clock.iso(),
                session_id=session_id,
                body=body,
                record=record,
            )
            if log is not None:
                line = encode_event(event) + b"\n"
                await asyncio.to_thread(log.append, line)
                file.offsets.append(file.end)
                file.end += len(line)
            self._told.tell(event)
        return event

    async def read(
        self, session_id: str, *, since: int = 0, limit: int = READ_LIMIT
    ) -> list[Event]:
        """Return at most ``limit`` events with a seq above ``since``, in order.

        Raises:
            StorageError: If the file holds something that is not an event.
        """
        file = self._file(session_id)
        async with file.lock:
            lines = await asyncio.to_thread(file.read, max(since, 0), limit)
        try:
            return [decode_event(line) for line in lines]
        except msgspec.DecodeError as error:
            raise StorageError(
                f"The event log {str(file.path)!r} is damaged after event {since}.",
                hint="Delete it; it is made again from the session file.",
            ) from error

    async def count(self, session_id: str) -> int:
        """Return the seq of the session's newest event; 0 if it has none."""
        file = self._file(session_id)
        async with file.lock:
            await asyncio.to_thread(file.scan)
        return len(file.offsets)

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Call the listener for each new event of this process; return how to stop."""
        return self._told.listen(session_id, listener)

    async def aclose(self) -> None:
        """Close the files and give up their ownership."""
        for file in self._files.values():
            async with file.lock:
                if file.log is not None:
                    file.log.close()
                    file.log = None


async def subscribe_event_log(
    log: EventLog, session_id: str, *, since: int = 0, poll_seconds: float = 0.5
) -> AsyncGenerator[Event, None]:
    """Yield the session's events after ``since``, then those to come, for ever.

    Durable events come exactly once and in order; transient ones only live.
    Close the generator (``contextlib.aclosing``) to end the subscription.

    Args:
        log: The log.
        session_id: The session.
        since: The seq that the subscriber has seen last; 0 for all.
        poll_seconds: How often to look for what other processes have written.
    """
    newest = await log.count(session_id)
    queue: asyncio.Queue[tuple[Event, int]] = asyncio.Queue()

    def take(event: Event) -> None:
        nonlocal newest
        newest = max(newest, event.seq)
        queue.put_nowait((event, newest))

    stop = log.listen(session_id, take)
    try:
        seen = since
        behind = True
        while True:
            while behind:
                batch = await log.read(session_id, since=seen)
                for event in batch:
                    seen = event.seq
                    yield event
                behind = len(batch) == READ_LIMIT
            try:
                event, after = await asyncio.wait_for(queue.get(), poll_seconds)
            except TimeoutError:
                behind = True
                continue
            if event.seq == 0:
                # A delta older than what was replayed would be shown twice.
                if after >= seen:
                    yield event
            elif event.seq == seen + 1:
                seen = event.seq
                yield event
            elif event.seq > seen:
                behind = True  # another process wrote in between
    finally:
        stop()
