"""Appends in the order of the file, and a state that has only what is durable.

Appends that come while a write is going on wait, and go down together with
the next one. The chain always continues from what is durable, so that a
write that failed leaves no gap and costs only those who asked for it.
"""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import InvalidInput, ZpiError
from agent_sdk.session.batch import Batch
from agent_sdk.session.history import SessionState
from agent_sdk.session.records import KnownRecord
from agent_sdk.session.state_snapshot import take_snapshot
from agent_sdk.session.store import StateKeeper, TranscriptStore

_FORGET_AFTER = 2000  # records, where states are kept often


class _Entry(Struct, eq=False):
    """One append that waits for its ids."""

    drafts: Sequence[KnownRecord]
    ids: asyncio.Future[list[str]]

    def fail(self, error: BaseException) -> None:
        """End it with an error, unless it has ended or its caller has gone."""
        if self.ids.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self.ids.cancel()
        else:
            self.ids.set_exception(error)


class Committer:
    """Writes what is appended to one store and applies it to one state.

    Attributes:
        lost: Whether a write was stopped half-way, so that nobody knows what
            is in the store, or a strict store failed to keep a state;
            nothing may be appended any more.
    """

    def __init__(
        self,
        *,
        store: TranscriptStore,
        state: SessionState,
        new_batch: Callable[[], Batch],
    ) -> None:
        self.lost = False
        self._store = store
        self._state = state
        self._new_batch = new_batch
        self._waiting: list[_Entry] = []
        self._busy = False
        self._tasks = TaskOwner(name="session")

    async def append(self, drafts: Sequence[KnownRecord]) -> list[str]:
        """Store records, all or none, and return their ids when they are durable.

        Raises:
            InvalidInput: If one of them does not fit the format.
            StorageError: If they could not be written.
        """
        entry = _Entry(drafts, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        if not self._busy:
            self._busy = True
            self._tasks.start(self._work(), name="commit")
        return await entry.ids

    async def finish(self) -> None:
        """Wait until nothing is being written, and let the store keep the state."""
        await self._tasks.drain()
        if isinstance(self._store, StateKeeper) and self._store.writable and not self.lost:
            await self._keep_state(self._store)

    async def _keep_state(self, store: StateKeeper) -> None:
        if self._state.header is not None:
            await store.keep_state(take_snapshot(self._state))

    async def _keep_if_due(self, store: StateKeeper) -> None:
        if not store.state_due:
            return
        await self._keep_state(store)
        if not store.strict or self._state.count - self._state.partial > _FORGET_AFTER:
            self._state.forget()  # a long session: the rest can be read again

    async def _work(self) -> None:
        taken: list[_Entry] = []
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                await self._commit(taken)
                if isinstance(self._store, StateKeeper) and not self._store.strict:
                    await self._keep_if_due(self._store)
        except BaseException as error:
            self.lost = True
            for entry in (*taken, *self._waiting):
                entry.fail(error)
            self._waiting = []
            raise
        finally:
            self._busy = False

    async def _commit(self, taken: Sequence[_Entry]) -> None:
        batch, added = self._collect(taken)
        if not added:
            return
        try:
            await self._store.append(batch.lines, batch.blobs)
        except ZpiError as error:
            for entry, _ in added:
                entry.fail(error)
            return
        for record in batch.records:
            self._state.apply(record)
        if isinstance(self._store, StateKeeper) and self._store.strict:
            try:
                await self._keep_if_due(self._store)
            except ZpiError as error:
                self.lost = True  # the records are there: opening it again finds them
                for entry, _ in added:
                    entry.fail(error)
                return
        for entry, uuids in added:
            if not entry.ids.done():
                entry.ids.set_result(uuids)

    def _collect(self, taken: Sequence[_Entry]) -> tuple[Batch, list[tuple[_Entry, list[str]]]]:
        """Put into one batch what fits the format; the rest fails, alone."""
        batch = self._new_batch()
        added = []
        for entry in taken:
            if entry.ids.done():
                continue  # its caller was cancelled before it was taken
            try:
                added.append((entry, batch.add(entry.drafts)))
            except InvalidInput as error:
                entry.fail(error)
        return batch, added
