"""Stored records back to the events that told of them.

A fold over the records that gives what a subscriber would have seen of them:
the run's beginning, messages, results and its end, without what is transient.
Fed to a ``Projector`` it gives the same messages and parts as were shown live.
"""

from collections.abc import Iterable, Iterator
from typing import Any, get_args

import msgspec
from msgspec import Struct

from agent_sdk.core.usage import Usage
from agent_sdk.loop.tool_calls import CALL_FACTS
from agent_sdk.loop.types import (
    AgentEvent,
    AssistantMessageAdded,
    CompactionEnded,
    RunEnded,
    RunStarted,
    RunStatus,
    ToolFinished,
    TurnStarted,
    UserMessageAdded,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    Json,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.session.records import (
    AssistantRecord,
    CompactionRecord,
    Record,
    RewindRecord,
    RunRecord,
    UserRecord,
    message_of,
)

_STATUSES = frozenset(get_args(RunStatus))


class LastRun(Struct, frozen=True, kw_only=True):
    """The newest run of a session.

    Attributes:
        run_id: The run.
        status: As in its record: a ``RunStatus``, ``interrupted``, or empty
            while it has no end.
        error_code: Stable code, for ``error``.
        error: Its text.
    """

    run_id: str
    status: str = ""
    error_code: str = ""
    error: str = ""


class Replay:
    """Turns the records of one session into events, one record after the other.

    Attributes:
        last_run: The newest run; None before the first.
    """

    def __init__(self) -> None:
        self.last_run: LastRun | None = None
        self._turn = 0
        self._calls: dict[str, ToolUseBlock] = {}

    def events(self, record: Record) -> list[AgentEvent]:
        """Take the next record; return the events that told of it."""
        if isinstance(record, UserRecord):
            return self._user(record)
        if isinstance(record, AssistantRecord):
            return self._assistant(record)
        if isinstance(record, RunRecord):
            return self._run(record)
        if isinstance(record, CompactionRecord):
            return [_compacted(record)]
        return []

    def _run(self, record: RunRecord) -> list[AgentEvent]:
        if record.event == "start":
            self._turn = 0
            self.last_run = LastRun(run_id=record.run_id)
            return [RunStarted(record.run_id)]
        self.last_run = LastRun(
            run_id=record.run_id,
            status=record.status,
            error_code=record.error_code,
            error=record.error,
        )
        self._calls.clear()
        # "interrupted" is told of as what it is to a reader: cut short.
        status: Any = record.status if record.status in _STATUSES else "aborted"
        return [
            RunEnded(
                run_id=record.run_id,
                status=status,
                turns=record.turns,
                usage=record.usage if isinstance(record.usage, Usage) else Usage(),
                error_code=record.error_code,
                error=record.error,
            )
        ]

    def _assistant(self, record: AssistantRecord) -> list[AgentEvent]:
        message = message_of(record)
        if not isinstance(message, AssistantMessage):  # pragma: no cover - by its type
            return []
        self._turn += 1
        self._calls.update((call.id, call) for call in message.tool_calls)
        return [TurnStarted(self._turn), AssistantMessageAdded(record.uuid, message)]

    def _user(self, record: UserRecord) -> list[AgentEvent]:
        message = message_of(record)
        if not isinstance(message, UserMessage):  # pragma: no cover - by its type
            return []
        events: list[AgentEvent] = [
            _finished(record, self._calls[block.tool_use_id], block)
            for block in message.content
            if isinstance(block, ToolResultBlock) and block.tool_use_id in self._calls
        ]
        if not all(isinstance(block, ToolResultBlock) for block in message.content):
            events.append(UserMessageAdded(record.uuid, message))
        return events


def _finished(record: UserRecord, call: ToolUseBlock, block: ToolResultBlock) -> ToolFinished:
    details = dict(record.details or {})
    facts: Json = details.pop(CALL_FACTS, {})
    seconds = facts.get("seconds", 0.0)
    if isinstance(facts.get("input"), dict):
        call = msgspec.structs.replace(call, input=facts["input"])
    return ToolFinished(
        uuid=record.uuid,
        call=call,
        result=block,
        details=details,
        seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
        ran=facts.get("ran") is True or details.get("started") is True,
        denied=facts.get("denied") is True,
    )


def _compacted(record: CompactionRecord) -> CompactionEnded:
    return CompactionEnded(
        status="completed",
        uuid=record.uuid,
        summary=record.summary,
        tokens_before=record.tokens_before,
        usage=record.usage,
    )


def in_view(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records that no rewind has put out of view, in order."""
    kept = list(records)
    if not any(isinstance(record, RewindRecord) for record in kept):
        yield from kept
        return
    at = {record.uuid: i for i, record in enumerate(kept)}
    path: list[Record] = []
    i = len(kept) - 1
    while i >= 0:
        record = kept[i]
        path.append(record)
        i = at.get(record.to_uuid, i - 1) if isinstance(record, RewindRecord) else i - 1
    yield from reversed(path)
