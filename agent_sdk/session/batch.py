"""Records on their way into the file: chained, stamped and encoded together."""

from collections.abc import Sequence

import msgspec

from agent_sdk.core.errors import InvalidInput
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.session.artifacts import Artifact, restore_artifacts, split_artifacts
from agent_sdk.session.codec import encode
from agent_sdk.session.history import SessionState
from agent_sdk.session.records import (
    FORMAT,
    VERSION,
    CompactionRecord,
    KnownRecord,
    RewindRecord,
    SessionHeader,
    UnknownRecord,
)


class Batch:
    """What the next write puts behind a state's last record.

    The first batch of a session begins with the header.

    Attributes:
        lines: Encoded records, without newlines.
        records: The same records, as the state shall take them.
        blobs: Artifacts that the lines point to, by hash.
    """

    def __init__(
        self, *, state: SessionState, session_id: str, cwd: str, ids: Ids, clock: Clock
    ) -> None:
        self.lines: list[bytes] = []
        self.records: list[KnownRecord] = []
        self.blobs: dict[str, bytes] = {}
        self._state = state
        self._session_id = session_id
        self._ids = ids
        self._clock = clock
        if state.last_uuid is None:
            self._add(SessionHeader(format=FORMAT, version=VERSION, cwd=cwd))

    def add(self, drafts: Sequence[KnownRecord]) -> list[str]:
        """Add records, all of them or none; return their ids.

        Raises:
            InvalidInput: If one of them does not fit the format, or points
                to a record that does not exist.
        """
        at = len(self.records)
        try:
            return [self._add(draft) for draft in drafts]
        except InvalidInput:
            del self.lines[at:], self.records[at:]
            raise

    def _add(self, draft: KnownRecord) -> str:
        last = self.records[-1].uuid if self.records else self._state.last_uuid
        self._check_pointers(draft)
        record = msgspec.structs.replace(
            draft,
            uuid=self._ids.new(),
            parent_uuid=last,
            session_id=self._session_id,
            timestamp=self._clock.iso(),
        )
        stored, artifacts = split_artifacts(record)
        line, clean = encode(stored)
        if clean is not stored:
            record = _restored(clean, artifacts)
        self.lines.append(line)
        self.records.append(record)
        self.blobs.update((a.sha256, a.data) for a in artifacts)
        return record.uuid

    def _check_pointers(self, draft: KnownRecord) -> None:
        pointers: tuple[str | None, ...] = ()
        if isinstance(draft, RewindRecord):
            pointers = (draft.to_uuid, draft.restores)
        elif isinstance(draft, CompactionRecord):
            pointers = (draft.keep_from_uuid, draft.clear_tool_results_before_uuid)
        new = {record.uuid for record in self.records} if pointers else set()
        for uuid in pointers:
            if uuid is not None and uuid not in new and not self._state.knows(uuid):
                raise InvalidInput(f"The session has no record {uuid!r}.")


def _restored(record: KnownRecord, artifacts: Sequence[Artifact]) -> KnownRecord:
    content = {artifact.sha256: artifact.data for artifact in artifacts}
    restored, _ = restore_artifacts(record, content.get)
    return record if isinstance(restored, UnknownRecord) else restored
