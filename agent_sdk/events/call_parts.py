"""The parts of tool calls: from the first sight of a call to its result. Pure."""

from typing import Literal

from msgspec import Struct

from agent_sdk.events.wire import (
    ArtifactCreated,
    EventBody,
    FileEdited,
    PartUpdated,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
)
from agent_sdk.loop.types import ToolFinished, ToolProgress, file_changes
from agent_sdk.providers.messages import ToolUseBlock, result_text

MAX_LIVE_OUTPUT = 64 * 1024
"""Characters of a running call's output that a snapshot of its part keeps."""


class Change(Struct, frozen=True):
    """One change, ready for the log.

    Attributes:
        body: The event's body.
        record: Id of the session record it tells of; empty if none.
    """

    body: EventBody
    record: str = ""


class CallParts:
    """Knows the part of every call that has no result yet.

    Args:
        session_id: The session.
    """

    def __init__(self, *, session_id: str) -> None:
        self._session_id = session_id
        self._known: dict[str, tuple[str, ToolPart]] = {}

    def clear(self) -> None:
        """Forget all calls; the run has ended."""
        self._known.clear()

    def begin(self, message_id: str, part: ToolPart) -> None:
        """Take note of a call that begins to arrive."""
        self._known[part.call_id] = (message_id, part)

    def arrived(self, message_id: str, part_id: str, block: ToolUseBlock) -> ToolPart:
        """Return the part of a call that is complete; it may be running already."""
        known = self._known.get(block.id)
        state: ToolState = ToolPending(input=block.input)
        if known is not None and isinstance(known[1].state, ToolRunning):
            state = known[1].state  # it began before its answer had ended
        part = ToolPart(id=part_id, call_id=block.id, tool=block.name, state=state)
        self._known[block.id] = (message_id, part)
        return part

    def change(self, call: ToolUseBlock, state: ToolState, record: str = "") -> list[Change]:
        """Put the call's part into another state."""
        known = self._known.get(call.id)
        if known is None:
            return []
        message_id, part = known
        part = ToolPart(id=part.id, call_id=call.id, tool=call.name, state=state)
        self._known[call.id] = (message_id, part)
        body = PartUpdated(session_id=self._session_id, message_id=message_id, part=part)
        return [Change(body, record)]

    def progress(self, event: ToolProgress) -> tuple[str, str] | None:
        """Take output of a running call; return its message and part, if it runs."""
        known = self._known.get(event.call_id)
        if known is None or not isinstance(known[1].state, ToolRunning):
            return None
        message_id, part = known
        output = (known[1].state.output + event.text)[-MAX_LIVE_OUTPUT:]
        state = ToolRunning(input=known[1].state.input, output=output)
        part = ToolPart(id=part.id, call_id=part.call_id, tool=part.tool, state=state)
        self._known[event.call_id] = (message_id, part)
        return message_id, part.id

    def finish(self, event: ToolFinished) -> list[Change]:
        """Put the call's part into its last state and tell of what it did."""
        output = result_text(event.result)
        state: ToolState
        if event.result.is_error:
            state = ToolFailed(
                input=event.call.input,
                output=output,
                seconds=event.seconds,
                denied=event.denied,
                ran=event.ran,
                details=event.details,
            )
        else:
            state = ToolCompleted(
                input=event.call.input,
                output=output,
                seconds=event.seconds,
                details=event.details,
            )
        changes = self.change(event.call, state, event.uuid)
        self._known.pop(event.call.id, None)
        return changes + self._side_effects(event)

    def _side_effects(self, event: ToolFinished) -> list[Change]:
        changes: list[Change] = []
        for change in () if event.result.is_error else file_changes(event.details):
            created_now = change.get("operation") == "created"
            operation: Literal["created", "modified"] = "created" if created_now else "modified"
            edited = FileEdited(
                session_id=self._session_id,
                call_id=event.call.id,
                path=str(change.get("path", "")),
                operation=operation,
                additions=int(change.get("additions", 0)),
                deletions=int(change.get("deletions", 0)),
            )
            changes.append(Change(edited, event.uuid))
        artifact = event.details.get("artifact")
        if isinstance(artifact, str) and artifact:
            created = ArtifactCreated(
                session_id=self._session_id, call_id=event.call.id, path=artifact
            )
            changes.append(Change(created, event.uuid))
        return changes
