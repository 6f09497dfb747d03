"""Which calls a handler is about, by the name of the tool. Pure."""

from collections.abc import Sequence

from agent_sdk.tools.registry import normalise_tool_name, public_tool_name

MOST_CHARACTERS = 4096


def parts(matcher: str) -> tuple[str, ...]:
    """Return the names and patterns of a matcher; empty for one that fits every tool."""
    names = tuple(name.strip() for name in matcher.split("|") if name.strip())
    return () if "*" in names else names


def matches(matcher: str, tool_name: str) -> bool:
    """Whether a matcher is about a tool.

    Args:
        matcher: Names parted by ``|``, in either spelling, with ``*`` for any
            characters; empty for every tool.
        tool_name: The tool's native name.
    """
    names = parts(matcher)
    spellings = (tool_name, public_tool_name(tool_name))
    return not names or any(
        _fits(name.split("*"), spelling)
        for name in names
        for spelling in spellings
        if "*" in name or normalise_tool_name(name) == tool_name
    )


def problem_of(matcher: str) -> str:
    """Return what is wrong with a matcher; empty if nothing is."""
    if len(matcher) > MOST_CHARACTERS:
        return f"is longer than {MOST_CHARACTERS} characters"
    for name in parts(matcher):
        odd = next((c for c in name if not (c.isalnum() or c in "_-*./:")), "")
        if odd:
            return f"holds {odd!r}; it takes names and '*', parted by '|', no regular expression"
    return ""


def _fits(literals: Sequence[str], text: str) -> bool:
    """Whether the text is the literals, in order, with anything between them. Linear."""
    first, *middle = literals
    if not middle:
        return True  # no star: compared by the caller
    last = middle.pop()
    if len(first) + len(last) > len(text):
        return False
    if not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for literal in middle:
        found = text.find(literal, at, end)
        if found < 0:
            return False
        at = found + len(literal)
    return True
