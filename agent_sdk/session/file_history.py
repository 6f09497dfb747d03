"""What the session's file tools change is kept, so that it can be taken back.

Taking back is ``session.checkpoints``; it is not needed to keep.
"""

from collections.abc import Sequence

from agent_sdk.session.checkpoint_store import CheckpointStore
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import FileChangeRecord, FileVersion
from agent_sdk.tools.file_history import FileFacts, PendingChange
from agent_sdk.tools.file_state import in_thread
from agent_sdk.tools.path_text import portable


class SessionFileHistory:
    """Keeps what the file tools change; a ``tools.file_history.FileHistory``.

    Args:
        manager: Where the records go.
        store: Where the contents go.
    """

    def __init__(self, *, manager: SessionManager, store: CheckpointStore) -> None:
        self._manager = manager
        self._store = store

    async def before_change(self, changes: Sequence[PendingChange]) -> None:
        """Keep the contents and store the records; see the protocol.

        A content for which there is no room is not kept: the change can then
        not be taken back, and a preview says so.
        """
        contents = [change.content for change in changes if change.content is not None]
        await in_thread(lambda: [self._store.put(content) for content in contents])
        await self._manager.append(*map(change_record, changes))


def change_record(change: PendingChange) -> FileChangeRecord:
    """Return the record of a change."""
    return FileChangeRecord(
        path=portable(change.path),
        tool_use_id=change.call_id,
        before=_version(change.before),
        after=_version(change.after),
    )


def _version(facts: FileFacts | None) -> FileVersion | None:
    return None if facts is None else FileVersion(facts.sha256, facts.size, facts.mode)
