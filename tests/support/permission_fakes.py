"""Fakes for tests of permissions: prepared calls, and an asker that a test answers for."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from agent_sdk.core.errors import StorageError
from agent_sdk.loop.types import (
    Notice,
    PermissionAsked,
    PermissionReplied,
    PermissionRequest,
    PreparedCall,
    Rule,
    ToolContext,
    ToolMetadata,
    ToolResult,
)
from agent_sdk.permissions.engine import PermissionEvent, PermissionReply, ReplyKind
from agent_sdk.providers.messages import Json, ToolUseBlock


class StubTool:
    """A tool that is never run."""

    def __init__(self, name: str, *, read_only: bool) -> None:
        self.name = name
        self.description = name
        self.parameters: Mapping[str, Any] = {"type": "object"}
        self.metadata = ToolMetadata(read_only=read_only)

    def parse(self, raw: Json) -> Any:
        return raw

    def permissions(self, args: Any, cwd: str) -> tuple[PermissionRequest, ...]:
        return ()

    async def execute(self, args: Any, context: ToolContext) -> ToolResult:
        raise AssertionError("must not run")


def prepared(
    *requests: PermissionRequest, call_id: str = "c1", read_only: bool = False
) -> PreparedCall:
    name = requests[0].permission if requests else "none"
    return PreparedCall(
        call=ToolUseBlock(call_id, name),
        tool=StubTool(name, read_only=read_only),
        args={},
        requests=requests,
        input_hash=f"hash of {call_id}",
    )


def wants(permission: str, *patterns: str, always: str = "", **more: Any) -> PermissionRequest:
    rules = (Rule(permission, always, "allow"),) if always else ()
    return PermissionRequest(permission=permission, patterns=patterns, always=rules, **more)


class CountingIds:
    def __init__(self) -> None:
        self.made = 0

    def new(self) -> str:
        self.made += 1
        return f"q{self.made}"


class ManualAsker:
    """Holds every question until the test answers it."""

    def __init__(self) -> None:
        self.open: dict[str, tuple[PermissionAsked, asyncio.Future[PermissionReply]]] = {}
        self.withdrawn: list[str] = []

    async def ask(self, asked: PermissionAsked) -> PermissionReply:
        future: asyncio.Future[PermissionReply] = asyncio.get_running_loop().create_future()
        self.open[asked.request_id] = (asked, future)
        try:
            return await future
        except asyncio.CancelledError:
            self.withdrawn.append(asked.request_id)
            raise
        finally:
            self.open.pop(asked.request_id, None)

    def answer(self, request_id: str, reply: ReplyKind, *, reason: str = "") -> None:
        asked, future = self.open[request_id]
        future.set_result(PermissionReply(reply=reply, input_hash=asked.input_hash, reason=reason))


class Recorder:
    """What an engine emits and stores."""

    def __init__(self) -> None:
        self.events: list[PermissionEvent] = []
        self.stored: list[Rule] = []
        self.fail = False

    def emit(self, event: PermissionEvent) -> None:
        self.events.append(event)

    async def remember(self, rules: Sequence[Rule]) -> None:
        await asyncio.sleep(0)
        if self.fail:
            raise StorageError("the disk is gone")
        self.stored += rules

    @property
    def asked(self) -> list[PermissionAsked]:
        return [event for event in self.events if isinstance(event, PermissionAsked)]

    @property
    def replied(self) -> list[PermissionReplied]:
        return [event for event in self.events if isinstance(event, PermissionReplied)]

    @property
    def notices(self) -> list[Notice]:
        return [event for event in self.events if isinstance(event, Notice)]
