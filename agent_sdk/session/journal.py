"""What must be appended to a session that was cut off, before it goes on.

Pure, and idempotent: once these records are applied, nothing more is due.
"""

from agent_sdk.providers.messages import ToolResultBlock
from agent_sdk.session.history import SessionState
from agent_sdk.session.records import (
    KnownRecord,
    RunRecord,
    StoredMessage,
    UserRecord,
)

_STARTED = (
    "Interrupted: ZPI stopped while this call was running. Its outcome is unknown, and it was "
    "not run again. Check what it has done before you repeat it."
)
_NOT_STARTED = (
    "Interrupted: ZPI stopped before this call had a result. It had not begun to change "
    "anything, and it was not run again."
)


def recovery_records(state: SessionState) -> list[KnownRecord]:
    """Return the records that settle an interrupted session; empty if it is settled.

    Every call without a result gets one that says whether it had been
    started; no call is run again. A run without an end gets its end.
    """
    records: list[KnownRecord] = []
    for call_id in state.unanswered:
        started = call_id in state.open_calls
        result = ToolResultBlock(
            tool_use_id=call_id, content=_STARTED if started else _NOT_STARTED, is_error=True
        )
        records.append(
            UserRecord(
                message=StoredMessage("user", (result,)),
                details={"interrupted": True, "started": started},
            )
        )
    if state.open_run:
        records.append(RunRecord(event="end", run_id=state.open_run, status="interrupted"))
    return records
