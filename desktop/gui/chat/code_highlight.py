"""Colours of code: which characters have which role, found in small steps. Pure, no Qt.

Pygments is imported with the first block of code, or by ``warm_up``. A job is a generator, so
that whoever paints can stop after a few milliseconds and go on later.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MAX_LINES = 2000
MAX_CHARACTERS = 200_000
"""Larger blocks of code keep one colour."""

USUAL = ("text", "python", "bash", "json", "diff")
"""Languages that are loaded before they are needed; the first loads Pygments itself."""

Role: TypeAlias = Literal["keyword", "string", "comment", "number", "name"]

_ROLES: tuple[tuple[str, Role], ...] = (
    ("Token.Comment", "comment"),
    ("Token.Keyword", "keyword"),
    ("Token.Operator.Word", "keyword"),
    ("Token.Literal.String", "string"),
    ("Token.Literal.Number", "number"),
    ("Token.Name.Function", "name"),
    ("Token.Name.Class", "name"),
    ("Token.Name.Decorator", "name"),
    ("Token.Name.Builtin", "name"),
    ("Token.Name.Tag", "keyword"),
    ("Token.Name.Attribute", "name"),
    ("Token.Name.Exception", "name"),
)


class Span(NamedTuple):
    """A run of characters of one role; ``start`` counts from the beginning of the code."""

    start: int
    length: int
    role: Role


def language(info: str) -> str:
    """Return the language that a fence names, in lower case; empty if none."""
    first = info.strip().split(maxsplit=1)[0] if info.strip() else ""
    return first.strip("{}.").split(",", maxsplit=1)[0].split(":", maxsplit=1)[0].lower()


def spans(code: str, info: str) -> Iterator[Span | None]:
    """Yield the coloured runs in order, and None in between, so that one can pause.

    Nothing is yielded for an unknown language, or for more than ``MAX_LINES``
    lines or ``MAX_CHARACTERS`` characters.
    """
    if len(code) > MAX_CHARACTERS or code.count("\n") > MAX_LINES:
        return
    lexer = _lexer(language(info))
    if lexer is None:
        return
    for start, token, value in lexer.get_tokens_unprocessed(code):
        role = _role(str(token))
        yield Span(start, len(value), role) if role is not None and value.strip() else None


def warm_up() -> Iterator[None]:
    """Load what colours the usual languages, one at a time, so that an answer need not wait for it."""
    for name in USUAL:
        _lexer(name)
        yield


def language_of_path(path: str) -> str:
    """Return a language by a file's name; empty if it tells none."""
    from pygments.lexers import find_lexer_class_for_filename  # noqa: PLC0415 - start-up cost

    try:
        found = find_lexer_class_for_filename(path.rpartition("/")[2])
    except ValueError:
        return ""
    return found.aliases[0] if found is not None and found.aliases else ""


def _lexer(name: str) -> "Lexer | None":
    if not name:
        return None
    from pygments.lexers import get_lexer_by_name  # noqa: PLC0415 - start-up cost

    try:
        return get_lexer_by_name(name)
    except ValueError:  # there is no such language
        return None


def _role(token: str) -> Role | None:
    for prefix, role in _ROLES:
        if token.startswith(prefix):
            return role
    return None
