"""Plugins put together: the one place where their conflicts are found. Pure.

Nothing is called and nothing changes: a preview of a session merges the same
plugins in the same way.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import PluginConflict
from agent_sdk.loop.types import Tool
from agent_sdk.plugins import matching
from agent_sdk.plugins.types import (
    EVENT_NAMES,
    GATES,
    MAX_TIMEOUT,
    TOOL_EVENTS,
    BoundHook,
    Hook,
    PluginCommand,
    SessionPlugin,
)
from agent_sdk.tools.registry import normalise_tool_name

BUILT_IN = "zpi"
"""The owner of what is no plugin's, in conflicts."""
RESERVED_COMMANDS = frozenset({"compact"})
"""Commands that sessions understand themselves."""

ProblemKind: TypeAlias = Literal[
    "bad_id",
    "bad_version",
    "duplicate_id",
    "bad_command",
    "duplicate_command",
    "reserved_command",
    "bad_tool",
    "duplicate_tool",
    "unknown_override",
    "duplicate_override",
    "bad_hook",
]

_ID = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_COMMAND = re.compile(r"[^\W_][\w.-]*(?::[^\W_][\w.-]*)?")
_MOST = 128


class PluginProblem(Struct, frozen=True, kw_only=True):
    """Why plugins cannot be used as they are.

    Attributes:
        kind: Which sort of problem.
        name: What it is about: an id, a command, a tool, an event.
        owners: Whose it is; of a conflict both, in their order.
        text: One sentence.
        hint: What to do; may be empty.
    """

    kind: ProblemKind
    name: str
    owners: tuple[str, ...]
    text: str
    hint: str = ""


class Instruction(Struct, frozen=True):
    """A static text for the system prompt, and the plugin it comes from."""

    plugin_id: str
    text: str


class Contributions(Struct, frozen=True, kw_only=True):
    """What plugins contribute together, in the order of the plugins.

    Attributes:
        instructions: For the system prompt.
        commands: Prompt commands by name.
        tools: Tools to add.
        overrides: Tools that take a built-in one's place, by its name.
        hooks: Handlers, in the order in which they are called.
        context: Plugins whose context instructions are asked for, by id.
        owners: Id of the plugin of each command (``/name``) and tool.
    """

    instructions: tuple[Instruction, ...] = ()
    commands: Mapping[str, PluginCommand] = {}
    tools: tuple[Tool, ...] = ()
    overrides: Mapping[str, Tool] = {}
    hooks: tuple[BoundHook, ...] = ()
    context: tuple[SessionPlugin, ...] = ()
    owners: Mapping[str, str] = {}


def merge_contributions(
    plugins: Sequence[SessionPlugin],
    *,
    builtins: Collection[str] = (),
    taken: Mapping[str, str] | None = None,
    reserved_commands: Collection[str] = RESERVED_COMMANDS,
) -> Contributions:
    """Return what the plugins contribute together.

    Args:
        plugins: In the order in which they count.
        builtins: Native names of the built-in tools, which alone may be overridden.
        taken: Names of other tools that there are, with who owns them.
        reserved_commands: Names that no plugin's command may have.

    Raises:
        PluginConflict: If one of them is not usable or two are in each other's way.
    """
    problems = find_problems(
        plugins, builtins=builtins, taken=taken, reserved_commands=reserved_commands
    )
    if problems:
        first, *more = problems
        others = f" ({len(more)} more: {' '.join(p.text for p in more[:4])})" if more else ""
        raise PluginConflict(f"{first.text}{others}", hint=first.hint)
    owners: dict[str, str] = {}
    for plugin in plugins:
        owners.update((f"/{command.name}", plugin.id) for command in plugin.commands)
        owners.update((tool.name, plugin.id) for tool in (*plugin.tools, *plugin.tool_overrides))
    return Contributions(
        instructions=tuple(
            Instruction(p.id, text) for p in plugins for text in p.instructions if text.strip()
        ),
        commands={command.name: command for p in plugins for command in p.commands},
        tools=tuple(tool for p in plugins for tool in p.tools),
        overrides={tool.name: tool for p in plugins for tool in p.tool_overrides},
        hooks=bound_hooks(plugins),
        context=tuple(p for p in plugins if p.context_instructions is not None),
        owners=owners,
    )


def bound_hooks(plugins: Sequence[SessionPlugin]) -> tuple[BoundHook, ...]:
    """Return the handlers of plugins, in order."""
    return tuple(
        BoundHook(plugin_id=plugin.id, hook=hook, index=index)
        for plugin in plugins
        for index, hook in enumerate(plugin.hooks)
    )


def find_problems(
    plugins: Sequence[SessionPlugin],
    *,
    builtins: Collection[str] = (),
    taken: Mapping[str, str] | None = None,
    reserved_commands: Collection[str] = RESERVED_COMMANDS,
) -> tuple[PluginProblem, ...]:
    """Return all that keeps the plugins from being used; arguments as in ``merge``."""
    return (
        *_identities(plugins),
        *_commands(plugins, reserved_commands),
        *_tools(plugins, builtins, taken or {}),
        *_overrides(plugins, builtins),
        *(problem for plugin in plugins for problem in _hooks(plugin)),
    )


def _identities(plugins: Sequence[SessionPlugin]) -> Iterator[PluginProblem]:
    for plugin_id, count in Counter(plugin.id for plugin in plugins).items():
        if count > 1:
            yield PluginProblem(
                kind="duplicate_id",
                name=plugin_id,
                owners=(plugin_id,) * count,
                text=f"There are {count} plugins with the id {plugin_id!r}.",
                hint="Keep one of them.",
            )
    for plugin in plugins:
        if not _ID.fullmatch(plugin.id) or len(plugin.id) > _MOST:
            yield PluginProblem(
                kind="bad_id",
                name=plugin.id,
                owners=(plugin.id,),
                text=f"A plugin has the id {plugin.id!r}, which cannot be one.",
                hint="Use lower-case letters and digits, with '.', '_' or '-' between them.",
            )
        version = plugin.version
        if not version.strip() or not version.isprintable() or len(version) > _MOST:
            yield PluginProblem(
                kind="bad_version",
                name=version,
                owners=(plugin.id,),
                text=f"The plugin {plugin.id!r} has the version {version!r}.",
                hint=f"Give it one, on one line of at most {_MOST} characters.",
            )


def _commands(
    plugins: Sequence[SessionPlugin], reserved: Collection[str]
) -> Iterator[PluginProblem]:
    owners: dict[str, str] = {}
    for plugin in plugins:
        for command in plugin.commands:
            name = command.name
            key = name.casefold()
            if not _COMMAND.fullmatch(name) or len(name) > _MOST or not command.body.strip():
                yield PluginProblem(
                    kind="bad_command",
                    name=name,
                    owners=(plugin.id,),
                    text=f"The plugin {plugin.id!r} has a command {name!r} that cannot be used.",
                    hint="It needs a text, and a name of letters, digits, '_', '.' and '-'.",
                )
            elif key in reserved:
                yield PluginProblem(
                    kind="reserved_command",
                    name=name,
                    owners=(BUILT_IN, plugin.id),
                    text=f"/{name} of the plugin {plugin.id!r} is a command of ZPI itself.",
                    hint="Give it another name.",
                )
            elif key in owners:
                yield _twice("duplicate_command", f"/{name}", (owners[key], plugin.id))
            else:
                owners[key] = plugin.id


def _tools(
    plugins: Sequence[SessionPlugin], builtins: Collection[str], taken: Mapping[str, str]
) -> Iterator[PluginProblem]:
    owners = {normalise_tool_name(name): owner for name, owner in taken.items()}
    owners.update(dict.fromkeys(builtins, BUILT_IN))
    for plugin in plugins:
        for tool in plugin.tools:
            name = normalise_tool_name(tool.name)
            if not name or any(c.isspace() for c in name):
                yield PluginProblem(
                    kind="bad_tool",
                    name=tool.name,
                    owners=(plugin.id,),
                    text=f"The plugin {plugin.id!r} has a tool of the name {tool.name!r}.",
                    hint="Give it a name without spaces.",
                )
            elif name in owners:
                yield _twice("duplicate_tool", name, (owners[name], plugin.id))
            else:
                owners[name] = plugin.id


def _overrides(
    plugins: Sequence[SessionPlugin], builtins: Collection[str]
) -> Iterator[PluginProblem]:
    owners: dict[str, str] = {}
    for plugin in plugins:
        for tool in plugin.tool_overrides:
            if tool.name not in builtins:
                yield PluginProblem(
                    kind="unknown_override",
                    name=tool.name,
                    owners=(plugin.id,),
                    text=f"The plugin {plugin.id!r} overrides {tool.name!r}, "
                    "which is no built-in tool.",
                    hint=f"Built-in tools: {', '.join(builtins) or 'none'}.",
                )
            elif tool.name in owners:
                yield _twice("duplicate_override", tool.name, (owners[tool.name], plugin.id))
            else:
                owners[tool.name] = plugin.id


def _twice(kind: ProblemKind, name: str, owners: tuple[str, str]) -> PluginProblem:
    first, second = owners
    what = "command" if name.startswith("/") else "tool"
    if kind == "duplicate_override":
        text = f"The plugins {first!r} and {second!r} both override the tool {name!r}."
    elif first == BUILT_IN:
        text = f"The {what} {name!r} of the plugin {second!r} has the name of a built-in one."
    else:
        text = f"The {what} {name!r} is contributed by both {first!r} and {second!r}."
    hint = "Use one of them, or give it another name."
    if kind == "duplicate_tool" and first == BUILT_IN:
        hint = "To replace the built-in tool, declare it as an override."
    return PluginProblem(kind=kind, name=name, owners=owners, text=text, hint=hint)


def _hooks(plugin: SessionPlugin) -> Iterator[PluginProblem]:
    for hook in plugin.hooks:
        wrong = _wrong_with(hook)
        if wrong:
            yield PluginProblem(
                kind="bad_hook",
                name=hook.event,
                owners=(plugin.id,),
                text=f"The handler {hook.label!r} of the plugin {plugin.id!r} {wrong}.",
            )


def _wrong_with(hook: Hook) -> str:
    if hook.event not in EVENT_NAMES:
        return f"is for {hook.event!r}, which is no event; there are {', '.join(EVENT_NAMES)}"
    if not 0 < hook.timeout <= MAX_TIMEOUT:
        return f"has a timeout of {hook.timeout!r}; it takes up to {MAX_TIMEOUT:g} seconds"
    if hook.on_error == "block" and hook.event not in GATES:
        return f"declares on_error='block', which {hook.event} does not know"
    if hook.matcher and hook.event not in TOOL_EVENTS:
        return f"has the matcher {hook.matcher!r}, which {hook.event} does not know"
    wrong = matching.problem_of(hook.matcher)
    return f"has the matcher {hook.matcher!r}, which {wrong}" if wrong else ""
