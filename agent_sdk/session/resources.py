"""Resources of a session, with the permission rules that agents bring.

Resources and permissions do not know each other; they meet here.
"""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sdk.core.aio import TaskOwner
from agent_sdk.loop.types import Rule
from agent_sdk.permissions.ruleset import ruleset_from_config
from agent_sdk.resources.agents import CustomAgents, RuleParser, scan_agents
from agent_sdk.resources.loader import ResourceChanges, ResourceLoader
from agent_sdk.resources.places import find_places
from agent_sdk.resources.problems import ResourceProblem

if TYPE_CHECKING:
    from agent_sdk.resources.watch import ResourceWatcher


def resource_loader(
    *,
    cwd: str | Path,
    agent_dir: Path,
    home: str = "",
    setting_sources: Sequence[str] | None = None,
    extra_skill_folders: Sequence[str | Path] = (),
) -> ResourceLoader:
    """Return the loader of a session's resources; it has not read anything yet.

    Args:
        cwd: The session's folder.
        agent_dir: The user's ZPI folder.
        home: The user's home folder; empty if unknown.
        setting_sources: ``user`` and ``project``, or some of them; None for
            all, empty for none.
        extra_skill_folders: Further folders of the user's skills, absolute.

    Raises:
        InvalidInput: If a source is unknown, or an extra folder is no absolute path.
    """
    places = find_places(
        cwd=cwd,
        agent_dir=agent_dir,
        home=home,
        setting_sources=setting_sources,
        extra_skill_folders=extra_skill_folders,
    )
    return ResourceLoader(places=places, rules=rule_parser(cwd=str(places.cwd), home=home))


def load_custom_agents(
    workspace: str | Path,
    *,
    agent_dir: Path | None = None,
    home: str = "",
) -> CustomAgents:
    """Read the agents of a workspace, ``.zpi/agents/*.md``. Reads the disk.

    Lay them over those that ship with ZPI by ``AgentRegistry().derive``.

    Args:
        workspace: Its folder.
        agent_dir: The user's ZPI folder, whose agents come first; None leaves
            them out.
        home: The folder that ``~/`` stands for in rules; empty if unknown.
    """
    places = find_places(
        cwd=workspace,
        agent_dir=agent_dir or Path(workspace),
        setting_sources=("user", "project") if agent_dir else ("project",),
    )
    found = scan_agents(places.agents, rules=rule_parser(cwd=str(places.cwd), home=home))
    return CustomAgents(agents=found.items, errors=found.problems)


def rule_parser(*, cwd: str, home: str) -> RuleParser:
    """Return what makes rules of a ``permission`` field.

    Args:
        cwd: The folder that relative file patterns are relative to.
        home: The folder that ``~/`` stands for; empty if unknown.
    """

    def parse(config: object, source: str) -> tuple[Rule, ...]:
        return ruleset_from_config(config, source=source, base=cwd, home=home)

    return parse


def resource_watcher(
    loader: ResourceLoader,
    *,
    owner: TaskOwner,
    changed: Callable[[ResourceChanges], None],
    failed: Callable[[ResourceProblem], None],
) -> "ResourceWatcher":
    """Return what refreshes a loader when its files change; start it.

    Loads the library that watches, so only programs that stay ask for it.

    Args:
        loader: What is refreshed.
        owner: Runs the watching, and ends it.
        changed: Called after a refresh that found changes, on the event loop;
            ``CreatedSession.reassemble`` uses them from the next run on.
        failed: Called once if watching is not possible.
    """
    watch = importlib.import_module("agent_sdk.resources.watch")
    watcher: ResourceWatcher = watch.ResourceWatcher(
        loader=loader, owner=owner, changed=changed, failed=failed
    )
    return watcher
