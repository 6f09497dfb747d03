"""The wildcard of permission rules. Pure.

Patterns come from files that others may have written, so the matcher is no
regular expression: it never takes more than pattern times value steps.
"""

import unicodedata


def matches(pattern: str, value: str) -> bool:
    """Return whether the pattern covers the whole value.

    Args:
        pattern: ``*`` stands for any characters, also none and also ``/``;
            ``?`` for exactly one. There is no way to quote them.
        value: What is tested.
    """
    if pattern == "*" or pattern == value:
        return True
    if "?" in pattern:
        return _scan(pattern, value)
    if "*" not in pattern:
        return False
    return _find(pattern, value)


def _find(pattern: str, value: str) -> bool:
    """Match a pattern without ``?``: its pieces must follow each other."""
    first, *middle, last = pattern.split("*")
    at, end = len(first), len(value) - len(last)
    if at > end or not value.startswith(first) or not value.endswith(last):
        return False
    for piece in middle:
        found = value.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _scan(pattern: str, value: str) -> bool:
    p = v = 0
    star = -1  # where the last ``*`` stood, and from where it has eaten
    mark = 0
    while v < len(value):
        if p < len(pattern) and pattern[p] == "*":
            star, mark = p, v
            p += 1
        elif p < len(pattern) and pattern[p] in ("?", value[v]):
            p += 1
            v += 1
        elif star >= 0:
            mark += 1
            p, v = star + 1, mark
        else:
            return False
    return not pattern[p:].strip("*")


def has_wildcard(pattern: str) -> bool:
    """Return whether the pattern covers more than itself."""
    return "*" in pattern or "?" in pattern


def fold(text: str) -> str:
    """Return the text without differences of case and composition.

    Two spellings that a file system may take for one give the same result.
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
