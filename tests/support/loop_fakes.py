"""Fakes for tests of the loop: ports that remember, and tools that can be told what to do."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import InvalidToolInput, ProviderError
from agent_sdk.core.ids import SystemClock
from agent_sdk.loop.run import Run
from agent_sdk.loop.types import (
    AgentEvent,
    Decision,
    LoopConfig,
    PermissionRequest,
    PreparedCall,
    RunEnded,
    StreamProgress,
    Tool,
    ToolContext,
    ToolMetadata,
    ToolProgress,
    ToolResult,
)
from agent_sdk.providers.base import ModelRequest, PromptSection, Provider
from agent_sdk.providers.messages import (
    AssistantMessage,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    result_text,
)
from agent_sdk.providers.models import Model

MODEL = Model(id="m", provider="p", api="anthropic-messages")

READ = ToolMetadata(read_only=True, concurrent=True, side_effects="none")
WRITE = ToolMetadata()


def user(text: str, kind: Any = "human") -> UserMessage:
    return UserMessage(content=(TextBlock(text),), origin=Origin(kind))


class FakeTool:
    """A tool whose work is a function of its input."""

    def __init__(
        self,
        name: str,
        work: Callable[[Json, ToolContext], Awaitable[ToolResult | str]],
        metadata: ToolMetadata = WRITE,
    ) -> None:
        self.name = name
        self.description = f"does {name}"
        self.parameters: Mapping[str, Any] = {"type": "object"}
        self.metadata = metadata
        self._work = work

    def parse(self, raw: Json) -> Json:
        if "bad" in raw:
            raise InvalidToolInput("field 'bad' is not known.")
        return raw

    def permissions(self, args: Json, cwd: str) -> tuple[PermissionRequest, ...]:
        return (PermissionRequest(permission=self.name, patterns=(str(args.get("n", "")),)),)

    async def execute(self, args: Json, context: ToolContext) -> ToolResult:
        result = await self._work(args, context)
        return ToolResult(content=result) if isinstance(result, str) else result


class FakePorts:
    """Keeps what the loop stores and emits; ``log`` is the order of all of it."""

    def __init__(self) -> None:
        self.history: list[Message] = []
        self.events: list[AgentEvent] = []
        self.log: list[str] = []
        self.steering: list[UserMessage] = []
        self.follow_up: list[UserMessage] = []
        self.mailbox: list[UserMessage] = []
        self.told: list[UserMessage] = []
        self.denied: set[str] = set()
        self.asks: set[str] = set()
        self.asking = asyncio.Event()
        self.answer = asyncio.Event()
        self.fail_on_result: Exception | None = None
        self.wrong_hash = False
        self.makes_room = False
        self._count = 0

    def _next(self) -> str:
        self._count += 1
        return f"u{self._count}"

    @property
    def inbox(self) -> "FakePorts":
        return self

    def messages(self) -> Sequence[Message]:
        return self.history

    def system(self) -> tuple[PromptSection, ...]:
        return ()

    async def before_request(self, turn: int) -> None:
        self.log.append(f"request {turn}")

    async def on_overflow(self, error: ProviderError) -> bool:
        self.log.append(f"overflow {error.kind}")
        return self.makes_room

    def request(self, base: ModelRequest) -> ModelRequest:
        return base

    def context(self) -> Sequence[UserMessage]:
        taken, self.told = self.told, []
        return taken

    async def add_user(self, *messages: UserMessage) -> list[str]:
        self.history.extend(messages)
        self.log.extend(f"user {message.origin.kind}" for message in messages)
        return [self._next() for _ in messages]

    async def add_assistant(
        self,
        message: AssistantMessage,
        *,
        starting: ToolUseBlock | None = None,
        results: Sequence[tuple[ToolResultBlock, Json]] = (),
    ) -> list[str]:
        self.history.append(message)
        self.log.append(f"assistant {message.stop_reason}")
        uuids = [self._next()]
        if starting is not None:
            await self.journal(starting)
        for result, details in results:
            uuids.append(await self.add_result(result, details))
        return uuids

    async def journal(self, call: ToolUseBlock) -> None:
        self.log.append(f"journal {call.id}")

    async def add_result(self, result: ToolResultBlock, details: Json) -> str:
        if self.fail_on_result is not None:
            raise self.fail_on_result
        self.history.append(UserMessage(content=(result,)))
        self.log.append(f"result {result.tool_use_id}")
        return self._next()

    def decide(self, prepared: PreparedCall) -> Decision | None:
        name = prepared.tool.name
        if name in self.asks:
            return None
        if name in self.denied:
            return Decision(allowed=False, reason=f"{name} is not wanted.")
        digest = "0" if self.wrong_hash else prepared.input_hash
        return Decision(allowed=True, input_hash=digest)

    async def authorize(self, prepared: PreparedCall, signal: AbortSignal) -> Decision:
        decision = self.decide(prepared)
        if decision is None:
            self.asking.set()
            await self.answer.wait()
            decision = Decision(allowed=True, input_hash=prepared.input_hash)
        return decision

    def bound(self, call: ToolUseBlock, result: ToolResult) -> ToolResult:
        return result

    def take_steering(self) -> list[UserMessage]:
        taken, self.steering = self.steering, []
        return taken

    def take_mailbox(self) -> list[UserMessage]:
        taken, self.mailbox = self.mailbox, []
        return taken

    def take_follow_up(self) -> list[UserMessage]:
        return [self.follow_up.pop(0)] if self.follow_up else []

    def put_back(self, messages: Sequence[UserMessage]) -> None:
        self.steering = [*messages, *self.steering]

    def emit(self, event: AgentEvent) -> None:
        self.events.append(event)
        if not isinstance(event, StreamProgress | ToolProgress):
            self.log.append(type(event).__name__)

    # ------------------------------------------------------------ for asserting

    def results(self) -> dict[str, str]:
        return {
            b.tool_use_id: result_text(b)
            for m in self.history
            for b in m.content
            if isinstance(b, ToolResultBlock)
        }

    def assert_paired(self) -> None:
        calls = [
            c.id for m in self.history if isinstance(m, AssistantMessage) for c in m.tool_calls
        ]
        results = [
            b.tool_use_id for m in self.history for b in m.content if isinstance(b, ToolResultBlock)
        ]
        assert sorted(calls) == sorted(results), (calls, results)


async def run_loop(
    provider: Provider,
    ports: FakePorts,
    *tools: Tool,
    signal: AbortSignal | None = None,
    prompt: str = "go",
    **config: Any,
) -> RunEnded:
    run = Run(
        config=LoopConfig(
            run_id="r", cwd="/", model=MODEL, tools={t.name: t for t in tools}, **config
        ),
        ports=ports,
        provider=provider,
        signal=signal or AbortSignal(),
        clock=SystemClock(),
    )
    return await run.run([user(prompt)])
