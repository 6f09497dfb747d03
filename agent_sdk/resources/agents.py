"""Agents: presets of a prompt, tools, rules and a model, to run or to delegate to.

Some ship with ZPI (``presets.json``); users and projects add their own as
Markdown files, ``<agent dir>/agents/*.md`` and ``<folder>/.zpi/agents/*.md``.
A later one takes the name of an earlier one. A file that cannot be used
leaves what was there before, and never stops anything. A project's agent may
deny and ask; what it allows has no effect.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, TypeGuard

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import ConfigurationError, InvalidInput
from agent_sdk.core.frontmatter import Frontmatter, Value, parse_frontmatter
from agent_sdk.loop.types import Rule
from agent_sdk.resources.fields import (
    MOST_NAME,
    bad_field,
    bent,
    described,
    flag_field,
    names_field,
    number_field,
    text_field,
)
from agent_sdk.resources.found import Found, last_wins, problem, remarks
from agent_sdk.resources.markdown import markdown_files
from agent_sdk.resources.places import Folder
from agent_sdk.resources.problems import Remark, ResourceProblem, Source, Unusable, shown

AgentMode: TypeAlias = Literal["primary", "subagent", "all"]
"""Whether it is run by the user, delegated to, or both."""

RuleParser: TypeAlias = Callable[[object, str], tuple[Rule, ...]]
"""Makes rules of a ``permission`` field, and what to call it in errors; raises
``ConfigurationError``. Resources know no permissions, so it is handed in."""

STEPS = 12
MOST_STEPS = 1000
MOST_BYTES = 128 * 1024

NO_EFFECT = frozenset(
    {"permissionMode", "hooks", "mcpServers", "isolation", "memory", "background"}
)
"""Header fields that have a meaning elsewhere and none here."""

_PRESETS = Path(__file__).with_name("presets.json")
_STRICT = frozenset({"permission", "tools", "disallowedTools", "mode", "name"})


class AgentDefinition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent.

    Attributes:
        name: What it is called.
        description: When to use it, in one line.
        prompt: Its instructions; empty for none of its own.
        mode: Who may use it.
        steps: Most requests to the model in one run.
        model: Its model; empty for that of whoever runs it.
        tools: The only tools it has; None for all.
        disallowed_tools: Tools that it has not.
        rules: Its permission rules.
        source: Whose it is.
        path: Its file; empty if it ships with ZPI.
    """

    name: str
    description: str
    prompt: str = ""
    mode: AgentMode = "subagent"
    steps: int = STEPS
    model: str = ""
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    source: Source = "builtin"
    path: str = ""


@cache
def builtin_agents() -> tuple[AgentDefinition, ...]:
    """Return the agents that ship with ZPI, by name."""
    found = msgspec.json.decode(_PRESETS.read_bytes(), type=tuple[AgentDefinition, ...])
    return tuple(sorted(found, key=lambda agent: agent.name))


class AgentRegistry:
    """The agents of one workspace; never changes, a change is a new registry."""

    def __init__(self, agents: Iterable[AgentDefinition] | None = None) -> None:
        """Create a registry.

        Args:
            agents: Its agents, a later one taking the name of an earlier one;
                None for those that ship with ZPI.
        """
        found = builtin_agents() if agents is None else agents
        self._agents: Mapping[str, AgentDefinition] = {agent.name: agent for agent in found}

    @property
    def agents(self) -> tuple[AgentDefinition, ...]:
        """Every agent, by name."""
        return tuple(self._agents[name] for name in sorted(self._agents))

    @property
    def primary(self) -> tuple[AgentDefinition, ...]:
        """The agents that a user may run."""
        return tuple(agent for agent in self.agents if agent.mode != "subagent")

    @property
    def subagents(self) -> tuple[AgentDefinition, ...]:
        """The agents that may be delegated to."""
        return tuple(agent for agent in self.agents if agent.mode != "primary")

    def find(self, name: str) -> AgentDefinition | None:
        """Return the agent of that name, if there is one."""
        return self._agents.get(name)

    def get(self, name: str) -> AgentDefinition:
        """Return the agent of that name.

        Raises:
            InvalidInput: If there is none; the hint lists those there are.
        """
        if (agent := self._agents.get(name)) is None:
            raise InvalidInput(
                f"There is no agent {name!r}.",
                hint=f"There are: {', '.join(sorted(self._agents))}.",
            )
        return agent

    def derive(self, agents: Iterable[AgentDefinition]) -> "AgentRegistry":
        """Return a registry with these agents laid over this one's."""
        return AgentRegistry((*self._agents.values(), *agents))


class CustomAgents(Struct, frozen=True, kw_only=True):
    """The agents of a workspace's files.

    Attributes:
        agents: Those that can be used, by name.
        errors: What is wrong with the files; may be warnings, too.
    """

    agents: tuple[AgentDefinition, ...]
    errors: tuple[ResourceProblem, ...]


def parse_agent(
    text: str, *, name: str, rules: RuleParser, path: str = "", source: Source = "user"
) -> tuple[AgentDefinition, tuple[Remark, ...]]:
    """Return the agent of a file, and what was odd about the file. Pure.

    Args:
        text: The file.
        name: Its name without ``.md``, for an agent that does not name itself.
        rules: Makes rules of its ``permission`` field.
        path: Where it came from.
        source: Whose it is.

    Raises:
        Unusable: If it cannot be used; says why.
    """
    header = parse_frontmatter(text)
    if not header.present:
        bent(header)
        raise Unusable(
            "It has no header, so it is no agent.",
            hint="Begin it with ---, name: …, description: …, ---, or move it elsewhere.",
        )
    odd = list(bent(header, strict=_STRICT))
    fields = header.fields
    description, cut = described(header)
    if not description:
        raise bad_field("description", "is missing: nobody could know when to use the agent")
    if not flag_field(fields, "enabled", default=True) or flag_field(
        fields, "disable", default=False
    ):
        raise Unusable("It is switched off.", hint="Take 'enabled: false' out to use it.")
    tools, disallowed = _tools(fields)
    kept, loosening = _rules(header, rules, path=path, source=source)
    odd.extend((*cut, *loosening, *_without_effect(fields)))
    agent = AgentDefinition(
        name=_name(text_field(fields, "name") or name),
        description=description,
        prompt=header.body.strip(),
        mode=_mode(fields),
        steps=_steps(fields),
        model=_model(fields),
        tools=tools,
        disallowed_tools=disallowed,
        rules=kept,
        source=source,
        path=path,
    )
    return agent, tuple(odd)


def _name(name: str) -> str:
    if len(name) > MOST_NAME or not name.isprintable() or set(name) & set("/\\:<>\"'"):
        raise bad_field("name", f"is no usable name: {name[:80]!r}")
    return name


def _mode(fields: Mapping[str, Value]) -> AgentMode:
    text = text_field(fields, "mode") or "subagent"
    if not _is_mode(text):
        raise bad_field("mode", f"must be primary, subagent or all, not {text[:80]!r}")
    return text


def _is_mode(text: str) -> TypeGuard[AgentMode]:
    return text in {"primary", "subagent", "all"}


def _steps(fields: Mapping[str, Value]) -> int:
    steps = number_field(fields, "steps", most=MOST_STEPS)
    return steps or number_field(fields, "maxTurns", most=MOST_STEPS) or STEPS


def _model(fields: Mapping[str, Value]) -> str:
    model = text_field(fields, "model")
    return "" if model == "inherit" else model


def _tools(fields: Mapping[str, Value]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the tools it has and those it has not; ``tools`` may be a table of yes and no."""
    refused = names_field(fields, "disallowedTools") or ()
    table = fields.get("tools")
    if not isinstance(table, dict):
        return names_field(fields, "tools"), refused
    off = [name for name in table if not flag_field(table, name, default=True)]
    return None, (*refused, *off)


def _rules(
    header: Frontmatter, parse: RuleParser, *, path: str, source: Source
) -> tuple[tuple[Rule, ...], tuple[Remark, ...]]:
    config = header.fields.get("permission")
    if config is None:
        return (), ()
    try:
        rules = parse(config, shown(path))
    except ConfigurationError as error:
        raise Unusable(error.message, hint="Correct the file's header.") from None
    if source != "project":
        return rules, ()
    kept = tuple(rule for rule in rules if rule.action != "allow")
    if len(kept) == len(rules):
        return kept, ()
    listed = ", ".join(
        f"{rule.permission} {rule.pattern!r}" for rule in rules if rule.action == "allow"
    )
    remark = Remark(
        f"A project cannot allow anything; without effect: {listed}.",
        "Put such rules into your own settings.",
    )
    return kept, (remark,)


def _without_effect(fields: Mapping[str, Value]) -> list[Remark]:
    return [
        Remark(f"{key!r} has no effect here.", "Take it out, or use 'permission'.")
        for key in sorted(NO_EFFECT & fields.keys())
    ]


def scan_agents(folders: Sequence[Folder], *, rules: RuleParser) -> Found[AgentDefinition]:
    """Read the agents in the folders, one level deep.

    What is found does not include the agents that ship with ZPI, but says
    which of them lost their name.

    Args:
        folders: Where to look; a later one wins a name.
        rules: Makes rules of a ``permission`` field.
    """
    agents: list[AgentDefinition] = []
    problems: list[ResourceProblem] = []
    for folder in folders:
        for path, text in markdown_files(folder, "agent", most=MOST_BYTES, problems=problems):
            try:
                agent, odd = parse_agent(
                    text, name=path.stem, rules=rules, path=str(path), source=folder.source
                )
            except Unusable as error:
                problems.append(problem("agent", folder, path, about=error))
            else:
                agents.append(agent)
                problems.extend(remarks("agent", folder, path, about=odd))
    winners, overridden = last_wins("agent", (*builtin_agents(), *agents))
    return Found(
        items=tuple(agent for agent in winners if agent.source != "builtin"),
        overridden=overridden,
        problems=tuple(problems),
        folders=tuple(folder.path for folder in folders),
    )
