r"""Puts arguments into the text of a command or skill. Pure, one pass.

``$ARGUMENTS`` is everything that was typed, ``$1`` the first word of it (or
what stands in quotes), ``$ARGUMENTS[0]`` the same counted from 0. A word that
was not typed leaves its placeholder as it is (``$5`` may be a price), and
``\$1`` is ``$1``. What is put in is never looked at again. A text without
any placeholder gets the arguments at its end. Nothing is ever run.
"""

import re
from collections.abc import Mapping
from functools import cache


@cache
def _placeholder() -> re.Pattern[str]:
    return re.compile(
        r"\\(?P<escaped>\$(?:ARGUMENTS|[1-9]))"
        r"|\$ARGUMENTS(?:\[(?P<from_zero>\d{1,3})\]|(?P<all>(?!\w)))"
        r"|\$(?P<from_one>[1-9]\d{0,2})(?![\w]|[.,]\d)"
        r"|\$\{(?P<variable>[A-Z][A-Z0-9_]*)\}"
    )


@cache
def _word() -> re.Pattern[str]:
    return re.compile(r"\"([^\"]*)\"|'([^']*)'|(\S+)")


def split_arguments(arguments: str) -> list[str]:
    """Return the words of what was typed; quotes hold words together."""
    return ["".join(match.groups("")) for match in _word().finditer(arguments)]


def expand_arguments(text: str, arguments: str, *, variables: Mapping[str, str] = {}) -> str:
    """Return the text with the arguments in it.

    Args:
        text: The text of a command or skill.
        arguments: What was typed behind its name.
        variables: What ``${NAME}`` stands for; other names stay as they are.
    """
    words = split_arguments(arguments)
    placed = False

    def put(match: re.Match[str]) -> str:
        nonlocal placed
        if (escaped := match["escaped"]) is not None:
            return escaped
        if (name := match["variable"]) is not None:
            return variables.get(name, match[0])
        placed = True
        if match["all"] is not None:
            return arguments
        from_zero = match["from_zero"]
        at = int(from_zero) if from_zero is not None else int(match["from_one"]) - 1
        return words[at] if at < len(words) else match[0]

    expanded = _placeholder().sub(put, text)
    if arguments.strip() and not placed:
        expanded = f"{expanded.rstrip()}\n\nARGUMENTS: {arguments}"
    return expanded
