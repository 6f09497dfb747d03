"""How a stored session becomes a state: from what was kept of it, or from the start."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, structs

from agent_sdk.core.errors import SessionDamaged
from agent_sdk.session.artifacts import restore_artifacts
from agent_sdk.session.codec import Item
from agent_sdk.session.history import SessionState
from agent_sdk.session.records import Record
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


class _Fold:
    """Takes each record of a store in order."""

    def __init__(self, state: SessionState, store: TranscriptStore, observe: Observer | None):
        self.state = state
        self.missing: list[str] = []
        self.stuck = False
        self._store = store
        self._observe = observe

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


async def open_state(store: TranscriptStore, observe: Observer | None) -> Opened:
    """Read a store's session; quickly, if the store keeps states and nobody observes.

    Args:
        store: The store.
        observe: Called with each record in order, perhaps on another thread.

    Raises:
        StorageError: If it cannot be read; see ``TranscriptStore.load``.
    """
    quick = await _from_kept(store) if observe is None else None
    if quick is not None and not quick[0].stuck:
        fold, report = quick
        return Opened(fold.state, report, tuple(fold.missing))
    fold = _Fold(SessionState(), store, observe)
    report = await store.load(fold.take)
    if quick is not None and report.torn is None:  # which the first reading has cut off
        first = quick[1]
        report = structs.replace(report, torn=first.torn, saved_as=first.saved_as)
    return Opened(fold.state, report, tuple(fold.missing))


async def _from_kept(store: TranscriptStore) -> tuple[_Fold, LoadReport] | None:
    if not isinstance(store, StateKeeper):
        return None
    snapshot = await store.load_state()
    if snapshot is None:
        return None
    try:
        fold = _Fold(restored_state(snapshot), store, None)
    except UnusableSnapshot:
        return None
    return fold, await store.load_rest(fold.take)


async def recall(store: TranscriptStore, state: SessionState) -> None:
    """Bring the records into memory that a partial state does without.

    Raises:
        StorageError: If they cannot be read, or are not what they were.
    """
    base = state.partial
    if not base or not isinstance(store, StateKeeper):
        return
    head = _Fold(SessionState(), store, None)

    def take(item: Item) -> None:
        if head.state.count < base:
            head.take(item)

    await store.load_again(take)
    if not state.partial:
        return  # somebody else was quicker
    last = head.state.last_uuid
    if head.state.count != base or last is None or state.trail.at.get(last) != base - 1:
        raise SessionDamaged(
            f"The session {str(store.path)!r} has changed while it was open.",
            hint="Open the session again.",
        )
    state.put_before(head.state)
