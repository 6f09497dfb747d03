"""Sessions with plugins, and handlers that write down what they were told."""

from collections.abc import Sequence
from typing import Any

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.loop.types import AgentEvent, Notice, Tool
from agent_sdk.plugins.hook_runner import HookEvent, HookReport
from agent_sdk.plugins.merge import merge_contributions
from agent_sdk.plugins.types import Hook, HookInput, HookResult, SessionPlugin
from agent_sdk.providers.base import Provider
from agent_sdk.providers.messages import Message, TextBlock, ToolResultBlock, UserMessage
from agent_sdk.session.hub import EventHub
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.plugin_parts import plugin_parts
from tests.support.sessions import build_session


class Says:
    """A handler that gives answers in turn, the last one for ever; keeps what it was told."""

    def __init__(self, *answers: HookResult | Exception | None) -> None:
        self.answers = list(answers) or [None]
        self.told: list[Any] = []

    async def __call__(self, data: HookInput, signal: AbortSignal) -> HookResult | None:
        self.told.append(data)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def plugin(plugin_id: str, *hooks: Hook, **more: Any) -> SessionPlugin:
    return SessionPlugin(id=plugin_id, version="1", hooks=hooks, **more)


class Hooked:
    """A session with plugins, and all that it told of."""

    def __init__(
        self,
        manager: SessionManager,
        provider: Provider,
        *plugins: SessionPlugin,
        tools: Sequence[Tool] = (),
        **more: Any,
    ) -> None:
        self.manager = manager
        self.events: list[AgentEvent] = []
        self.hook_events: list[HookEvent] = []
        hub = EventHub()
        hub.subscribe(self.events.append)
        builtins = [tool.name for tool in tools]
        parts = plugin_parts(
            merge_contributions(plugins, builtins=builtins),
            manager=manager,
            hub=hub,
            ids=RandomIds(),
            clock=SystemClock(),
            report=self.hook_events.append,
        )
        self.session = build_session(
            manager,
            provider,
            tools=tools,
            hub=hub,
            hooks=parts.hooks,
            blocks=parts.blocks,
            **more,
        )

    @property
    def reports(self) -> list[HookReport]:
        return [event for event in self.hook_events if isinstance(event, HookReport)]

    @property
    def notices(self) -> list[Notice]:
        return [event for event in self.events if isinstance(event, Notice)]

    @property
    def shape(self) -> list[str]:
        return shape(self.manager.state.messages)


def shape(messages: Sequence[Message]) -> list[str]:
    """Say of each message what it is: ``human``, ``hook``, ``result``, ``assistant`` …"""
    return [_kind(message) for message in messages]


def _kind(message: Message) -> str:
    if not isinstance(message, UserMessage):
        return "assistant"
    if all(isinstance(block, ToolResultBlock) for block in message.content):
        return "result"
    return message.origin.kind


def texts(messages: Sequence[Message], kind: str) -> list[str]:
    """Return the texts of the messages of one kind."""
    return [
        "".join(block.text for block in message.content if isinstance(block, TextBlock))
        for message in messages
        if _kind(message) == kind
    ]
