"""What a call of ``grep`` may ask for. Pure."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from agent_sdk.core.errors import InvalidToolInput
from agent_sdk.providers.messages import Json
from agent_sdk.tools.globs import PathGlob, compile_glob
from agent_sdk.tools.grep_pattern import read_expression
from agent_sdk.tools.grep_program import GrepJob, GrepMode
from agent_sdk.tools.grep_types import FileType
from agent_sdk.tools.inputs import check_input
from agent_sdk.tools.paths import Target

DEFAULT_LIMIT = 250
MAX_LIMIT = 5_000
MAX_OFFSET = 10_000
MAX_CONTEXT = 50

_MODES: Mapping[str, GrepMode] = {
    "content": "content",
    "files_with_matches": "files",
    "count": "count",
}

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "description": "A regular expression; without look-around and back-references.",
        },
        "path": {
            "type": "string",
            "description": "The folder or file to search; the working folder if left out.",
        },
        "glob": {
            "type": "string",
            "description": "Search only files that fit, such as '*.js' or 'src/**/*.{ts,tsx}'.",
        },
        "type": {
            "type": "string",
            "description": "Search only files of a kind, such as py, js, rust or go.",
        },
        "output_mode": {
            "type": "string",
            "enum": list(_MODES),
            "description": (
                "files_with_matches (if left out) returns paths, content the matching lines with"
                " their numbers, count how many lines of each file match."
            ),
        },
        "before": {
            "type": "integer",
            "minimum": 0,
            "description": "Lines to show before each match (content only).",
        },
        "after": {"type": "integer", "minimum": 0, "description": "Lines to show after each."},
        "context": {"type": "integer", "minimum": 0, "description": "Lines before and after."},
        "case_insensitive": {"type": "boolean", "description": "Take no notice of case."},
        "multiline": {
            "type": "boolean",
            "description": "Let matches go across lines: \\n can be used, and . matches it.",
        },
        "include_ignored": {
            "type": "boolean",
            "description": "Search also what ignore files leave out.",
        },
        "head_limit": {
            "type": "integer",
            "minimum": 1,
            "description": f"Most lines to return; {DEFAULT_LIMIT} if left out.",
        },
        "offset": {"type": "integer", "minimum": 0, "description": "Lines to skip first."},
    },
    "required": ["pattern"],
    "additionalProperties": False,
}

_SPELLINGS: Mapping[str, str] = {
    "-A": "after",
    "-B": "before",
    "-C": "context",
    "-i": "case_insensitive",
}
"""As scripts and models know the options of grep itself."""

_NUMBERS = "-n"


class GrepInput(Struct):
    """Checked input.

    Attributes:
        target: What to search.
        pattern: The expression as it was given.
        job: What each program is asked.
        glob: Which paths to search; None for all.
        file_type: Which kind of files to search; None for all.
        include_ignored: Whether ignored files are searched, too.
        limit: Most lines to show.
        offset: Lines to skip first.
        folder: Whether the target was a folder when permission was asked for;
            None before that.
    """

    target: Target
    pattern: str
    job: GrepJob
    glob: PathGlob | None
    file_type: FileType | None
    include_ignored: bool
    limit: int
    offset: int
    folder: bool | None = None


def grep_input(raw: Json) -> GrepInput:
    """Check the input of a call.

    Raises:
        InvalidToolInput: If it does not fit; the text names the field.
    """
    fields = check_input(_plain(raw), SCHEMA, tool="grep")
    mode = _MODES.get(given := fields.get("output_mode", "files_with_matches"))
    if mode is None:
        raise InvalidToolInput(
            f"grep: there is no output_mode {given!r}.", hint=f"Known: {', '.join(_MODES)}."
        )
    both: int = fields.get("context", 0)
    before: int = fields.get("before", both)
    after: int = fields.get("after", both)
    limit, offset = fields.get("head_limit", DEFAULT_LIMIT), fields.get("offset", 0)
    _at_most("head_limit", limit, MAX_LIMIT)
    _at_most("offset", offset, MAX_OFFSET)
    _at_most("context", max(before, after), MAX_CONTEXT)
    multiline = fields.get("multiline", False)
    expression = read_expression(fields["pattern"])
    if expression.newline and not multiline:
        raise InvalidToolInput(
            "grep: the pattern asks for a line feed, but is held against single lines.",
            hint="Set multiline to true.",
        )
    return GrepInput(
        target=Target(fields.get("path") or ".", existing=True),
        pattern=fields["pattern"],
        job=GrepJob(
            pattern=expression.text,
            mode=mode,
            before=before if mode == "content" else 0,
            after=after if mode == "content" else 0,
            ignore_case=fields.get("case_insensitive", False),
            multiline=multiline,
        ),
        glob=compile_glob(fields["glob"]) if fields.get("glob") else None,
        file_type=FileType(fields["type"]) if fields.get("type") else None,
        include_ignored=fields.get("include_ignored", False),
        limit=limit,
        offset=offset,
    )


def _plain(raw: Json) -> Json:
    """Return the input with the tool's own names of fields."""
    plain: Json = {}
    for given, value in raw.items():
        name = _SPELLINGS.get(given, given)
        if name in raw and name != given and raw[name] != value:
            raise InvalidToolInput(f"grep: {name!r} is given twice, differently.")
        plain[name] = value
    numbers = plain.pop(_NUMBERS, None)
    if numbers not in (None, True, "true"):
        raise InvalidToolInput("grep: lines are shown with their numbers always; leave out '-n'.")
    return plain


def _at_most(name: str, value: int, most: int) -> None:
    if value > most:
        raise InvalidToolInput(f"grep: {name!r} must be at most {most:,}, not {value:,}.")
