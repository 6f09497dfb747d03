"""Which tools a session has, and what they are called. Pure.

A tool's name is its native one (``read``). The spelling of the public tools
(``Read``) is accepted wherever a person or a program names a tool; it is
normalised at that edge by ``normalise_tool_name``, and nowhere below.
"""

from collections.abc import Iterable, Mapping, Sequence

from agent_sdk.core.errors import InvalidInput
from agent_sdk.loop.types import Tool
from agent_sdk.providers.base import ToolSpec

PUBLIC_NAMES: Mapping[str, str] = {
    "Read": "read",
    "Write": "write",
    "Edit": "edit",
    "Bash": "bash",
    "Glob": "glob",
    "Grep": "grep",
    "TodoWrite": "todo",
    "ApplyPatch": "apply_patch",
    "GitStatus": "git_status",
    "GitDiff": "git_diff",
    "GitLog": "git_log",
    "GitCommit": "git_commit",
}
"""Public spelling to native name, for the built-in tools that there are."""

_NATIVE = {native: public for public, native in PUBLIC_NAMES.items()}


def normalise_tool_name(name: str) -> str:
    """Return a tool's native name for either spelling; other names as they are."""
    name = name.strip()
    return PUBLIC_NAMES.get(name, name)


def public_tool_name(name: str) -> str:
    """Return the public spelling of a native name; other names as they are."""
    return _NATIVE.get(name, name)


def tools_by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Return the tools by native name, in their order.

    Raises:
        InvalidInput: If two have the same name, in whichever spelling.
    """
    found: dict[str, Tool] = {}
    for tool in tools:
        name = normalise_tool_name(tool.name)
        if not name:
            raise InvalidInput("A tool has no name.")
        if name in found:
            raise InvalidInput(
                f"There are two tools named {tool.name!r}.",
                hint="Give the added tool another name; built-in names are taken.",
            )
        if name != tool.name:
            raise InvalidInput(
                f"The name {tool.name!r} is taken by the built-in tool {name!r}.",
                hint="Give the added tool another name.",
            )
        found[name] = tool
    return found


def select_tools(
    tools: Iterable[Tool],
    *,
    no_tools: bool = False,
    names: Sequence[str] | None = None,
    excludes: Sequence[str] = (),
) -> dict[str, Tool]:
    """Return the tools that a session shall have, in the order of ``tools``.

    Args:
        tools: All that there are.
        no_tools: Take none at all.
        names: Take only these; None for all.
        excludes: Leave these out.

    Raises:
        InvalidInput: If a name is unknown or given twice, a tool is both taken
            and left out, or two tools have the same name.
    """
    known = tools_by_name(tools)
    left_out = _checked(excludes, known, "exclude")
    wanted = None if names is None else _checked(names, known, "take")
    both = sorted(left_out & wanted) if wanted is not None else []
    if both:
        raise InvalidInput(f"The tool {both[0]!r} is both named and excluded.")
    if no_tools:
        if wanted:
            raise InvalidInput("Tools are named, though there shall be none (no_tools).")
        return {}
    return {
        name: tool
        for name, tool in known.items()
        if name not in left_out and (wanted is None or name in wanted)
    }


def tool_specs(tools: Mapping[str, Tool]) -> tuple[ToolSpec, ...]:
    """Return the declarations of tools for the model, in their order."""
    return tuple(ToolSpec(name, tool.description, tool.parameters) for name, tool in tools.items())


def _checked(names: Sequence[str], known: Mapping[str, Tool], what: str) -> set[str]:
    seen: set[str] = set()
    for given in names:
        name = normalise_tool_name(given)
        if name not in known:
            raise InvalidInput(
                f"There is no tool {given!r} to {what}.",
                hint=f"Tools: {', '.join(known) or 'none'}.",
            )
        if name in seen:
            raise InvalidInput(f"The tool {given!r} is named twice.")
        seen.add(name)
    return seen
