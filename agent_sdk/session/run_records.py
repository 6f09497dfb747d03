"""Records around a run: what is in force when it starts, and how it ended."""

from msgspec import UNSET, structs

from agent_sdk.core.errors import StorageError
from agent_sdk.loop.types import RunEnded
from agent_sdk.session.compacting import Asking
from agent_sdk.session.history import SessionState
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import (
    KnownRecord,
    ModelChangeRecord,
    PermissionModeChangeRecord,
    RunRecord,
    StoredSection,
    SystemRecord,
    ThinkingLevelChangeRecord,
)


def changed_settings(state: SessionState, asking: Asking, *, mode: str) -> list[KnownRecord]:
    """Return the records that say what is in force now and was not before."""
    model, tools = asking.model, tuple(spec.name for spec in asking.tools)
    changes: list[KnownRecord] = []
    if state.model != model.key:
        changes.append(ModelChangeRecord(provider=model.provider, model=model.id, api=model.api))
    if state.thinking_level != asking.thinking_level:
        changes.append(ThinkingLevelChangeRecord(thinking_level=asking.thinking_level))
    if state.permission_mode != mode:
        changes.append(PermissionModeChangeRecord(mode=mode))
    sections = tuple(StoredSection(s.name, s.text) for s in asking.system)
    changed = tuple(state.sections) != asking.system
    if changed or set(state.tools) != set(tools):
        system = SystemRecord(
            tools_added=tuple(t for t in tools if t not in state.tools),
            tools_removed=tuple(t for t in state.tools if t not in tools),
            sections=sections if changed else UNSET,
        )
        changes.append(system)
    return changes


async def record_end(manager: SessionManager, end: RunEnded, *, begun: bool) -> RunEnded:
    """Store how the run ended; a run whose end cannot be stored has failed."""
    if not begun:  # there is no start that an end could belong to
        return end
    try:
        await manager.append(_end_record(end))
    except StorageError as error:
        if end.status == "error":  # the first failure says more, and this one often follows from it
            return end
        return structs.replace(end, status="error", error_code=error.code, error=str(error))
    return end


def _end_record(end: RunEnded) -> RunRecord:
    failed = end.status == "error"
    return RunRecord(
        event="end",
        run_id=end.run_id,
        status=end.status,
        turns=end.turns,
        usage=end.usage,
        error_code=end.error_code if failed else "",
        error=end.error if failed else "",
    )
