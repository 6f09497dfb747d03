"""What takes part in a session's runs for its plugins, made from what they contribute."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.loop.types import CompactionEnded
from agent_sdk.plugins.hook_runner import HookEvent, HookRunner
from agent_sdk.plugins.merge import Contributions
from agent_sdk.plugins.session_hooks import SessionHooks, has_prompts
from agent_sdk.session.compacting import CompactionHook, PreCompact, PreCompactAnswer
from agent_sdk.session.dynamic_context import DynamicContext
from agent_sdk.session.hub import EventHub
from agent_sdk.session.manager import SessionManager


class PluginParts(Struct, frozen=True):
    """Handlers and changing context of a session's plugins.

    Attributes:
        hooks: Calls the handlers; None if there are none.
        blocks: Keeps the model up to date; also takes back what plugins that
            the session no longer has once told.
    """

    hooks: SessionHooks | None
    blocks: DynamicContext


def plugin_parts(
    contributions: Contributions,
    *,
    manager: SessionManager,
    hub: EventHub,
    ids: Ids,
    clock: Clock,
    report: Callable[[HookEvent], None] | None = None,
) -> PluginParts:
    """Return what takes part in a session's runs for its plugins. Calls nothing of theirs.

    Args:
        contributions: What the plugins contribute together.
        manager: The session's history.
        hub: Where notices go out.
        ids: Source of invocation ids.
        clock: Measures durations.
        report: Told of each invocation of a handler, before and after it.
    """
    state = manager.state
    hooks = None
    if contributions.hooks:
        hooks = SessionHooks(
            hooks=contributions.hooks,
            runner=HookRunner(ids=ids, clock=clock, report=report),
            session_id=manager.session_id,
            cwd=manager.cwd,
            transcript_path=str(manager.path or ""),
            has_prompts=lambda: bool(state.first_prompt) or has_prompts(state.messages),
            emit=hub.emit,
        )
    blocks = DynamicContext(
        plugins=contributions.context,
        messages=lambda: state.messages,
        uuids=lambda: state.message_uuids,
        emit=hub.emit,
    )
    return PluginParts(hooks, blocks)


class _ToldOfCompactions:
    """Tells handlers of ``PreCompact``, who only observe."""

    def __init__(self, hooks: SessionHooks) -> None:
        self._hooks = hooks

    async def before(self, event: PreCompact) -> PreCompactAnswer:
        """Tell that older messages are about to be replaced."""
        trigger: Literal["manual", "auto"] = "manual" if event.reason == "manual" else "auto"
        await self._hooks.pre_compact(
            trigger, AbortSignal(), custom_instructions=event.instructions
        )
        return PreCompactAnswer()

    async def after(self, event: CompactionEnded) -> None:
        """Nothing: no event of plugins is about it."""


def compaction_hook(hooks: SessionHooks | None) -> CompactionHook | None:
    """Return what tells handlers of compactions; None without handlers."""
    return None if hooks is None else _ToldOfCompactions(hooks)
