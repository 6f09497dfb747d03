"""How a stored session becomes a state: from what was kept of it, or from the start."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, structs

from agent_sdk.core.errors import SessionDamaged
from agent_sdk.session.artifacts import restore_artifacts
from agent_sdk.session.codec import Item
from agent_sdk.session.history import SessionState
from agent_sdk.session.records import CompactionRecord, Record
from agent_sdk.session.state_snapshot import UnusableSnapshot, restored_state
from agent_sdk.session.store import LoadReport, StateKeeper, TranscriptStore

Observer: TypeAlias = Callable[[Record], None]


class Opened(Struct, frozen=True):
    """A session that was read.

    Attributes:
        state: What its records say; perhaps partial.
        report: What the store found.
        missing: Hashes of artifacts that are gone.
    """

    state: SessionState
    report: LoadReport
    missing: tuple[str, ...]


_FORGET_AFTER = 2000  # records


class _Fold:
    """Takes each record of a store in order.

    Args:
        state: What to go on from.
        store: Where the records come from.
        observe: Called with each record.
        forgets: Whether a long session may come out partial.
    """

    def __init__(
        self,
        state: SessionState,
        store: TranscriptStore,
        *,
        observe: Observer | None = None,
        forgets: bool = False,
    ) -> None:
        self.state = state
        self.missing: list[str] = []
        self.stuck = False
        self._store = store
        self._observe = observe
        self._forgets = forgets

    def take(self, item: Item) -> None:
        """Take a record; nothing any more once one points to what is not in memory."""
        self.stuck = self.stuck or self.state.lacks(item.record)
        if self.stuck:
            return
        record = item.record
        if b'"artifact"' in item.raw:
            record, gone = restore_artifacts(record, self._store.blob)
            self.missing.extend(gone)
        self.state.apply(record)
        if self._observe is not None:
            self._observe(record)
        if (
            self._forgets
            and isinstance(record, CompactionRecord)
            and self.state.count - self.state.partial > _FORGET_AFTER
        ):
            self.state.forget()


async def open_state(store: TranscriptStore, observe: Observer | None) -> Opened:
    """Read a store's session.

    If the store keeps states, and nobody observes, then what was kept is
    used, and the state may be partial. Should a record turn out to point to
    what is then not in memory, all is read again.

    Args:
        store: The store.
        observe: Called with each record in order, perhaps on another thread.

    Raises:
        StorageError: If it cannot be read; see ``TranscriptStore.load``.
    """
    if observe is not None or not isinstance(store, StateKeeper):
        return _opened(*await _load(store, observe=observe))
    fold, report = await _from_kept(store) or await _load(store, forgets=True)
    if fold.stuck:
        first = report
        fold, report = await _load(store)
        if report.torn is None:  # the first reading has cut it off
            report = structs.replace(report, torn=first.torn, saved_as=first.saved_as)
    return _opened(fold, report)


def _opened(fold: _Fold, report: LoadReport) -> Opened:
    return Opened(fold.state, report, tuple(fold.missing))


async def _load(
    store: TranscriptStore, *, observe: Observer | None = None, forgets: bool = False
) -> tuple[_Fold, LoadReport]:
    fold = _Fold(SessionState(), store, observe=observe, forgets=forgets)
    return fold, await store.load(fold.take)


async def _from_kept(
    store: StateKeeper,
) -> tuple[_Fold, LoadReport] | None:
    snapshot = await store.load_state()
    if snapshot is None:
        return None
    try:
        state = restored_state(snapshot)
    except UnusableSnapshot:
        return None
    fold = _Fold(state, store, forgets=True)
    return fold, await store.load_rest(fold.take)


async def recall(store: TranscriptStore, state: SessionState) -> None:
    """Bring the records into memory that a partial state does without.

    Raises:
        StorageError: If they cannot be read, or are not what they were.
    """
    while isinstance(store, StateKeeper) and (base := state.partial):
        head = await _head(store, base)
        if state.partial != base:
            continue  # it was brought in, or more was forgotten, meanwhile
        last = head.last_uuid
        if head.count != base or last is None or state.trail.at.get(last) != base - 1:
            raise SessionDamaged(
                f"The session {str(store.path)!r} has changed while it was open.",
                hint="Open the session again.",
            )
        state.put_before(head)


async def _head(store: StateKeeper, count: int) -> SessionState:
    """Return the state of the first records of a store, none forgotten."""
    fold = _Fold(SessionState(), store)

    def take(item: Item) -> None:
        if fold.state.count < count:
            fold.take(item)

    await store.load_again(take)
    return fold.state
