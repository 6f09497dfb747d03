"""The header of a Markdown file that people write: skills, commands, agents.

Syntax only. What a field means, and what it may hold, is for whoever asked;
so every scalar is text here (``version: 1.10`` stays ``1.10``), empty, ``~``
and ``null`` are None, and lists and tables hold the same.

The syntax is YAML without what is dangerous in files of strangers: aliases,
anchors and tags are refused, depth and size are bounded. Real headers are
often no YAML (``description: Use when: …``, ``argument-hint: [a] [b]``), so
one that does not parse is taken apart at its top-level keys; a value that is
still no YAML is taken as the text it is. What was bent is said in
``problems``. Nothing here raises for a text, whatever is in it.

The YAML library is loaded for the first header that needs it; the usual one,
of ``key: plain text`` lines, does not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from agent_sdk.core.yaml_subset import Loaded

Value: TypeAlias = "str | list[Value] | dict[str, Value] | None"

MOST_CHARACTERS = 65_536
"""Longest header, in characters."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# Words that begin lines of dialogue in unquoted descriptions, seldom fields.
_DIALOGUE = frozenset({"user", "assistant", "context", "commentary", "example", "examples"})


class HeaderProblem(Struct, frozen=True):
    """Something in a header that is no YAML, and was understood all the same, or not.

    Attributes:
        key: The top-level key it is about; empty for the header as a whole.
        line: Line in the file, from 1.
        text: What is wrong, to follow "line N: ".
    """

    key: str
    line: int
    text: str


class Frontmatter(Struct, frozen=True, kw_only=True):
    r"""A file taken apart.

    Attributes:
        fields: The header's top-level fields, in order.
        body: What follows the header, without leading blank lines; the whole
            text where there is no header. Line ends are ``\n``.
        present: Whether there is a header.
        problems: What had to be bent or left out.
    """

    fields: Mapping[str, Value] = {}
    body: str = ""
    present: bool = False
    problems: tuple[HeaderProblem, ...] = ()


def parse_frontmatter(text: str) -> Frontmatter:
    """Take a file's text apart into header and body; never raises.

    Args:
        text: The file, decoded; a byte order mark and any line ends will do.
    """
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    opening = _opening().match(text)
    if opening is None:
        return Frontmatter(body=text.lstrip("\n"))
    line = text.count("\n", 0, opening.start(1)) + 1
    closing = _closing().search(text, opening.end())
    if closing is None:
        problem = HeaderProblem("", line, "the header that begins here is never closed by ---")
        return Frontmatter(body=text.lstrip("\n"), problems=(problem,))
    header = text[opening.end() : closing.start()]
    body = text[closing.end() :].lstrip("\n")
    if len(header) > MOST_CHARACTERS:
        said = f"the header is longer than {MOST_CHARACTERS} characters and was not read"
        problem = HeaderProblem("", line, said)
        return Frontmatter(body=body, present=True, problems=(problem,))
    fields, problems = _header([_spaced(each) for each in header.split("\n")], line + 1)
    return Frontmatter(fields=fields, body=body, present=True, problems=tuple(problems))


@cache
def _opening() -> re.Pattern[str]:
    return re.compile(r"(?:[ \t]*\n)*(---)[ \t]*(?:\n|\Z)")


@cache
def _closing() -> re.Pattern[str]:
    return re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)


def _header(lines: list[str], start: int) -> tuple[dict[str, Value], list[HeaderProblem]]:
    fields = _simple(lines)
    if fields is not None:
        return fields, []
    found = _load(lines, start)
    if found.error:
        return _piecewise(lines, start)
    if found.value is None:
        return {}, []
    if not isinstance(found.value, dict):
        return {}, [HeaderProblem("", start, "the header must be fields, each `name: value`")]
    return found.value, []


def _spaced(line: str) -> str:
    """Replace tabs at a line's beginning, which YAML refuses, by two spaces each."""
    rest = line.lstrip(" \t")
    return line[: len(line) - len(rest)].replace("\t", "  ") + rest


# ----------------------------------------------------------------- fast path


@cache
def _plain_line() -> re.Pattern[str]:
    return re.compile(
        r"(?P<key>[A-Za-z][A-Za-z0-9_-]*):"
        r"(?: +(?:(?P<plain>[A-Za-z0-9].*)|\"(?P<double>[^\"\\]*)\"|'(?P<single>[^']*)'))? *"
    )


def _simple(lines: Iterable[str]) -> dict[str, Value] | None:
    """Read a header of plain one-line fields; None if there is more to it than that."""
    fields: dict[str, Value] = {}
    for line in lines:
        if not line.strip(" "):
            continue
        match = _plain_line().fullmatch(line) if line.isprintable() else None
        if match is None or match["key"] in fields:
            return None
        plain = match["plain"]
        if plain is not None and (": " in plain or " #" in plain or plain.rstrip().endswith(":")):
            return None
        quoted = match["double"] if match["double"] is not None else match["single"]
        fields[match["key"]] = _scalar(plain.rstrip()) if plain else quoted
    return fields


def _scalar(text: str) -> str | None:
    return None if text in _NULLS else text


# --------------------------------------------------------------------- YAML


def _load(lines: Iterable[str], start: int) -> "Loaded":
    from agent_sdk.core.yaml_subset import load_yaml  # noqa: PLC0415 - 40 ms, seldom needed

    return load_yaml("\n".join(lines) + "\n", line=start)


# ----------------------------------------------------- what is not quite YAML


@cache
def _key_line() -> re.Pattern[str]:
    return re.compile(r"([a-z][A-Za-z0-9_-]*) *:(?: |$)")


def _piecewise(lines: list[str], start: int) -> tuple[dict[str, Value], list[HeaderProblem]]:
    """Read a header that is no YAML field by field."""
    fields: dict[str, Value] = {}
    problems: list[HeaderProblem] = []
    for key, at, block in _blocks(lines):
        line = start + at
        if not key:
            if any(part.strip() and not part.startswith("#") for part in block):
                problems.append(HeaderProblem("", line, "belongs to no field and was left out"))
            continue
        if key in fields:
            problems.append(
                HeaderProblem(key, line, f"{key!r} is there twice; the first one holds")
            )
            continue
        found = _load(block, line)
        if found.error:
            text = f"{key!r} is no valid YAML ({found.error}) and was taken as plain text"
            problems.append(HeaderProblem(key, found.line, text))
        fields[key] = found.value[key] if isinstance(found.value, dict) else _raw(block)
    return fields, problems


def _blocks(lines: list[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Yield each top-level field's name, first line (from 0) and lines."""
    key, at, block = "", 0, list[str]()
    for number, line in enumerate(lines):
        match = _key_line().match(line)
        if match is None or match[1].lower() in _DIALOGUE:
            block.append(line)
            continue
        if block:
            yield key, at, block
        key, at, block = match[1], number, [line]
    if block:
        yield key, at, block


def _raw(block: list[str]) -> str | None:
    """Return a field's value as the text it is, without the quotes around it."""
    head, *rest = block
    _, _, value = head.partition(":")
    text = "\n".join([value.strip(), *(line.strip() for line in rest)]).strip()
    if text[:2].rstrip() in {"|", ">", "|-", ">-"}:
        text = text.partition("\n")[2]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return _scalar(text)
