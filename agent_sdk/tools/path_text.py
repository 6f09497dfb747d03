r"""Paths as text: to compare, to store and to show. Pure.

A path may hold bytes that are no UTF-8 (as lone surrogates, see PEP 383) and
characters that cannot be seen. ``portable`` is the form for rules, records and
JSON, ``visible`` the one for people and models.
"""

import os
import re

_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{n}" for port in ("com", "lpt") for n in "0123456789¹²³"}
)


def within(path: str, root: str) -> bool:
    """Return whether a real path is a folder or lies below it, by components."""
    if os.name == "nt":
        path, root = os.path.normcase(path), os.path.normcase(root)
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def relative_to(path: str, folder: str) -> str:
    """Return a path seen from a folder, portable; empty if it lies elsewhere."""
    if not within(path, folder):
        return ""
    return portable(path[len(folder.rstrip(os.sep)) + 1 :]) or "."


def portable(path: str) -> str:
    r"""Return a path as rules see it, and as it can be stored: with ``/``.

    Bytes that are no UTF-8 become ``\xNN``; then, and where a name itself
    contains ``\x``, backslashes are doubled, so that no two paths give the
    same text.
    """
    if os.name == "nt":
        path = path.replace("\\", "/")
    if "\\x" not in path and (path.isascii() or not any(map(_is_byte, path))):
        return path
    doubled = path.replace("\\", "\\\\")
    return "".join(_escape(c) if _is_byte(c) else c for c in doubled)


def from_portable(text: str) -> str:
    r"""Return the path for a portable one with ``\xNN`` in it; others unchanged."""
    if "\\x" not in text:
        return text
    return re.sub(
        r"\\x([89a-f][0-9a-f])|\\\\",
        lambda m: chr(0xDC00 + int(m[1], 16)) if m[1] else "\\",
        text,
    )


def visible(text: str) -> str:
    r"""Return the text with everything invisible or reordering written as an escape.

    Control characters, zero-width and bidirectional marks, odd spaces and
    line separators become ``\xNN`` or ``\u{…}``.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def quoted(text: str) -> str:
    """Return the visible text in quotation marks, for messages."""
    return f"'{visible(text)}'"


def windows_refusal(path: str) -> str:
    """Return why a path must not be used on Windows; empty if it may."""
    plain = path.replace("/", "\\")
    if plain.startswith("\\\\"):
        return "is a network or device path, which is not supported"
    drive, rest = (plain[:2], plain[2:]) if plain[1:2] == ":" else ("", plain)
    if drive and not rest.startswith("\\"):
        return "depends on the current folder of a drive; give it in full"
    if ":" in rest:
        return "names a stream of a file, which is not supported"
    for part in rest.split("\\"):
        if part.split(".", 1)[0].rstrip().lower() in _DEVICES:
            return "names a device"
        if part not in (".", "..") and part != part.rstrip(". "):
            return "has a name that ends in a dot or a space"
    return ""


def _is_byte(character: str) -> bool:
    return "\udc80" <= character <= "\udcff"


def _escape(character: str) -> str:
    code = ord(character)
    if _is_byte(character):
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{{{code:x}}}"
