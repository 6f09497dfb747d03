"""Diffs as text to show. Pure, no Qt."""

from desktop.gui.text import soft_split, visible


def diff_lines(diff: str) -> str:
    """Return a diff without the lines that name its files, fit to be shown."""
    lines = diff.removesuffix("\n").split("\n")
    while lines and lines[0].startswith(("--- ", "+++ ")):
        lines.pop(0)
    return soft_split(visible("\n".join(lines)))


def replacement_diff(old: str, new: str, *, exact: bool = False) -> str:
    """Return old and new text as lines taken out and put in, fit to be shown."""
    gone = [f"-{line}" for line in old.removesuffix("\n").split("\n")] if old else []
    come = [f"+{line}" for line in new.removesuffix("\n").split("\n")] if new else []
    return soft_split(visible("\n".join([*gone, *come]), exact=exact))
