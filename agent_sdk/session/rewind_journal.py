"""What a rewind writes down: its plan before, its records after."""

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import FileConflict, StorageError
from agent_sdk.session.checkpoint_store import CheckpointStore, keep
from agent_sdk.session.file_history import change_record
from agent_sdk.session.file_log import RewindMark, mark_record
from agent_sdk.session.records import FileChangeRecord, KnownRecord, RewindRecord
from agent_sdk.session.rewind_plan import Hash
from agent_sdk.tools.file_history import PendingChange
from agent_sdk.tools.file_state import Plan, Planned, in_thread, sha256
from agent_sdk.tools.path_text import portable


class RewindPlan(Struct, frozen=True, kw_only=True):
    """A rewind that is being done, as it is kept while it is.

    Attributes:
        mark: What is stored at its end.
        restores: The record of a conversation's rewind that is taken back.
        files: The records of its changes.
    """

    mark: RewindMark
    restores: str
    files: tuple[FileChangeRecord, ...]


_plans: msgspec.json.Decoder[RewindPlan] = msgspec.json.Decoder(RewindPlan)


def decode_plan(data: bytes) -> RewindPlan:
    """Return the plan of a rewind that was begun.

    Raises:
        StorageError: If it is damaged.
    """
    try:
        return _plans.decode(data)
    except msgspec.MsgspecError as error:
        raise StorageError(
            f"The plan of an interrupted rewind is damaged: {error}.",
            hint="Compare the files with the session, then remove its checkpoints/rewind.json.",
        ) from error


class RewindJournal:
    """The history that a rewind is told to: keeps what it overwrites, and its plan.

    Attributes:
        files: The records of the changes.
    """

    def __init__(self, *, store: CheckpointStore, mark: RewindMark, restores: str) -> None:
        self.files: tuple[FileChangeRecord, ...] = ()
        self._store = store
        self._mark = mark
        self._restores = restores

    async def before_change(self, changes: Sequence[PendingChange]) -> None:
        """Keep the contents and store the plan; the records are stored at the end."""
        self.files = tuple(map(change_record, changes))
        await in_thread(partial(self._write, changes))

    def _write(self, changes: Sequence[PendingChange]) -> None:
        for change in changes:
            if change.content is not None:
                keep(self._store, change.content, name=portable(change.path))
        plan = RewindPlan(mark=self._mark, restores=self._restores, files=self.files)
        self._store.set_plan(msgspec.json.encode(plan))


def rewind_records(
    mark: RewindMark, files: Sequence[FileChangeRecord], restores: str
) -> list[KnownRecord]:
    """Return the records of a rewind: its mark says that the files are done."""
    records: list[KnownRecord] = [*files, mark_record(mark)]
    if mark.conversation:
        records.append(talk_record(mark, restores))
    return records


def talk_record(mark: RewindMark, restores: str) -> RewindRecord:
    """Return the record by which the conversation goes back."""
    return RewindRecord(to_uuid=mark.conversation, reason="rewind", restores=restores or None)


def put_back(store: CheckpointStore, targets: dict[Hash, Hash], *, mode: int) -> Plan:
    """Return the plan that gives a file contents that are kept.

    Args:
        store: Where they are kept.
        targets: What the file becomes, by what it is.
        mode: Permission bits for it; 0 for those that it has.
    """

    def plan(now: bytes | None) -> Planned:
        found = None if now is None else sha256(now)
        if found not in targets:
            raise FileConflict("A file was changed by somebody else in this moment.")
        target = targets[found]
        data = now if target == found else None if target is None else store.get(target)
        if target is not None and data is None:
            raise FileConflict("What a file was is not kept any more.")
        return Planned(data=data, lines=0, text="", facts={}, mode=mode or None)

    return plan
