"""The tool ``glob``: which files there are, by a pattern for their paths."""

import os
import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.loop.types import (
    PermissionRequest,
    Tool,
    ToolContext,
    ToolMetadata,
    ToolResult,
)
from agent_sdk.providers.messages import Json
from agent_sdk.tools.artifacts import output_limit
from agent_sdk.tools.file_errors import explain
from agent_sdk.tools.file_requests import search_requests
from agent_sdk.tools.file_walk import MAX_FILES, MAX_SECONDS, Walked, WalkQuery, is_folder, walk
from agent_sdk.tools.globs import PathGlob, compile_glob
from agent_sdk.tools.inputs import check_input
from agent_sdk.tools.own_thread import in_stoppable_thread
from agent_sdk.tools.path_text import portable, relative_to, visible
from agent_sdk.tools.paths import PathGuard, ResolvedPath, Target
from agent_sdk.tools.search_view import NOTICES, ResultPage, page_of, walk_notices

DEFAULT_LIMIT = 200
MAX_LIMIT = 10_000
"""Most files that one call returns."""

_DESCRIPTION = (
    "Find files by a pattern for their paths, such as '**/*.py', 'src/**/test_*.ts' or"
    " '*.{yml,yaml}'. '*' and '?' stay within a name, '**' stands for any folders; a pattern"
    " without '/' is about names in every folder, './*.py' only in the folder itself. Returns"
    " paths in alphabetical order. Hidden files are found; .git and what .gitignore and .ignore"
    " files leave out are not, unless include_ignored is true; links to folders are not followed."
)

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "description": "The pattern, relative to path."},
        "path": {
            "type": "string",
            "description": "The folder to look in; the working folder if left out.",
        },
        "include_ignored": {
            "type": "boolean",
            "description": "Find also what ignore files leave out.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": f"Most paths to return; {DEFAULT_LIMIT} if left out.",
        },
        "offset": {"type": "integer", "minimum": 0, "description": "Paths to skip first."},
    },
    "required": ["pattern"],
    "additionalProperties": False,
}


class GlobInput(Struct):
    """Checked input: which files of which folder."""

    target: Target
    pattern: str
    glob: PathGlob
    include_ignored: bool
    limit: int
    offset: int


class GlobTool(Tool):
    """Finds files in folders that ``guard`` resolves."""

    def __init__(self, *, guard: PathGuard) -> None:
        self._guard = guard

    @property
    @override
    def name(self) -> str:
        return "glob"

    @property
    @override
    def description(self) -> str:
        return _DESCRIPTION

    @property
    @override
    def parameters(self) -> Mapping[str, Any]:
        return _SCHEMA

    @property
    @override
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(read_only=True, concurrent=True, side_effects="none")

    @override
    def parse(self, raw: Json) -> GlobInput:
        fields = check_input(raw, _SCHEMA, tool="glob")
        folder, pattern = split_pattern(fields["pattern"], fields.get("path"))
        limit = fields.get("limit", DEFAULT_LIMIT)
        if limit > MAX_LIMIT:
            raise InvalidToolInput(f"glob: 'limit' must be at most {MAX_LIMIT}, not {limit}.")
        return GlobInput(
            target=Target(folder, existing=True),
            pattern=pattern,
            glob=compile_glob(pattern),
            include_ignored=fields.get("include_ignored", False),
            limit=limit,
            offset=fields.get("offset", 0),
        )

    @override
    def permissions(self, args: GlobInput, cwd: str) -> tuple[PermissionRequest, ...]:
        return search_requests(args.target.resolve(self._guard, cwd), "glob", folder=True)

    @override
    async def execute(self, args: GlobInput, context: ToolContext) -> ToolResult:
        resolved = args.target.confirm(self._guard, context.cwd)
        begun = time.monotonic()
        query = WalkQuery(
            folder=resolved.real,
            session_root=resolved.root,
            wanted=args.glob.matches,
            enter=args.glob.may_contain,
            ignored_too=args.include_ignored,
        )
        try:
            found = await in_stoppable_thread(
                lambda stop: walk(query, stop) if is_folder(resolved.real) else None,
                name="zpi-glob",
            )
        except OSError as error:
            raise explain(error, resolved) from error
        if found is None:
            raise ToolError(
                f"'{resolved.shown}' is no folder.", hint="Name the folder in path, or use read."
            )
        return _result(resolved, args, found, context=context, begun=begun)


def split_pattern(pattern: str, path: str | None) -> tuple[str, str]:
    """Return the folder and the pattern in it, for a pattern that may be absolute.

    Args:
        pattern: As the model wrote it.
        path: The folder that it named; None for the working folder.

    Raises:
        InvalidToolInput: If the pattern leads elsewhere than below the folder.
    """
    plain = pattern.replace("\\", "/") if os.name == "nt" else pattern
    absolute = plain.startswith(("/", "~/")) or (os.name == "nt" and plain[1:2] == ":")
    if absolute and path is None:
        names = plain.split("/")
        wild = next(
            (at for at, name in enumerate(names) if set(name) & set("*?[{\\")), len(names) - 1
        )
        path, plain = "/".join(names[:wild]) or "/", "/".join(names[wild:])
        plain = plain if "/" in plain else f"./{plain}"
    elif absolute or ".." in plain.split("/"):
        raise InvalidToolInput(
            f"glob: the pattern {pattern!r} leads out of the folder.",
            hint="Name the folder in path, and give the pattern relative to it.",
        )
    return path or ".", plain


def _result(
    resolved: ResolvedPath, args: GlobInput, found: Walked, *, context: ToolContext, begun: float
) -> ToolResult:
    prefix = "" if resolved.real == context.cwd else _prefix(resolved.real, context.cwd)
    lines = [visible(portable(prefix + file.path)) for file in found.files]
    page = page_of(
        lines,
        offset=args.offset,
        limit=args.limit,
        budget=max(output_limit(context.model) - NOTICES, 256),
    )
    notices = [
        *page.notice("files"),
        *walk_notices(found, max_entries=MAX_FILES, seconds=MAX_SECONDS),
    ]
    none = [] if page.lines else [f"No file matches {args.pattern!r} in '{resolved.shown}'."]
    return ToolResult(
        content="\n".join([*none, *page.lines, *notices]),
        details=_details(page, found, round((time.monotonic() - begun) * 1000)),
    )


def _prefix(real: str, cwd: str) -> str:
    """Return what comes before paths below a folder, so that they can be given to ``read``."""
    return (relative_to(real, cwd) or portable(real)).rstrip("/") + "/"


def _details(page: ResultPage, found: Walked, milliseconds: int) -> Json:
    return {
        "durationMs": milliseconds,
        "numFiles": page.total,
        "filenames": list(page.lines),
        "truncated": len(page.lines) < page.total or bool(found.cut),
    }
