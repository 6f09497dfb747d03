"""A native session out of its parts: the one place where these are put together.

The command line and the desktop's host both come here with a history, a
model and their rules, and get a session that runs.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from agent_sdk.core.environment import child_environment
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import Rule, Tool
from agent_sdk.permissions.engine import Asker, PermissionEngine
from agent_sdk.permissions.modes import PermissionMode
from agent_sdk.permissions.ruleset import PermissionLayers
from agent_sdk.permissions.wildcard import has_wildcard
from agent_sdk.providers.base import Provider
from agent_sdk.providers.models import Model, clamp_thinking
from agent_sdk.session.agent_session import AgentSession
from agent_sdk.session.bounds import ResultBounds
from agent_sdk.session.hub import EventHub
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.prompt import system_sections
from agent_sdk.session.records import PermissionRuleRecord, StoredRule
from agent_sdk.session.settings import Settings
from agent_sdk.tools.bash import BashTool
from agent_sdk.tools.edit import EditTool
from agent_sdk.tools.file_state import FileReadState
from agent_sdk.tools.path_text import portable
from agent_sdk.tools.paths import PathGuard
from agent_sdk.tools.protected import load_protected
from agent_sdk.tools.read import ReadTool
from agent_sdk.tools.write import WriteTool


def user_home(environ: Mapping[str, str]) -> str:
    """Return the user's home folder; empty if it is not known."""
    return environ.get("USERPROFILE" if os.name == "nt" else "HOME", "")


def outputs_folder(manager: SessionManager) -> Path | None:
    """Return where a session's long outputs are saved; None for one in memory."""
    return manager.path.with_suffix("") / "outputs" if manager.path else None


def native_tools(
    *,
    processes: ProcessOwner,
    environ: Mapping[str, str],
    tool_env: Mapping[str, str],
    protected: Sequence[str | Path],
    outputs: Path | None,
) -> list[Tool]:
    """Return the native tools, in the order in which they are declared.

    Args:
        processes: Starts commands; closed by whoever made it.
        environ: The program's environment, without secrets.
        tool_env: Variables that commands get in addition.
        protected: Folders of ZPI's own data.
        outputs: Where long outputs are saved; None saves nothing.
    """
    folders = [os.path.realpath(folder) for folder in protected]
    guard = PathGuard(protected=load_protected(folders), home=user_home(environ))
    state = FileReadState()
    environment = child_environment(environ, tool_env=tool_env)
    return [
        ReadTool(guard=guard, state=state),
        WriteTool(guard=guard, state=state),
        EditTool(guard=guard, state=state),
        BashTool(processes=processes, environment=environment, artifacts=outputs),
    ]


def session_layers(
    *, settings: Settings, rules: Sequence[Rule], granted: Sequence[Rule], outputs: Path | None
) -> PermissionLayers:
    """Return the rules in force, by who made them.

    Args:
        settings: The user's and the project's.
        rules: Given for this session.
        granted: What answers of *always* have stored with it.
        outputs: Folder of the session's long outputs, which the model may read.
    """
    own: tuple[Rule, ...] = ()
    if outputs is not None:
        pattern = portable(os.path.realpath(outputs))
        if not has_wildcard(pattern):  # a rule has no way to quote one
            own = (Rule("external_directory", f"{pattern}/*", "allow"),)
    return PermissionLayers(
        agent=own,
        user=settings.user_rules,
        project=settings.project_rules,
        session=tuple(rules),
        granted=tuple(granted),
    )


def native_session(
    *,
    manager: SessionManager,
    provider: Provider,
    model: Model,
    processes: ProcessOwner,
    environ: Mapping[str, str],
    settings: Settings,
    rules: Sequence[Rule],
    mode: PermissionMode,
    asker: Asker | None,
    protected: Sequence[str | Path],
    ids: Ids,
    clock: Clock,
    thinking_level: str = "",
    max_turns: int | None = None,
) -> AgentSession:
    """Return a session that is ready to run; it closes manager and provider.

    Args:
        manager: The history, open for writing.
        provider: The connection to the model.
        model: The model.
        processes: Starts commands; closed by the caller, after the session.
        environ: The program's environment, without secrets.
        settings: Settings in force for the session's folder.
        rules: Permission rules given for this session.
        mode: Permission mode to start with.
        asker: Who answers questions; None for nobody.
        protected: Folders of ZPI's own data.
        ids: Source of ids.
        clock: Source of time.
        thinking_level: Reasoning level wanted; clamped to what the model knows.
        max_turns: Most requests of one run; None for no limit.
    """
    outputs, hub = outputs_folder(manager), EventHub()
    granted = manager.state.permission_rules
    layers = session_layers(settings=settings, rules=rules, granted=granted, outputs=outputs)
    tools = native_tools(
        processes=processes,
        environ=environ,
        tool_env=settings.tool_env,
        protected=protected,
        outputs=outputs,
    )
    return AgentSession(
        manager=manager,
        provider=provider,
        model=model,
        tools=tools,
        permissions=_engine(manager, layers, mode=mode, asker=asker, hub=hub, ids=ids),
        hub=hub,
        system=system_sections(cwd=manager.cwd, tools=tools),
        bound=ResultBounds(model=model, folder=outputs),
        ids=ids,
        clock=clock,
        thinking_level=clamp_thinking(thinking_level, model),
        max_turns=max_turns,
    )


async def change_model(
    session: AgentSession, *, provider: Provider, model: Model, thinking_level: str = ""
) -> None:
    """Let a session use another model, or reasoning level, from its next run on.

    Args:
        session: The session, idle.
        provider: The connection to the model; the session closes it, and its old one.
        model: The model.
        thinking_level: Reasoning level wanted; clamped to what the model knows.

    Raises:
        InvalidInput: If a run is going on.
    """
    await session.use_model(
        model,
        provider,
        bound=ResultBounds(model=model, folder=outputs_folder(session.manager)),
        thinking_level=clamp_thinking(thinking_level, model),
    )


def _remember(manager: SessionManager) -> Callable[[Sequence[Rule]], Awaitable[None]]:
    async def remember(rules: Sequence[Rule]) -> None:
        stored = tuple(StoredRule(r.permission, r.pattern, r.action) for r in rules)
        await manager.append(PermissionRuleRecord(rules=stored))

    return remember


def _engine(
    manager: SessionManager,
    layers: PermissionLayers,
    *,
    mode: PermissionMode,
    asker: Asker | None,
    hub: EventHub,
    ids: Ids,
) -> PermissionEngine:
    return PermissionEngine(
        layers=layers,
        mode=mode,
        roots=(manager.cwd,),
        asker=asker,
        remember=_remember(manager),
        emit=hub.emit,
        ids=ids,
    )
