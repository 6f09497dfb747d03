"""Sessions for tests: ids and time that repeat, short ways to write records."""

from pathlib import Path
from typing import Any

from agent_sdk.core.failpoints import Faults
from agent_sdk.core.usage import Usage
from agent_sdk.providers.messages import (
    AssistantMessage,
    Origin,
    StopReason,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import (
    AssistantRecord,
    ToolJournalRecord,
    UserRecord,
    assistant_record,
    user_record,
)

CWD = "/home/小明/my project"


class CountingIds:
    """Ids in the form of a UUID that count up."""

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def new(self) -> str:
        """Return the next id."""
        self._next += 1
        return f"00000000-0000-4000-8000-{self._next:012d}"


class StepClock:
    """A wall clock that moves on by a millisecond each time it is read."""

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def iso(self) -> str:
        """Return the time and move on."""
        self._now += 1
        seconds, milliseconds = divmod(self._now, 1000)
        return f"2026-01-01T00:{seconds // 60:02d}:{seconds % 60:02d}.{milliseconds:03d}Z"

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self._now / 1000

    async def sleep(self, seconds: float) -> None:
        """Return at once."""


def prompt(text: str = "hello", *, kind: Any = "human") -> UserRecord:
    """Return the record of something that a person said."""
    return user_record(UserMessage(content=(TextBlock(text),), origin=Origin(kind)))


def answer(
    text: str = "", *calls: str, stop: StopReason | None = None, tokens: int = 0
) -> AssistantRecord:
    """Return the record of an answer with calls of the tool ``edit``."""
    content = (
        *((TextBlock(text),) if text else ()),
        *(ToolUseBlock(call, "edit", {"path": call}) for call in calls),
    )
    return assistant_record(
        AssistantMessage(
            content=content,
            api="anthropic-messages",
            provider="anthropic",
            model="claude",
            stop_reason=stop or ("tool_use" if calls else "end_turn"),
            usage=Usage(output_tokens=tokens),
        )
    )


def result(call: str, text: str = "done") -> UserRecord:
    """Return the record of a call's result."""
    return user_record(UserMessage(content=(ToolResultBlock(call, text),)))


def started(call: str) -> ToolJournalRecord:
    """Return the record that a call is about to start."""
    return ToolJournalRecord(status="started", tool_use_id=call, name="edit")


async def create(root: Path, **more: Any) -> SessionManager:
    """Begin a session below ``root``."""
    options: dict[str, Any] = {"cwd": CWD, "ids": CountingIds(), "clock": StepClock(), **more}
    return await SessionManager.create(sessions_dir=root / "sessions", **options)


async def resume(root: Path, session_id: str, **more: Any) -> SessionManager:
    """Open a session below ``root``; its new ids do not meet the old ones."""
    options: dict[str, Any] = {"ids": CountingIds(500_000), "clock": StepClock(60_000), **more}
    return await SessionManager.resume(
        session_id=session_id, sessions_dir=root / "sessions", **options
    )


async def written(root: Path, *records: Any, **more: Any) -> Path:
    """Write a session with these records, one append each, and return its file."""
    manager = await create(root, **more)
    for record in records:
        await manager.append(record)
    await manager.close()
    assert manager.path is not None
    return manager.path


def fault(name: str, action: Any, nth: int = 1) -> Faults:
    """Arm a failpoint."""
    return Faults(name=name, nth=nth, action=action)
