"""What header fields may hold: text, yes or no, numbers, names. Pure.

``core.frontmatter`` read the syntax; each function here takes one field and
returns it in its own type. A field that is absent or empty gives the default.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache

from agent_sdk.core.frontmatter import Frontmatter, Value
from agent_sdk.resources.problems import Remark, Unusable

MOST_NAME = 64
MOST_DESCRIPTION = 1024
"""Characters of a description that are kept."""

_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})


def text_field(fields: Mapping[str, Value], key: str) -> str:
    """Return a field of text, stripped; empty if absent.

    Raises:
        Unusable: If it is a list or a table.
    """
    value = fields.get(key)
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    raise bad_field(key, "must be text")


def flag_field(fields: Mapping[str, Value], key: str, *, default: bool) -> bool:
    """Return a field of yes or no: true, yes, on, 1; false, no, off, 0.

    Raises:
        Unusable: If it is something else.
    """
    text = text_field(fields, key).lower()
    if not text:
        return default
    if text not in _YES | _NO:
        raise bad_field(key, f"must be true or false, not {text[:80]!r}")
    return text in _YES


def number_field(fields: Mapping[str, Value], key: str, *, most: int) -> int | None:
    """Return a field of a whole number from 1; None if absent.

    Raises:
        Unusable: If it is something else, or larger than ``most``.
    """
    text = text_field(fields, key)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= most):
        raise bad_field(key, f"must be a whole number from 1 to {most}, not {text[:80]!r}")
    return int(text)


def names_field(fields: Mapping[str, Value], key: str) -> tuple[str, ...] | None:
    """Return a field of names: a list, or text with commas or spaces between; None if absent.

    What stands in parentheses belongs to its name: ``Bash(git add:*), Read``
    is two.

    Raises:
        Unusable: If it is a table, or a list of something else than text.
    """
    value = fields.get(key)
    if value is None:
        return None
    if isinstance(value, str):
        return tuple(dict.fromkeys(_name().findall(value)))
    if isinstance(value, list):
        names = [item.strip() for item in value if isinstance(item, str)]
        if len(names) == len(value):
            return tuple(dict.fromkeys(name for name in names if name))
    raise bad_field(key, "must be a list of names")


def hint_field(fields: Mapping[str, Value], key: str) -> str:
    """Return a field of text that may look like a list: ``[file] [line]``."""
    value = fields.get(key)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return f"[{', '.join(map(str, value))}]"
    return one_line(text_field(fields, key))


def one_line(text: str) -> str:
    """Return the text in one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def first_paragraph(body: str) -> str:
    """Return a Markdown text's first paragraph in one line, without headings."""
    found: list[str] = []
    for line in body.split("\n"):
        text = line.strip()
        if found and not text:
            break
        if text and not text.startswith("#"):
            found.append(text)
    return one_line(" ".join(found))


def described(header: Frontmatter, *, key: str = "description") -> tuple[str, tuple[Remark, ...]]:
    """Return a description in one line, cut to 1,024 characters, and whether it was cut.

    Raises:
        Unusable: If it is no text.
    """
    text = one_line(text_field(header.fields, key))
    if len(text) <= MOST_DESCRIPTION:
        return text, ()
    remark = Remark(
        f"{key!r} is longer than {MOST_DESCRIPTION} characters; the rest is not shown to the model.",
        "Shorten it.",
    )
    return text[: MOST_DESCRIPTION - 1].rstrip() + "…", (remark,)


def bent(header: Frontmatter, *, strict: Collection[str] = ()) -> tuple[Remark, ...]:
    """Return what was bent in the header.

    Args:
        header: The header.
        strict: Fields that must not have been.

    Raises:
        Unusable: If one of these was, or if the header was not understood at all.
    """
    for problem in header.problems:
        if not problem.key or problem.key in strict:
            raise Unusable(
                f"Line {problem.line}: {problem.text}.", hint="Correct the file's header."
            )
    return tuple(
        Remark(f"Line {problem.line}: {problem.text}.", "Put the value in quotes.")
        for problem in header.problems
    )


def called(name: str) -> str:
    """Return the name if it can be typed to call something: letters, digits, ``-``, ``_``, ``.``.

    Raises:
        Unusable: If it cannot.
    """
    if len(name) > MOST_NAME or not name or not name[0].isalnum():
        raise _bad_name(name)
    if not all(c.isalnum() or c in "-_." for c in name):
        raise _bad_name(name)
    return name


def bad_field(key: str, text: str) -> Unusable:
    """Return the error for a field."""
    return Unusable(f"{key!r} {text}.", hint="Correct the file's header.")


@cache
def _name() -> re.Pattern[str]:
    return re.compile(r"[^\s,()]+(?:\([^()]*\))?")


def _bad_name(name: str) -> Unusable:
    return Unusable(
        f"{name[:80]!r} is no usable name.",
        hint=f"Rename it: at most {MOST_NAME} letters, digits, '-', '_' and '.'.",
    )
