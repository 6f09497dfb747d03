"""Builds real sessions on a scripted model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.loop.types import Rule, Tool
from agent_sdk.permissions.engine import Asker, PermissionEngine
from agent_sdk.permissions.ruleset import PermissionLayers
from agent_sdk.providers.base import PromptSection, Provider
from agent_sdk.providers.models import Model
from agent_sdk.session.agent_session import AgentSession
from agent_sdk.session.bounds import ResultBounds
from agent_sdk.session.hub import EventHub
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import PermissionRuleRecord, StoredRule
from agent_sdk.tools.edit import EditTool
from agent_sdk.tools.file_state import FileReadState
from agent_sdk.tools.paths import PathGuard
from agent_sdk.tools.protected import load_protected
from agent_sdk.tools.read import ReadTool
from agent_sdk.tools.write import WriteTool

MODEL = Model(id="m", provider="p", api="anthropic-messages")
SYSTEM = (PromptSection("instructions", "Be good."),)


def file_tools(home: Path) -> list[Tool]:
    guard = PathGuard(protected=load_protected([str(home / "agent")]), home=str(home))
    state = FileReadState()
    return [
        ReadTool(guard=guard, state=state),
        WriteTool(guard=guard, state=state),
        EditTool(guard=guard, state=state),
    ]


def build_session(
    manager: SessionManager,
    provider: Provider,
    *,
    tools: Sequence[Tool],
    asker: Asker | None = None,
    allow: Sequence[str] = (),
    folder: Path | None = None,
    **more: Any,
) -> AgentSession:
    hub = more.pop("hub", None) or EventHub()

    async def remember(rules: Sequence[Rule]) -> None:
        stored = tuple(StoredRule(r.permission, r.pattern, r.action) for r in rules)
        await manager.append(PermissionRuleRecord(rules=stored))

    permissions = PermissionEngine(
        layers=PermissionLayers(
            session=tuple(Rule(key, "*", "allow") for key in allow),
            granted=tuple(manager.state.permission_rules),
        ),
        mode="default",
        roots=(manager.cwd,),
        asker=asker,
        remember=remember,
        emit=hub.emit,
        ids=RandomIds(),
    )
    return AgentSession(
        manager=manager,
        provider=provider,
        model=more.pop("model", MODEL),
        tools=tools,
        permissions=permissions,
        hub=hub,
        system=SYSTEM,
        bound=ResultBounds(model=MODEL, folder=folder),
        ids=RandomIds(),
        clock=SystemClock(),
        **more,
    )


def in_memory(cwd: Path) -> SessionManager:
    return SessionManager.in_memory(cwd=cwd, ids=RandomIds(), clock=SystemClock())


async def on_disk(cwd: Path, sessions: Path) -> SessionManager:
    return await SessionManager.create(
        cwd=cwd, sessions_dir=sessions, ids=RandomIds(), clock=SystemClock()
    )


async def reopened(session_id: str, sessions: Path) -> SessionManager:
    return await SessionManager.resume(
        session_id=session_id, sessions_dir=sessions, ids=RandomIds(), clock=SystemClock()
    )
