"""The tool ``grep``: where files say what matches a regular expression.

Which files are searched is decided here, by walking the folder; a program
(``grep_program``) then searches exactly these, some at a time and in order.
"""

import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.errors import ToolError
from agent_sdk.core.process import ProcessOwner
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
from agent_sdk.tools.file_walk import (
    MAX_FILES,
    MAX_SECONDS,
    Names,
    Walked,
    WalkedFile,
    WalkQuery,
    is_folder,
    walk,
)
from agent_sdk.tools.grep_input import SCHEMA, GrepInput, grep_input
from agent_sdk.tools.grep_output import GrepOutput, content_lines
from agent_sdk.tools.grep_program import find_ripgrep, python_command, ripgrep_command
from agent_sdk.tools.grep_search import (
    MAX_RESULTS,
    SearchEnd,
    is_text,
    run_search,
)
from agent_sdk.tools.own_thread import in_stoppable_thread
from agent_sdk.tools.path_text import portable, relative_to, visible
from agent_sdk.tools.paths import PathGuard, ResolvedPath, path_moved
from agent_sdk.tools.search_view import (
    NOTICES,
    ResultPage,
    page_of,
    too_large_notice,
    walk_notices,
)

MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file that is searched."""

MAX_SEARCH_SECONDS = 20.0
"""Time for all programs of one search; the walk before has its own."""

_DESCRIPTION = (
    "Search the contents of files with a regular expression. Returns the paths of files that"
    " match, or with output_mode 'content' the matching lines as path:line:text, or with 'count'"
    " how many lines match. Narrow it down with path, glob or type. Hidden files are searched;"
    " .git, binary files, files that may hold secrets, and what .gitignore and .ignore files"
    " leave out (unless include_ignored is true) are not. Use this instead of grep or rg in bash."
)


class GrepTool(Tool):
    """Searches files that ``guard`` resolves and ``may_read`` lets pass."""

    def __init__(
        self,
        *,
        guard: PathGuard,
        may_read: Callable[[str], bool],
        processes: ProcessOwner,
        environment: Mapping[str, str],
        ripgrep: str | None = None,
    ) -> None:
        """Make the tool.

        Args:
            guard: Resolves paths.
            may_read: Whether a file in a folder may be read without a
                question, by its portable real path; called on another thread.
            processes: Starts the programs; closed by whoever made it.
            environment: The programs' environment, see ``child_environment``.
            ripgrep: Absolute path of ripgrep; empty to do without it, None to
                look for it at the first search.
        """
        self._guard = guard
        self._may_read = may_read
        self._processes = processes
        self._environment = environment
        self._ripgrep = ripgrep

    @property
    @override
    def name(self) -> str:
        return "grep"

    @property
    @override
    def description(self) -> str:
        return _DESCRIPTION

    @property
    @override
    def parameters(self) -> Mapping[str, Any]:
        return SCHEMA

    @property
    @override
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(read_only=True, concurrent=True, side_effects="none")

    @override
    def parse(self, raw: Json) -> GrepInput:
        return grep_input(raw)

    @override
    def permissions(self, args: GrepInput, cwd: str) -> tuple[PermissionRequest, ...]:
        resolved = args.target.resolve(self._guard, cwd)
        try:
            args.folder = is_folder(resolved.real)
        except OSError:
            args.folder = False  # should it turn up as a file, that must be allowed, too
        return search_requests(resolved, "grep", folder=args.folder)

    @override
    async def execute(self, args: GrepInput, context: ToolContext) -> ToolResult:
        begun = time.monotonic()
        resolved = args.target.confirm(self._guard, context.cwd)
        try:
            scope = await in_stoppable_thread(
                lambda stop: self._scope(resolved, args, stop=stop), name="zpi-grep"
            )
        except OSError as error:
            raise explain(error, resolved) from error
        need = args.offset + args.limit
        output = GrepOutput(mode=args.job.mode, need=need, is_text=partial(is_text, scope.folder))
        end = await run_search(
            self._command(args, context.cwd),
            [file.path for file in scope.walked.files],
            processes=self._processes,
            environment=self._environment,
            folder=scope.folder,
            output=output,
            enough=max(MAX_RESULTS, need),
            seconds=MAX_SEARCH_SECONDS,
        )
        milliseconds = round((time.monotonic() - begun) * 1000)
        found = _Found(resolved, scope, output, end, milliseconds)
        return _result(args, found, context=context)

    def _command(self, args: GrepInput, cwd: str) -> tuple[str, ...]:
        if self._ripgrep is None:
            self._ripgrep = find_ripgrep(self._environment, project=cwd)
        if self._ripgrep:
            return ripgrep_command(self._ripgrep, args.job)
        return python_command(args.job)

    def _scope(self, resolved: ResolvedPath, args: GrepInput, *, stop: threading.Event) -> "_Scope":
        """Return the files to search; blocks, and so runs in a thread."""
        status = os.lstat(resolved.real)
        folder = stat.S_ISDIR(status.st_mode)
        if args.folder not in (None, folder):
            raise path_moved(resolved)
        if folder:
            parent = resolved.real
            walked = walk(self._query(resolved, args), stop)
        elif stat.S_ISREG(status.st_mode):
            parent, name = os.path.split(resolved.real)
            walked = Walked(files=[WalkedFile(name, status.st_size)])
        else:
            raise ToolError(f"'{resolved.shown}' is neither a folder nor a regular file.")
        large = [file.path for file in walked.files if file.size > MAX_FILE]
        walked.files = [file for file in walked.files if file.size <= MAX_FILE]
        return _Scope(parent, walked, large)

    def _query(self, resolved: ResolvedPath, args: GrepInput) -> WalkQuery:
        glob, kind = args.glob, args.file_type

        def wanted(names: Names) -> bool:
            return (kind is None or kind.covers(names[-1])) and (
                glob is None or glob.matches(names)
            )

        return WalkQuery(
            folder=resolved.real,
            session_root=resolved.root,
            wanted=wanted,
            enter=glob.may_contain if glob else lambda names: True,
            may_read=lambda path: not self._guard.secret(path) and self._may_read(path),
            ignored_too=args.include_ignored,
        )


class _Scope(Struct, frozen=True):
    """The files to search: their folder, what the walk found, and what is too large."""

    folder: str
    walked: Walked
    large: list[str]


class _Found(Struct, frozen=True):
    resolved: ResolvedPath
    scope: _Scope
    output: GrepOutput
    end: SearchEnd
    milliseconds: int


def _result(args: GrepInput, found: _Found, *, context: ToolContext) -> ToolResult:
    output, mode = found.output, args.job.mode
    lines = _lines(args, found, cwd=context.cwd)
    dropped = any(file.lines is None for file in output.files.values())
    around = bool(args.job.before or args.job.after)
    at_least = bool(found.end.cut) or (mode == "content" and dropped and around)
    page = page_of(
        lines,
        offset=args.offset,
        limit=args.limit,
        budget=max(output_limit(context.model) - NOTICES, 256),
        total=max(len(lines), output.results) if mode == "content" else None,
    )
    notices = [
        *page.notice("lines" if mode == "content" else "files", at_least=at_least),
        *_notices(args, found),
    ]
    none = [] if page.lines else [f"Nothing matches in '{found.resolved.shown}'."]
    return ToolResult(
        content="\n".join([*none, *page.lines, *notices]),
        details=_details(args, found, page=page, at_least=at_least),
    )


def _lines(args: GrepInput, found: _Found, *, cwd: str) -> list[str]:
    prefix = _prefix(found.scope.folder, cwd)
    if args.job.mode == "content":
        around = bool(args.job.before or args.job.after)
        return content_lines(found.output, prefix, context=around)
    names = ((visible(portable(prefix + path)), file) for path, file in found.output.in_order())
    if args.job.mode == "count":
        return [f"{name}:{file.matches}" for name, file in names]
    return [name for name, _ in names]


def _prefix(folder: str, cwd: str) -> str:
    """Return what comes before paths below a folder, so that they can be given to ``read``."""
    return "" if folder == cwd else (relative_to(folder, cwd) or portable(folder)).rstrip("/") + "/"


def _notices(args: GrepInput, found: _Found) -> list[str]:
    notices = walk_notices(found.scope.walked, max_entries=MAX_FILES, seconds=MAX_SECONDS)
    notices += too_large_notice(found.scope.large, limit=MAX_FILE)
    if found.end.cut == "time":
        notices.append(
            f"[Not all files were searched: {MAX_SEARCH_SECONDS:g} seconds were over."
            " Name a smaller folder in path, or use a simpler pattern.]"
        )
    elif found.end.cut == "enough":
        notices.append("[Not all files were searched: there were enough results before.]")
    if found.end.unreadable:
        notices.append("[Some files could not be opened.]")
    if found.output.binary:
        notices.append(f"[{found.output.binary:,} binary files that match are left out.]")
    if found.output.too_long:
        notices.append(f"[{found.output.too_long:,} lines are too long to be shown.]")
    full = [p for p, f in found.output.files.items() if f.matches >= args.job.most]
    if full and args.job.mode != "files":
        notices.append(
            f"[{len(full):,} files have {args.job.most:,} matching lines or more; only"
            " these were looked at.]"
        )
    return notices


def _details(args: GrepInput, found: _Found, *, page: ResultPage, at_least: bool) -> Json:
    files = found.output.files
    return {
        "mode": args.job.mode,
        "durationMs": found.milliseconds,
        "numFiles": len(files),
        "numMatches": sum(file.matches for file in files.values()),
        "numLines": len(page.lines),
        "truncated": len(page.lines) < page.total or at_least,
    }
