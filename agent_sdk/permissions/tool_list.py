"""Lists of tools as people write them: ``Read, Bash(git *), edit, mcp/github/*``. Pure.

Native names, the names of the Claude tools and permission keys are accepted,
since scripts and habits use all three.
"""

from collections.abc import Iterable

from agent_sdk.core.errors import InvalidInput
from agent_sdk.loop.types import Action, Rule
from agent_sdk.permissions.commands import COMMAND_KEYS
from agent_sdk.permissions.ruleset import KEYS, Ruleset, anchored

# Lower case, without ``_`` and ``-``: (permission key, pattern if none is given).
_TOOLS: dict[str, tuple[str, str]] = {
    **{key.replace("_", ""): (key, "*") for key in KEYS},
    **dict.fromkeys(("write", "multiedit", "applypatch", "notebookedit"), ("edit", "*")),
    "notebookread": ("read", "*"),
    "ls": ("list", "*"),
    "websearch": ("webfetch", "search:*"),
    **dict.fromkeys(("agent", "multitask"), ("task", "*")),
    **dict.fromkeys(("todowrite", "todoread"), ("todo", "*")),
    **dict.fromkeys(("gitstatus", "gitdiff", "gitlog"), ("git_read", "*")),
    "gitcommit": ("git_write", "*"),
    "*": ("*", "*"),
}

_SHOWN = (
    "Read, Write, Edit, MultiEdit, ApplyPatch, Bash, Glob, Grep, LS, Task, TodoWrite, WebFetch, "
    "WebSearch, " + ", ".join(KEYS) + ", mcp/<server>/<tool>, *"
)


def rules_from_tool_list(
    names: Iterable[str], *, action: Action = "allow", base: str = "", home: str = ""
) -> Ruleset:
    """Return the rules that a list of tools stands for.

    ``Bash(git *)`` is about commands that begin with ``git``, ``Bash(git:*)``
    about these and about ``git`` alone, ``Edit(src/*)`` about files below
    ``src``, and a bare name about everything that the tool does.

    Args:
        names: The entries; each may hold several, parted by commas or spaces.
        action: What the rules do.
        base: Folder that relative file patterns are relative to.
        home: The folder that a leading ``~/`` stands for.

    Raises:
        InvalidInput: If a name is unknown or its brackets do not match.
    """
    rules: list[Rule] = []
    for entry in names:
        for name in _split(entry):
            rules += _rules(name, action, (base, home))
    return tuple(dict.fromkeys(rules))


def _rules(name: str, action: Action, folders: tuple[str, str]) -> list[Rule]:
    tool, bracket, rest = name.partition("(")
    key, pattern = _key(tool.strip(), name)
    if bracket:
        if not rest.endswith(")") or not rest[:-1].strip():
            raise InvalidInput(
                f"{name!r} has no pattern in its brackets.", hint="Write it like Bash(git *)."
            )
        pattern = rest[:-1].strip()
    if key in COMMAND_KEYS and pattern.endswith(":*") and pattern != ":*":
        prefix = pattern[:-2].rstrip()
        return [Rule(key, prefix, action), Rule(key, f"{prefix} *", action)]
    return [Rule(key, anchored(key, pattern, base=folders[0], home=folders[1]), action)]


def _key(tool: str, name: str) -> tuple[str, str]:
    if tool.startswith("mcp__"):
        server, _, method = tool[len("mcp__") :].partition("__")
        tool = f"mcp/{server}/{method or '*'}"
    if tool.startswith("mcp/"):
        server, _, method = tool[len("mcp/") :].partition("/")
        if server:
            return f"mcp/{server}/{method or '*'}", "*"
    found = _TOOLS.get(tool.lower().replace("_", "").replace("-", ""))
    if found is None:
        raise InvalidInput(f"{name!r} is no tool.", hint=f"Known: {_SHOWN}.")
    return found


def _split(entry: str) -> list[str]:
    """Part a list at commas and spaces, but not inside brackets."""
    names: list[str] = []
    depth = start = 0
    for at, char in enumerate(entry):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            raise InvalidInput(f"{entry!r} closes a bracket that was not opened.")
        if depth == 0 and (char == "," or char.isspace()):
            names.append(entry[start:at])
            start = at + 1
    if depth:
        raise InvalidInput(
            f"{entry!r} has a bracket that is not closed.", hint="Write it like Bash(git *)."
        )
    names.append(entry[start:])
    return [name.strip() for name in names if name.strip()]
