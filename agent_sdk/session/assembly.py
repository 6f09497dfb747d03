"""What a session is made of, put together in one place. Pure.

Real sessions, previews of their prompt and listings of their tools all come
here: tools are chosen, plugins merged and conflicts found by the same rules,
and nothing is run. The order in which a session is then created is in
``create``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import InvalidInput
from agent_sdk.loop.types import Notice, Tool
from agent_sdk.plugins.merge import (
    BUILT_IN,
    RESERVED_COMMANDS,
    Contributions,
    Instruction,
    merge_contributions,
)
from agent_sdk.plugins.types import PluginCommand, SessionPlugin
from agent_sdk.providers.base import PromptSection
from agent_sdk.resources.arguments import expand_arguments
from agent_sdk.resources.commands import PromptCommand, expand_command
from agent_sdk.resources.loader import Resources
from agent_sdk.resources.skills import read_skill
from agent_sdk.session.prompt import system_sections
from agent_sdk.tools.registry import normalise_tool_name, select_tools, tools_by_name

DEFAULT_TOOLS = ("read", "write", "edit", "bash")
"""Built-in tools that a session has unless it says otherwise; the others are added by name."""

Command: TypeAlias = PluginCommand | PromptCommand


class PromptInput(Struct, frozen=True, kw_only=True):
    """What a system prompt is made from.

    Attributes:
        cwd: The session's folder, an absolute real path.
        tools: The tools that it has, in order.
        instructions: The plugins' static texts, checked.
        custom_instructions: The caller's own; may be empty.
        resources: What users and projects have written.
        default: The sections that there would be without a callback.
    """

    cwd: str
    tools: tuple[Tool, ...]
    instructions: tuple[Instruction, ...]
    custom_instructions: str
    resources: Resources
    default: tuple[PromptSection, ...]


SystemPrompt: TypeAlias = Callable[[PromptInput], Sequence[PromptSection]]
"""Makes the whole system prompt; quick, and the same bytes for the same input."""


class ToolChoice(Struct, frozen=True, kw_only=True):
    """Which tools a session shall have.

    Names are accepted in either spelling, ``read`` or ``Read``.

    Attributes:
        tools: Exactly these, of all that there are; None for the default ones
            together with those that plugins and the caller add.
        exclude_tools: Leave these out.
        no_tools: Leave out the default ones.
        custom_tools: Tools that the caller adds; their names must be new.
        tool_overrides: Tools that take the place of the built-in ones of their names.
    """

    tools: Sequence[str] | None = None
    exclude_tools: Sequence[str] = ()
    no_tools: bool = False
    custom_tools: Sequence[Tool] = ()
    tool_overrides: Sequence[Tool] = ()


class Assembly(Struct, frozen=True, kw_only=True):
    """A session, put together and not running.

    Attributes:
        tools: Its tools, in the order in which they are declared.
        sections: Its system prompt.
        commands: Prompt commands by name, without the slash.
        contributions: What its plugins contribute.
        resources: What was found on the disk.
        notices: What its user should know: what was left out, and why.
    """

    tools: tuple[Tool, ...]
    sections: tuple[PromptSection, ...]
    commands: Mapping[str, Command]
    contributions: Contributions
    resources: Resources
    notices: tuple[Notice, ...] = ()

    def expand(self, prompt: str) -> str:
        """Return the prompt with a command or a skill put in the place of its ``/name``.

        A prompt that begins with no known one stays as it is. Reads the file of a skill.

        Raises:
            ConfigurationError: If the file of the skill cannot be read.
        """
        name, _, rest = prompt[1:].partition(" ") if prompt.startswith("/") else ("", "", "")
        command = self.commands.get(name)
        if isinstance(command, PromptCommand):
            return expand_command(command, rest.strip())
        if command is not None:
            return expand_arguments(command.body, rest.strip())
        skill = self.resources.skill(name)
        if skill is not None and skill.user_invocable:
            return read_skill(skill, rest.strip())
        return prompt


def assemble_session(
    *,
    cwd: str,
    builtins: Sequence[Tool],
    choice: ToolChoice | None = None,
    plugins: Sequence[SessionPlugin] = (),
    resources: Resources | None = None,
    system_prompt: str | SystemPrompt | None = None,
    custom_instructions: str = "",
) -> Assembly:
    """Return the session that these parts come to.

    Args:
        cwd: The session's folder, an absolute real path.
        builtins: All built-in tools, those that must be named included.
        choice: Which tools it shall have.
        plugins: Plugins, in the order in which they count.
        resources: What the loader found; None for nothing.
        system_prompt: A text in the place of ZPI's own instructions, or what
            makes the whole prompt.
        custom_instructions: Text that is added to the prompt.

    Raises:
        PluginConflict: If a plugin is not usable or two are in each other's way.
        InvalidInput: If a tool's name is unknown, taken, or named twice.
    """
    choice, resources = choice or ToolChoice(), resources or Resources()
    known = tools_by_name(builtins)
    custom = tools_by_name(choice.custom_tools)
    contributions = merge_contributions(
        plugins, builtins=tuple(known), taken=dict.fromkeys(custom, "custom_tools")
    )
    tools = _chosen(known, custom, choice=choice, contributions=contributions)
    commands, notices = _commands(contributions, resources)
    given = PromptInput(
        cwd=cwd,
        tools=tools,
        instructions=contributions.instructions,
        custom_instructions=custom_instructions,
        resources=resources,
        default=system_sections(
            cwd=cwd,
            tools=tools,
            base=system_prompt if isinstance(system_prompt, str) else None,
            instructions=contributions.instructions,
            custom_instructions=custom_instructions,
            resources=resources,
        ),
    )
    return Assembly(
        tools=tools,
        sections=tuple(system_prompt(given)) if callable(system_prompt) else given.default,
        commands=commands,
        contributions=contributions,
        resources=resources,
        notices=(*_problems(resources), *notices),
    )


def _chosen(
    known: Mapping[str, Tool],
    custom: Mapping[str, Tool],
    *,
    choice: ToolChoice,
    contributions: Contributions,
) -> tuple[Tool, ...]:
    """Return the tools in force: built-in ones first, then the plugins', then the caller's."""
    overrides = _overrides(known, choice, contributions)
    everything = tools_by_name(
        (
            *(overrides.get(name, tool) for name, tool in known.items()),
            *contributions.tools,
            *custom.values(),
        )
    )
    if choice.tools is not None and choice.no_tools:
        raise InvalidInput(
            "Tools are named, though there shall be no default ones (no_tools).",
            hint="Leave one of the two out.",
        )
    names: Sequence[str] | None = choice.tools
    if names is None:
        default = () if choice.no_tools else DEFAULT_TOOLS
        left_out = {normalise_tool_name(name) for name in choice.exclude_tools}
        added = [name for name in everything if name not in known or name in default]
        names = [name for name in added if name not in left_out]
    chosen = select_tools(everything.values(), names=names, excludes=choice.exclude_tools)
    return tuple(chosen.values())


def _overrides(
    known: Mapping[str, Tool], choice: ToolChoice, contributions: Contributions
) -> dict[str, Tool]:
    own = tools_by_name(choice.tool_overrides)
    for name in own:
        if name not in known:
            raise InvalidInput(
                f"{name!r} is no built-in tool, so it cannot be overridden.",
                hint=f"Built-in tools: {', '.join(known) or 'none'}. Add a new one as custom tool.",
            )
        if name in contributions.overrides:
            owner = contributions.owners.get(name, "a plugin")
            raise InvalidInput(
                f"The tool {name!r} is overridden by the caller and by {owner!r}.",
                hint="Leave one of the two out.",
            )
    return {**contributions.overrides, **own}


def _commands(
    contributions: Contributions, resources: Resources
) -> tuple[dict[str, Command], list[Notice]]:
    """Return the commands by name; a plugin's comes before a file's of the same name."""
    commands: dict[str, Command] = dict(contributions.commands)
    notices = []
    for command in resources.commands:
        if command.name not in commands and command.name not in RESERVED_COMMANDS:
            commands[command.name] = command
            continue
        owner = contributions.owners.get(f"/{command.name}", BUILT_IN)
        text = f"The command file {command.path!r} is not used: {owner!r} has /{command.name}."
        notices.append(Notice("warning", "command_taken", text))
    return commands, notices


def _problems(resources: Resources) -> list[Notice]:
    return [
        Notice("warning", "resource_problem", f"{problem.path!r}: {problem.text} {problem.hint}")
        for problem in resources.problems
    ]
