"""From a session's events to the log, to the transcript, and on to the window.

One task a session keeps the order: what is durable is in the log before it is
shown. The transcript changes only when something is sent, so that a session
that is opened at any moment shows exactly what whoever watches has seen.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from agent_sdk.events.wire import Event, EventBody, PartDelta, PartUpdated
from agent_sdk.host import (
    AgentEvent,
    Change,
    Clock,
    Ids,
    Projector,
    TaskOwner,
    UserMessageAdded,
    ZpiError,
)
from desktop.bridge.frames import EventFrame, Frame
from desktop.host.drafts import Draft
from desktop.host.ports import Events
from desktop.host.transcripts import Transcript

logger = logging.getLogger("zpi.host.feed")


class Reactions(Protocol):
    """What the host does about a session's events."""

    async def before(self, session_id: str, body: EventBody, *, run_id: str) -> None:
        """Called before the event is logged and shown."""
        ...

    async def after(self, session_id: str, body: EventBody) -> None:
        """Called when it was shown."""
        ...

    async def delivered(self, session_id: str, prompt_id: str, record: str) -> None:
        """Called when a record delivers a prompt."""
        ...


class Feed:
    """The events of one session.

    Attributes:
        transcript: What has been shown, or would have been.
        seq: Of the newest event that is in it.
        shown: Whether the window watches.
    """

    def __init__(
        self,
        *,
        session_id: str,
        transcript: Transcript,
        seq: int,
        draft: Draft,
        events: Events,
        send: Callable[[Frame], None],
        reactions: Reactions,
        tasks: TaskOwner,
        ids: Ids,
        clock: Clock,
    ) -> None:
        self.transcript = transcript
        self.seq = seq
        self.shown = False
        self._session_id = session_id
        self._draft = draft
        self._events = events
        self._send = send
        self._reactions = reactions
        self._tasks = tasks
        self._ids = ids
        self._clock = clock
        self._projector = Projector(session_id=session_id)
        self._pending: list[Change] = []
        self._delivered: list[tuple[str, str]] = []
        self._worker: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._run_id = ""

    def take(self, event: AgentEvent) -> None:
        """Take an event of the session; subscribed to it."""
        if isinstance(event, UserMessageAdded) and event.message.origin.id:
            self._delivered.append((event.message.origin.id, event.uuid))
        self._queue(self._projector.fold(event, self._clock.monotonic()))
        due = self._projector.due
        if due is not None and self._timer is None:
            delay = max(0.0, due - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._flush)

    def say(self, body: EventBody) -> None:
        """Add an event of the host's own."""
        self._queue([Change(body)])

    async def aclose(self) -> None:
        """Wait for all that was taken, and let go of the draft; no run may be going on."""
        await self.drain()
        await self._draft.aclose()

    async def drain(self) -> None:
        """Wait until all that was taken has been shown."""
        self._flush()
        while self._worker is not None:
            await asyncio.wait((self._worker,))

    def snapshot(self, delta: PartDelta) -> PartUpdated | None:
        """Return all of the part that a delta belongs to; None if it has gone."""
        part = self.transcript.part(delta.message_id, delta.part_id)
        if part is None:
            return None
        return PartUpdated(session_id=self._session_id, message_id=delta.message_id, part=part)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._queue(self._projector.flush())

    def _queue(self, changes: Sequence[Change]) -> None:
        if not changes and not self._delivered:
            return
        self._pending += changes
        if self._worker is None:
            self._worker = self._tasks.start(self._work(), name=f"feed {self._session_id[:8]}")

    # --------------------------------------------------------------------- work

    async def _work(self) -> None:
        try:
            while self._pending or self._delivered:
                batch, self._pending = self._pending, []
                delivered, self._delivered = self._delivered, []
                await self._batch(batch, delivered)
        finally:
            self._worker = None

    async def _batch(self, batch: list[Change], delivered: list[tuple[str, str]]) -> None:
        for change in batch:
            self._run_id = getattr(change.body, "run_id", "") or self._run_id
            await self._reactions.before(self._session_id, change.body, run_id=self._run_id)
        for prompt_id, record in delivered:
            await self._reactions.delivered(self._session_id, prompt_id, record)
        logged = iter(await self._log([c for c in batch if not isinstance(c.body, PartDelta)]))
        await self._keep([change.body for change in batch])
        for change in batch:
            self._show(self._transient(change) if _is_delta(change) else next(logged))
        for change in batch:
            await self._reactions.after(self._session_id, change.body)

    async def _keep(self, bodies: list[EventBody]) -> None:
        try:
            await self._draft.keep(bodies)
        except ZpiError as error:  # shown all the same; a kill would lose it
            logger.warning("an unfinished answer could not be kept: %s", error)

    async def _log(self, changes: list[Change]) -> Sequence[Event]:
        if not changes:
            return ()
        try:
            return await self._events.append(self._session_id, changes)
        except ZpiError as error:
            # The records are safe; the log is made up for when the session is opened again.
            logger.error("events could not be logged: %s", error)  # noqa: TRY400 - no traceback
            return [self._transient(change) for change in changes]

    def _transient(self, change: Change) -> Event:
        return Event(
            seq=0,
            id=self._ids.new(),
            at=self._clock.iso(),
            session_id=self._session_id,
            body=change.body,
            record=change.record,
        )

    def _show(self, event: Event) -> None:
        self.transcript.apply(event.body)
        self.seq = max(self.seq, event.seq)
        if self.shown:
            self._send(EventFrame(event=event))


def _is_delta(change: Change) -> bool:
    return isinstance(change.body, PartDelta)
