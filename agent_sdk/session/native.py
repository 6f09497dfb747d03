"""The gate of a native session, and changing its model."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from agent_sdk.core.ids import Ids
from agent_sdk.loop.types import Rule
from agent_sdk.permissions.engine import Asker, PermissionEngine
from agent_sdk.permissions.modes import PermissionMode
from agent_sdk.permissions.ruleset import PermissionLayers
from agent_sdk.permissions.wildcard import has_wildcard
from agent_sdk.providers.base import Provider
from agent_sdk.providers.models import Model, clamp_thinking
from agent_sdk.session.agent_session import AgentSession
from agent_sdk.session.bounds import ResultBounds
from agent_sdk.session.builtins import outputs_folder
from agent_sdk.session.hub import EventHub
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import PermissionRuleRecord, StoredRule
from agent_sdk.session.settings import Settings
from agent_sdk.tools.path_text import portable


def user_home(environ: Mapping[str, str]) -> str:
    """Return the user's home folder; empty if it is not known."""
    return environ.get("USERPROFILE" if os.name == "nt" else "HOME", "")


def session_layers(
    *,
    settings: Settings,
    rules: Sequence[Rule],
    granted: Sequence[Rule],
    readable: Sequence[str | Path] = (),
) -> PermissionLayers:
    """Return the rules in force, by who made them.

    Args:
        settings: The user's and the project's.
        rules: Given for this session.
        granted: What answers of *always* have stored with it.
        readable: Folders outside of the session's own that it may look into:
            those of its long outputs and of the user's skills.
    """
    patterns = [portable(os.path.realpath(folder)) for folder in readable]
    own = tuple(
        Rule("external_directory", f"{pattern}/*", "allow")
        for pattern in dict.fromkeys(patterns)
        if not has_wildcard(pattern)  # a rule has no way to quote one
    )
    return PermissionLayers(
        agent=own,
        user=settings.user_rules,
        project=settings.project_rules,
        session=tuple(rules),
        granted=tuple(granted),
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


def permission_engine(
    manager: SessionManager,
    layers: PermissionLayers,
    *,
    mode: PermissionMode,
    asker: Asker | None,
    hub: EventHub,
    ids: Ids,
) -> PermissionEngine:
    """Return the gate before a session's calls.

    Args:
        manager: The session; answers of *always* are stored with it.
        layers: The rules in force.
        mode: Permission mode to start with.
        asker: Who is asked; None for nobody.
        hub: Where questions and answers are published.
        ids: Source of ids.
    """
    return PermissionEngine(
        layers=layers,
        mode=mode,
        roots=(manager.cwd,),
        asker=asker,
        remember=_remember(manager),
        emit=hub.emit,
        ids=ids,
    )
