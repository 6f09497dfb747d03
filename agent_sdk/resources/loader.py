"""The one loader of a session's resources: scanned once, again when asked.

A scan reads the disk: some dozen small files as a rule, 5 ms, but it may be a
slow disk or a folder of thousands. ``load`` does it where it is called, for
programs that are starting; ``refresh`` does it in a thread.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from agent_sdk.resources.agents import AgentDefinition, AgentRegistry, RuleParser, scan_agents
from agent_sdk.resources.commands import PromptCommand, scan_commands
from agent_sdk.resources.found import Named
from agent_sdk.resources.instructions import NAMES, Instruction, scan_instructions
from agent_sdk.resources.places import Places
from agent_sdk.resources.problems import Overridden, ResourceProblem
from agent_sdk.resources.skills import Skill, scan_skills

T = TypeVar("T", bound=Named)

Watched = Mapping[Path, frozenset[str] | None]
"""Folders whose entries matter: those of these names, or every one for None."""


class Resources(Struct, frozen=True, kw_only=True):
    """What one scan found.

    Attributes:
        instructions: The ``AGENTS.md`` files, the nearest one last.
        skills: The skills, by name.
        commands: The prompt commands, by name.
        agents: The user's and the project's agents, by name.
        overridden: What lost its name to something else.
        problems: What is wrong.
        folders: Folders that were listed for the above.
    """

    instructions: tuple[Instruction, ...] = ()
    skills: tuple[Skill, ...] = ()
    commands: tuple[PromptCommand, ...] = ()
    agents: tuple[AgentDefinition, ...] = ()
    overridden: tuple[Overridden, ...] = ()
    problems: tuple[ResourceProblem, ...] = ()
    folders: tuple[Path, ...] = ()

    @property
    def registry(self) -> AgentRegistry:
        """The workspace's agents: these over those that ship with ZPI."""
        return AgentRegistry().derive(self.agents)

    def skill(self, name: str) -> Skill | None:
        """Return the skill of that name, if there is one."""
        return next((skill for skill in self.skills if skill.name == name), None)

    def command(self, name: str) -> PromptCommand | None:
        """Return the prompt command of that name, if there is one."""
        return next((command for command in self.commands if command.name == name), None)


class ResourceChanges(Struct, frozen=True, kw_only=True):
    """What differs between two scans; false if nothing does.

    Attributes:
        instructions: Whether the files of instructions differ.
        skills: Names that are new, gone or different, sorted.
        commands: The same of prompt commands.
        agents: The same of agents.
        problems: Whether other things are wrong now.
    """

    instructions: bool = False
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    problems: bool = False

    def __bool__(self) -> bool:
        return self != ResourceChanges()


class ResourceLoader:
    """Holds what was found, and looks again."""

    def __init__(self, *, places: Places, rules: RuleParser) -> None:
        """Create a loader; nothing is read yet.

        Args:
            places: Where to look.
            rules: Makes rules of an agent's ``permission`` field.
        """
        self._places = places
        self._rules = rules
        self._current: Resources | None = None
        self._refreshing = asyncio.Lock()

    @property
    def places(self) -> Places:
        """Where it looks."""
        return self._places

    @property
    def watched(self) -> Watched:
        """Folders in which a change may be one of resources."""
        return watched_folders(self._places, self._current or Resources())

    def load(self) -> Resources:
        """Return what there is, scanning if it has not been done yet. Reads the disk."""
        if self._current is None:
            self._current = scan(self._places, rules=self._rules)
        return self._current

    async def refresh(self) -> ResourceChanges:
        """Scan again, in a thread, and return what changed since the last scan."""
        async with self._refreshing:
            found = await asyncio.to_thread(scan, self._places, rules=self._rules)
            before, self._current = self._current or Resources(), found
        return changes(before, found)


def scan(places: Places, *, rules: RuleParser) -> Resources:
    """Read everything that the places hold. Never raises for what is there."""
    instructions = scan_instructions(places.instructions)
    skills = scan_skills(places.skills)
    commands = scan_commands(places.commands)
    agents = scan_agents(places.agents, rules=rules)
    return Resources(
        instructions=instructions.items,
        skills=skills.items,
        commands=commands.items,
        agents=agents.items,
        overridden=(*skills.overridden, *commands.overridden, *agents.overridden),
        problems=(
            *places.problems,
            *instructions.problems,
            *skills.problems,
            *commands.problems,
            *agents.problems,
        ),
        folders=(*skills.folders, *commands.folders, *agents.folders),
    )


def changes(before: Resources, after: Resources) -> ResourceChanges:
    """Return what differs between two scans. Pure.

    A skill whose text changed below its header does not count: it is read
    when it is used.
    """
    return ResourceChanges(
        instructions=before.instructions != after.instructions,
        skills=_changed(before.skills, after.skills),
        commands=_changed(before.commands, after.commands),
        agents=_changed(before.agents, after.agents),
        problems=before.problems != after.problems,
    )


def _changed(before: Iterable[T], after: Iterable[T]) -> tuple[str, ...]:
    old, new = ({item.name: item for item in items} for items in (before, after))
    return tuple(sorted(name for name in old.keys() | new if old.get(name) != new.get(name)))


def watched_folders(places: Places, found: Resources) -> Watched:
    """Return the folders in which a change may be one of resources. Pure.

    A folder that does not exist cannot be watched, so those above it that
    belong to the user or the project are there too, for its name alone.
    """
    watched: dict[Path, frozenset[str] | None] = {}
    for folder in places.instructions:
        _watch(watched, folder.path, *NAMES)
    for folder in (*places.skills, *places.commands, *places.agents):
        _watch(watched, folder.path.parent, folder.path.name)
        _watch(watched, folder.path.parent.parent, folder.path.parent.name)
    watched.update(dict.fromkeys(found.folders))
    return watched


def _watch(watched: dict[Path, frozenset[str] | None], folder: Path, *names: str) -> None:
    known = watched.get(folder, frozenset())
    watched[folder] = known | frozenset(names) if known is not None else None
