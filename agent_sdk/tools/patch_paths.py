r"""The file names in the headers of unified diffs. Pure.

Git puts ``a/`` and ``b/`` (or other single letters, see its option
``diff.mnemonicPrefix``) before them, quotes names with unusual characters as C
would, bytes that are no ASCII as ``\ooo``, and ends a name that contains a
space with a tab; ``diff`` puts a tab and the time behind them.
"""

import re

from agent_sdk.core.errors import InvalidToolInput

NULL = "/dev/null"
"""Stands for a file that is not there."""

_PREFIXES = tuple(f"{letter}/" for letter in "abciow")
_ESCAPE = re.compile(r'\\([0-7]{3}|[abfnrtv\\"])')
_LETTERS = dict(zip('abfnrtv\\"', '\a\b\f\n\r\t\v\\"', strict=True))


def header_path(text: str) -> str:
    """Return the name in a header line, without what may stand behind it.

    Args:
        text: The line after ``---`` or ``+++`` and the space.

    Raises:
        InvalidToolInput: If it is quoted and the quotation cannot be read, or
            if there is none.
    """
    text = text.rstrip("\r")
    name = _unquoted(text) if text.startswith('"') else text.split("\t", 1)[0].rstrip()
    if not name:
        raise InvalidToolInput("A --- or +++ line of the patch names no file.")
    return name


def patched_path(old: str, new: str) -> str:
    """Return the one file that both headers mean, without git's prefixes.

    ``a/x`` and ``b/x`` are ``x``. Two equal names stand for themselves: that
    the folder is called ``a`` is then likelier than that git had a hand in
    it. For a file that is created ``b/`` is taken off.

    Returns:
        The path; empty if the two mean different files.
    """
    if old == NULL:
        return new.removeprefix("b/") or new
    if old == new:
        return new
    one, other = _bare(old), _bare(new)
    if one and one == other:
        return one
    if one == new or other == old:  # one of them got a prefix, the other did not
        return new if one == new else old
    return ""


def _bare(name: str) -> str:
    return name[2:] if name.startswith(_PREFIXES) else ""


def _unquoted(text: str) -> str:
    end = _end_of_quotation(text)
    if end < 0:
        raise InvalidToolInput(f"The name {text[:80]!r} in the patch has no closing quote.")
    body = text[1:end]
    if "\\" in _ESCAPE.sub("", body):
        raise InvalidToolInput(f"The name {text[:80]!r} in the patch has an escape of no meaning.")
    octal = _ESCAPE.sub(_meaning, body)
    return octal.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _end_of_quotation(text: str) -> int:
    at = 1
    while at < len(text):
        if text[at] == '"':
            return at
        at += 2 if text[at] == "\\" else 1
    return -1


def _meaning(found: re.Match[str]) -> str:
    escape = found[1]
    if escape in _LETTERS:
        return _LETTERS[escape]
    code = int(escape, 8) & 0xFF
    return chr(code) if code < 0x80 else chr(0xDC00 + code)
