"""How a session takes part in a run of the loop: the ports, bound to its parts."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import ProviderError
from agent_sdk.loop.tool_calls import input_hash
from agent_sdk.loop.types import AgentEvent, Decision, PreparedCall, ToolResult
from agent_sdk.permissions.engine import PermissionEngine
from agent_sdk.providers.base import ModelRequest, PromptSection
from agent_sdk.providers.messages import (
    AssistantMessage,
    Json,
    Message,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.session.compacting import Asking, SessionCompactor
from agent_sdk.session.hub import EventHub
from agent_sdk.session.inbox import SessionInbox
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import (
    KnownRecord,
    ToolJournalRecord,
    assistant_record,
    user_record,
)


class RequestPorts(Struct, frozen=True, kw_only=True):
    """How the owner of a session takes part in its model requests.

    Attributes:
        check: Awaited before each request with its number in the run, from 1,
            after a compaction that was due. A ``ZpiError`` ends the run, and
            the request is not made.
        change: Returns the request with the owner's options; quick. What it
            changes before the newest messages costs the provider's cache.
    """

    check: Callable[[int], Awaitable[None]] | None = None
    change: Callable[[ModelRequest], ModelRequest] | None = None


class SessionPorts:
    """The loop's ports for one run; see ``loop.types.LoopPorts``.

    Args:
        manager: Where records go; what returns from it is durable.
        permissions: Decides about calls.
        hub: Where events go out.
        bound: Cuts a result to what the model may be sent.
        inbox: What waits to be put into the run.
        compactor: Makes room in the model's context.
        asking: Returns with what the model is asked at the moment.
        requests: How the session's owner takes part in requests.
        context: Returns what the model must be told before its next request.
        before_first: Records that are stored together with the first message.

    Attributes:
        inbox: What waits to be put into the run.
        begun: Whether anything of the run is stored, its start first.
    """

    def __init__(
        self,
        *,
        manager: SessionManager,
        permissions: PermissionEngine,
        hub: EventHub,
        bound: Callable[[ToolUseBlock, ToolResult], ToolResult],
        inbox: SessionInbox,
        compactor: SessionCompactor,
        asking: Callable[[], Asking],
        requests: RequestPorts,
        context: Callable[[], Sequence[UserMessage]] = tuple,
        before_first: Sequence[KnownRecord],
    ) -> None:
        self._manager = manager
        self._permissions = permissions
        self._hub = hub
        self._bound = bound
        self.inbox = inbox
        self._compactor = compactor
        compactor.begin_run()
        self._asking = asking
        self._requests = requests
        self._context = context
        self._before: tuple[KnownRecord, ...] = tuple(before_first)
        self.begun = False

    def messages(self) -> Sequence[Message]:
        """Return the conversation as the model shall see it."""
        return self._manager.state.model_messages()

    def system(self) -> tuple[PromptSection, ...]:
        """Return the system prompt's sections."""
        return self._asking().system

    async def before_request(self, turn: int) -> None:
        """Compact if the conversation is near the model's window; let the owner check."""
        await self._compactor.before_request(self._asking(), self._append)
        if self._requests.check is not None:
            await self._requests.check(turn)

    async def on_overflow(self, error: ProviderError) -> bool:
        """Compact after a request that did not fit; return whether it may be made again."""
        return await self._compactor.on_overflow(self._asking(), self._append)

    def request(self, base: ModelRequest) -> ModelRequest:
        """Return the request with the owner's options."""
        return base if self._requests.change is None else self._requests.change(base)

    async def _append(self, *records: KnownRecord) -> list[str]:
        before, self._before = self._before, ()
        uuids = await self._manager.append(*before, *records)
        self.begun = True
        return uuids[len(before) :]

    def context(self) -> Sequence[UserMessage]:
        """Return what the model must be told before its next request."""
        return self._context()

    async def add_user(self, *messages: UserMessage) -> list[str]:
        """Store user messages, all or none; return their records' ids."""
        return await self._append(*map(user_record, messages))

    async def add_assistant(
        self,
        message: AssistantMessage,
        *,
        starting: ToolUseBlock | None = None,
        results: Sequence[tuple[ToolResultBlock, Json]] = (),
    ) -> list[str]:
        """Store an answer with the start of a call or with results; see the port."""
        records: list[KnownRecord] = [assistant_record(message)]
        if starting is not None:
            records.append(_started(starting))
        records += (_result(result, details) for result, details in results)
        uuids = await self._append(*records)
        return [uuids[0], *uuids[len(uuids) - len(results) :]] if results else uuids[:1]

    async def journal(self, call: ToolUseBlock) -> None:
        """Store that a call with side effects is about to start."""
        await self._append(_started(call))

    async def add_result(self, result: ToolResultBlock, details: Json) -> str:
        """Store a call's result; return its record's id."""
        return (await self._append(_result(result, details)))[0]

    def decide(self, prepared: PreparedCall) -> Decision | None:
        """Decide without asking anybody; None if a person would be asked."""
        return self._permissions.decide(prepared)

    async def authorize(self, prepared: PreparedCall, signal: AbortSignal) -> Decision:
        """Decide whether a call may run; may ask a person and wait."""
        return await self._permissions.authorize(prepared, signal)

    def bound(self, call: ToolUseBlock, result: ToolResult) -> ToolResult:
        """Return the result cut to what the model may be sent."""
        return self._bound(call, result)

    def emit(self, event: AgentEvent) -> None:
        """Publish an event."""
        self._hub.emit(event)


def _started(call: ToolUseBlock) -> ToolJournalRecord:
    return ToolJournalRecord(
        status="started", tool_use_id=call.id, name=call.name, input_hash=input_hash(call)
    )


def _result(result: ToolResultBlock, details: Json) -> KnownRecord:
    return user_record(UserMessage(content=(result,)), details=details)
