"""Text made safe to show: what cannot be seen becomes visible, endless lines are cut. Pure.

Text of models, tools and files may hold characters that hide, reorder or
imitate other text. Qt would obey them; people must see them instead.
"""

import re

LONGEST_LINE = 4000
"""Characters of a line that Qt lays out quickly; longer ones are shown in pieces."""

# Controls except tab and line feed, bidirectional marks, separators, invisible
# operators and fillers, interlinear marks, lone surrogates and tag characters.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff"
)
_PROSE = re.compile(f"[{_HIDDEN}]")
# Joiners and variation selectors belong to emoji and to several scripts, but
# they have no business in a command or a path; nor have odd spaces.
_EXACT = re.compile(
    f"[{_HIDDEN}\u00a0\u1680\u2000-\u200a\u200c\u200d\u202f\u205f\u3000\ufe00-\ufe0f]"
)


def visible(text: str, *, exact: bool = False) -> str:
    """Return the text with hidden and reordering characters as ``‹U+202E›``.

    Line feeds and tabs stay; CR LF counts as a line feed.

    Args:
        text: Any text.
        exact: For commands and paths that someone is asked about: odd spaces,
            joiners and variation selectors are shown too.
    """
    if text.isascii() and text.isprintable():
        return text
    pattern = _EXACT if exact else _PROSE
    return pattern.sub(_named, text.replace("\r\n", "\n"))


def soft_split(text: str, limit: int = LONGEST_LINE) -> str:
    """Return the text with line breaks put into lines of more than ``limit`` characters.

    A break follows a space where one is near. For showing only; what is copied
    is the text itself.
    """
    if len(text) <= limit:
        return text
    return "\n".join(piece for line in text.split("\n") for piece in (pieces(line, limit) or [""]))


def pieces(line: str, limit: int = LONGEST_LINE) -> list[str]:
    """Return the line in pieces of at most ``limit`` characters; joined they are the line."""
    found = []
    at = 0
    while at < len(line):
        end = at + limit
        if end < len(line):
            space = line.rfind(" ", at + limit // 2, end)
            end = space + 1 if space >= 0 else end
        found.append(line[at:end])
        at = end
    return found


def one_line(text: str, limit: int = 200) -> str:
    """Return the beginning of the text as one visible line, with ``…`` if there is more."""
    head = " ".join(visible(text[: limit * 4], exact=True).split())
    return head if len(head) <= limit and len(text) <= limit * 4 else f"{head[:limit]}…"


def below_home(path: str, home: str) -> str:
    """Return a path as people write it: ``~`` for their home folder."""
    home = home.rstrip("/")
    if home and (path == home or path.startswith(f"{home}/")):
        return f"~{path[len(home) :]}"
    return path


def _named(match: re.Match[str]) -> str:
    return f"‹U+{ord(match[0]):04X}›"
