"""A session at work: runs the loop on a durable history.

It sequences and delegates: records are the manager's, permissions the
engine's, requests the loop's. One run at a time; what is sent meanwhile is
queued, or steered into the run.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Self

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import InvalidInput
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.loop.run import Run
from agent_sdk.loop.types import LoopConfig, RunEnded, Tool, ToolResult
from agent_sdk.permissions.engine import PermissionEngine
from agent_sdk.plugins.session_hooks import SessionHooks
from agent_sdk.providers.base import PromptSection, Provider
from agent_sdk.providers.messages import Block, Origin, ToolUseBlock, UserMessage
from agent_sdk.providers.models import Model
from agent_sdk.session.busy import Busy
from agent_sdk.session.compacting import Asking
from agent_sdk.session.context_control import ContextControl
from agent_sdk.session.dynamic_context import DynamicContext
from agent_sdk.session.hub import EventHub, Subscriber
from agent_sdk.session.inbox import SessionInbox, input_message
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.plugin_parts import compaction_hook
from agent_sdk.session.records import (
    RunRecord,
)
from agent_sdk.session.run_ports import RequestPorts, SessionPorts
from agent_sdk.session.run_records import changed_settings, record_end
from agent_sdk.session.tool_session import ToolSession
from agent_sdk.tools.registry import tool_specs, tools_by_name

GO_ON = (
    "You were interrupted. What you had written is above; tool calls that had no result were not "
    "run, or their outcome is unknown. Go on where you stopped."
)


class AgentSession:
    """One session with its model, tools and permissions.

    Args:
        manager: Its history; open for writing.
        provider: The connection to the model.
        model: The model.
        tools: The tools, in the order in which they are declared.
        permissions: The gate before every call.
        hub: Where events go out; shared with the permission engine.
        system: Sections of the system prompt.
        bound: Cuts a result to what the model may be sent.
        ids: Source of run ids.
        clock: Source of time.
        thinking_level: Reasoning level; empty to send nothing about it.
        max_turns: Most requests of one run; None for no limit.
        hooks: Handlers of plugins; closed with the session. None for none.
        blocks: Context of plugins that may change; None for none.

    Attributes:
        context: What fills the model's context, and making room there.
        requests: How its owner takes part in requests; may be set.
        owned: Closed with the session, last: its history, unless it is set to else.

    Raises:
        InvalidInput: If two tools have the same name.
    """

    def __init__(
        self,
        *,
        manager: SessionManager,
        provider: Provider,
        model: Model,
        tools: Sequence[Tool],
        permissions: PermissionEngine,
        hub: EventHub,
        system: tuple[PromptSection, ...],
        bound: Callable[[ToolUseBlock, ToolResult], ToolResult],
        ids: Ids,
        clock: Clock,
        thinking_level: str = "",
        max_turns: int | None = None,
        hooks: SessionHooks | None = None,
        blocks: DynamicContext | None = None,
    ) -> None:
        self.manager = manager
        self.model = model
        self.permissions = permissions
        self._provider = provider
        self._tools = tools_by_name(tools)
        self._hub = hub
        self._system = system
        self._bound = bound
        self._ids = ids
        self._clock = clock
        self._thinking_level = thinking_level
        self._max_turns = max_turns
        self._specs = tool_specs(self._tools)
        self._inbox = SessionInbox()
        self._hooks = hooks
        self._blocks = blocks
        self.requests = RequestPorts()
        self.owned = AsyncExitStack()
        self.owned.push_async_callback(manager.close)
        self._busy = Busy()
        self.context = ContextControl(
            manager=manager, emit=hub.emit, asking=self._asking, busy=self._busy
        )
        self.context.compactor.hook = compaction_hook(hooks)

    @property
    def session_id(self) -> str:
        """Id of the session."""
        return self.manager.session_id

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools, in order."""
        return tuple(self._tools)

    @property
    def is_idle(self) -> bool:
        """Whether no run is going on."""
        return self._busy.idle

    @property
    def queued(self) -> tuple[UserMessage, ...]:
        """Prompts that wait for the run to end, oldest first."""
        return self._inbox.queued

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call the subscriber for each event; return how to stop.

        Events come after what they tell is durable.
        """
        return self._hub.subscribe(subscriber)

    # -------------------------------------------------------------------- runs

    async def prompt(
        self, content: str | Sequence[Block], *, origin: Origin | None = None
    ) -> RunEnded:
        """Run the loop on a prompt until it, and all that was queued, is done.

        Args:
            content: Text, or blocks.
            origin: Where it comes from; a human, if not said.

        Returns:
            How the run ended; failures are part of it.

        Raises:
            InvalidInput: If a run is going on already, or the prompt is empty.
        """
        self._busy.check()
        return await self._begin([input_message(content, origin or Origin("human"))])

    async def go_on(self) -> RunEnded:
        """Run the loop on the stored conversation, after a run that was cut or failed.

        Where the model has spoken last, it is told that it was cut off; else
        what it was asked last, or the results of its calls, are sent again.

        Returns:
            How the run ended; failures are part of it.

        Raises:
            InvalidInput: If a run is going on, or nothing was ever asked.
        """
        self._busy.check()
        messages = self.manager.state.model_messages()
        if not messages:
            raise InvalidInput("There is nothing to go on with.", hint="Send a prompt.")
        if isinstance(messages[-1], UserMessage):
            return await self._begin([])
        return await self._begin([input_message(GO_ON, Origin("retry"))])

    async def _begin(self, prompts: list[UserMessage]) -> RunEnded:
        with self._busy.hold(self.permissions.end_run) as signal:
            return await self._run(prompts, signal)

    async def _run(self, prompts: list[UserMessage], signal: AbortSignal) -> RunEnded:
        run_id = self._ids.new()
        ports = SessionPorts(
            manager=self.manager,
            permissions=self.permissions,
            hub=self._hub,
            bound=self._bound,
            inbox=self._inbox,
            compactor=self.context.compactor,
            asking=self._asking,
            requests=self.requests,
            context=self._blocks.updates if self._blocks else tuple,
            before_first=(
                *changed_settings(self.manager.state, self._asking(), mode=self.permissions.mode),
                RunRecord(event="start", run_id=run_id),
            ),
        )
        run = Run(
            config=LoopConfig(
                run_id=run_id,
                cwd=self.manager.cwd,
                model=self.model,
                thinking_level=self._thinking_level,
                tools=self._tools,
                specs=self._specs,
                max_turns=self._max_turns,
                session_id=self.session_id,
                session=ToolSession(
                    manager=self.manager, idle=lambda: self.is_idle, system=lambda: self._system
                ),
            ),
            ports=ports,
            extension=self._hooks,
            provider=self._provider,
            signal=signal,
            clock=self._clock,
        )
        end = await record_end(self.manager, await run.run(prompts), begun=ports.begun)
        self._hub.emit(end)
        return end

    def steer(self, content: str | Sequence[Block], *, origin_id: str | None = None) -> None:
        """Put a message into the run: it is seen before the next request.

        Without a run it is taken by the next one.

        Args:
            content: Text, or blocks.
            origin_id: What ties its record to a row of the caller's; a new id by default.

        Raises:
            InvalidInput: If it is empty.
        """
        self._inbox.put(input_message(content, Origin("steered", origin_id or self._ids.new())))

    def take_back(self) -> tuple[UserMessage, ...]:
        """Withdraw what was steered and no run has taken, and return it."""
        return tuple(self._inbox.take_steering())

    def queue(self, content: str | Sequence[Block]) -> None:
        """Queue a prompt: it follows when the run would end, first in first out.

        Raises:
            InvalidInput: If it is empty.
        """
        self._inbox.put(input_message(content, Origin("queued", self._ids.new())))

    def deliver(self, content: str | Sequence[Block], *, origin_id: str | None = None) -> None:
        """Put into the mailbox what others send, such as the result of a background task.

        A run takes it after a complete batch of calls, or after an answer
        without final text. It starts no run and keeps none from ending: what
        comes too late is seen with the next prompt.

        Args:
            content: Text, or blocks.
            origin_id: What ties its record to a row of the caller's; a new id by default.

        Raises:
            InvalidInput: If it is empty.
        """
        self._inbox.put(input_message(content, Origin("mailbox", origin_id or self._ids.new())))

    def abort(self, reason: str = "stopped by the user") -> bool:
        """Stop the run; its call of ``prompt`` returns when all is stored.

        What was steered or queued stays for the next run.

        Returns:
            Whether there was a run.
        """
        return self._busy.abort(reason)

    def _asking(self) -> Asking:
        """Return with what the model is asked at the moment."""
        return Asking(
            provider=self._provider,
            model=self.model,
            system=self._system,
            tools=self._specs,
            thinking_level=self._thinking_level,
        )

    # ----------------------------------------------------------------- the rest

    async def use_model(
        self,
        model: Model,
        provider: Provider,
        *,
        bound: Callable[[ToolUseBlock, ToolResult], ToolResult],
        thinking_level: str,
    ) -> None:
        """Use another model from the next run on; the old provider is closed.

        Args:
            model: The model.
            provider: The connection to it.
            bound: Cuts a result to what it may be sent.
            thinking_level: Reasoning level, one that it knows; empty for none.

        Raises:
            InvalidInput: If a run is going on.
        """
        self._busy.check()
        old, self._provider = self._provider, provider
        self.model, self._bound, self._thinking_level = model, bound, thinking_level
        await old.aclose()

    def use_prompt(self, system: tuple[PromptSection, ...]) -> None:
        """Use another system prompt from the next run on.

        Raises:
            InvalidInput: If a run is going on.
        """
        self._busy.check()
        self._system = system

    async def aclose(self) -> None:
        """Release the provider, open questions and what the session owns; may be called twice.

        Raises:
            InvalidInput: If a run is going on: abort it and await it first.
        """
        self._busy.check(hint="Abort it first.")
        try:
            if self._hooks is not None:
                await self._hooks.aclose()
            await self.permissions.aclose()
            await self._provider.aclose()
        finally:
            await self.owned.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
