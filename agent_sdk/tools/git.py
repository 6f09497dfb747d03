"""The tools ``git_status``, ``git_diff`` and ``git_log``: looking at a repository.

What git is not allowed to do meanwhile is in ``git_run``.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import PermissionRequest, ToolContext, ToolMetadata, ToolResult
from agent_sdk.providers.messages import Json
from agent_sdk.tools.artifacts import bound_text, output_limit
from agent_sdk.tools.file_requests import requests_for
from agent_sdk.tools.git_parse import LOG_FORMAT, NumStat, parse_log, parse_numstat
from agent_sdk.tools.git_place import Place, find_place, path_in, requests_for_place
from agent_sdk.tools.git_repository import Repository, failure, open_repository
from agent_sdk.tools.git_run import Git
from agent_sdk.tools.git_view import show_log, show_numstat, show_status, status_details
from agent_sdk.tools.inputs import check_input
from agent_sdk.tools.path_text import portable
from agent_sdk.tools.paths import PathGuard, Target

DEFAULT_COMMITS = 20
MAX_COMMITS = 200

_MAX_ARGUMENTS = 24_000
"""Bytes of paths on one command line; Windows takes 32 KiB for all of it."""

_READ_ONLY = ToolMetadata(read_only=True, concurrent=True, side_effects="none")

DIRECTORY: Mapping[str, Any] = {
    "type": "string",
    "description": "A folder in the repository; the working folder if left out.",
}
_PATH: Mapping[str, Any] = {"type": "string", "description": "Only this file or folder."}


class GitParts(Struct, frozen=True, kw_only=True):
    """What the git tools of a session share.

    Attributes:
        guard: Resolves paths.
        processes: Starts git; closed by whoever made it.
        environment: Without secrets, see ``child_environment``.
        may_read: Whether a file may be read without a question, by its
            portable real path; what others contain is shown only by name.
        artifacts: Folder for output that is too long; None saves none.
    """

    guard: PathGuard
    processes: ProcessOwner
    environment: Mapping[str, str]
    may_read: Callable[[str], bool]
    artifacts: str | Path | None = None


class GitInput(Struct, frozen=True, kw_only=True):
    """Checked input of a tool that looks.

    Attributes:
        directory: Where the repository is looked for.
        path: What to look at; None for everything.
        staged: Whether what is staged is compared.
        limit: Most commits.
    """

    directory: Target
    path: Target | None = None
    staged: bool = False
    limit: int = DEFAULT_COMMITS


class _Looking:
    """What the three tools have in common."""

    name: ClassVar[str]
    verb: ClassVar[str]
    parameters: ClassVar[Mapping[str, Any]]
    metadata = _READ_ONLY

    def __init__(self, *, parts: GitParts) -> None:
        self._parts = parts
        self._git = Git(processes=parts.processes, environment=parts.environment)

    def parse(self, raw: Json) -> GitInput:
        """Check the input.

        Raises:
            InvalidToolInput: If a field is unknown or of another type.
        """
        fields = check_input(raw, self.parameters, tool=self.name)
        limit = fields.get("limit", DEFAULT_COMMITS)
        if limit > MAX_COMMITS:
            raise InvalidToolInput(
                f"{self.name}: 'limit' must be at most {MAX_COMMITS}, not {limit}."
            )
        path = fields.get("path")
        return GitInput(
            directory=Target(fields.get("directory", "."), existing=True),
            path=None if path is None else Target(path, existing=False),
            staged=fields.get("staged", False),
            limit=limit,
        )

    def permissions(self, args: GitInput, cwd: str) -> tuple[PermissionRequest, ...]:
        """Return what it needs: to look at this repository."""
        place = find_place(args.directory, self._parts.guard, cwd)
        return requests_for_place(place, "git_read", self.verb)

    async def _open(self, args: GitInput, context: ToolContext) -> Repository:
        place = find_place(args.directory, self._parts.guard, context.cwd)
        return await open_repository(self._git, place)

    def _path(self, args: GitInput, place: Place) -> str:
        """Return what to look at, relative to the root; empty if nothing was named."""
        if args.path is None:
            return ""
        return path_in(place, args.path.resolve(self._parts.guard, place.cwd))

    def _bounded(self, text: str, context: ToolContext) -> str:
        bound = bound_text(
            text,
            limit=output_limit(context.model),
            folder=self._parts.artifacts,
            name=self.name,
        )
        return bound.text


class GitStatusTool(_Looking):
    """Shows what has changed in the work tree."""

    name = "git_status"
    verb = "Look at the git status of"
    description = (
        "Show the state of the git repository: branch, commits ahead and behind, and the files"
        " that are staged, changed, untracked or in conflict."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"directory": DIRECTORY},
        "required": [],
        "additionalProperties": False,
    }

    async def execute(self, args: GitInput, context: ToolContext) -> ToolResult:
        """Show it.

        Raises:
            ToolError: If there is no usable repository.
        """
        repository = await self._open(args, context)
        status = await repository.status()
        text = show_status(status, place=repository.place, filters=repository.filters)
        details = {"repository": portable(repository.place.root), **status_details(status)}
        return ToolResult(content=self._bounded(text, context), details=details)


class GitLogTool(_Looking):
    """Shows the last commits."""

    name = "git_log"
    verb = "Look at the git history of"
    description = "Show the last commits of the current branch, the newest first."
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_COMMITS,
                "description": f"Most commits; {DEFAULT_COMMITS} if left out.",
            },
            "path": {"type": "string", "description": "Only commits that touch this path."},
            "directory": DIRECTORY,
        },
        "required": [],
        "additionalProperties": False,
    }

    async def execute(self, args: GitInput, context: ToolContext) -> ToolResult:
        """Show it.

        Raises:
            ToolError: If there is no usable repository.
        """
        repository = await self._open(args, context)
        path = self._path(args, repository.place)
        done = await repository.run(
            *("log", "-z", "--no-color", "--no-show-signature", "--no-ext-diff", "--no-patch"),
            *(f"--max-count={args.limit + 1}", f"--format={LOG_FORMAT}", "HEAD", "--"),
            *([path] if path else []),
        )
        if done.code and not await _has_commits(repository):
            return ToolResult(content="The repository has no commits yet.", details={"commits": []})
        if done.code:
            raise failure("log", done)
        commits = parse_log(done.out)
        more = len(commits) > args.limit
        commits = commits[: args.limit]
        details: Json = {
            "repository": portable(repository.place.root),
            "commits": [
                {"sha": c.sha, "author": c.author, "date": c.date, "subject": c.subject}
                for c in commits
            ],
        }
        text = show_log(commits, path=path, more=more)
        return ToolResult(content=self._bounded(text, context), details=details)


async def _has_commits(repository: Repository) -> bool:
    done = await repository.run("rev-parse", "--verify", "--quiet", "HEAD")
    return done.code == 0


class GitDiffTool(_Looking):
    """Shows what has changed in files."""

    name = "git_diff"
    verb = "Look at the git diff of"
    description = (
        "Show what has changed since the last staging, or with staged what the next commit would"
        " contain: a summary with added and deleted lines, then the diff. Untracked files are not"
        " in it."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "staged": {
                "type": "boolean",
                "description": "What is staged, against the last commit; false if left out.",
            },
            "path": _PATH,
            "directory": DIRECTORY,
        },
        "required": [],
        "additionalProperties": False,
    }

    @override
    def permissions(self, args: GitInput, cwd: str) -> tuple[PermissionRequest, ...]:
        """Return what it needs; for a single path also to read that."""
        requests = super().permissions(args, cwd)
        if args.path is None:
            return requests
        return (*requests, *requests_for(args.path.resolve(self._parts.guard, cwd), "read"))

    async def execute(self, args: GitInput, context: ToolContext) -> ToolResult:
        """Show it.

        Raises:
            ToolError: If there is no usable repository, or the path is not in it.
        """
        repository = await self._open(args, context)
        path = self._path(args, repository.place)
        if args.path is not None:
            args.path.confirm(self._parts.guard, context.cwd)
        common = ("--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
        which = ("diff", *common, "--find-renames", *(["--cached"] if args.staged else []))
        wanted = path or repository.place.scope_path
        stats = parse_numstat(await repository.read(*which, "--numstat", "-z", "--", wanted))
        shown, hidden = self._readable(repository, stats, asked=path)
        details: Json = {
            "repository": portable(repository.place.root),
            "staged": args.staged,
            "files": [
                {"path": portable(s.path), "added": s.added, "deleted": s.deleted} for s in stats
            ],
        }
        if not stats:
            text = await self._nothing(repository, args, path)
            return ToolResult(content=text, details=details)
        text = show_numstat(stats, hidden=hidden)
        if shown:
            names = [name for stat in shown for name in (stat.origin, stat.path) if name]
            done = await repository.run(*which, "--submodule=short", "--", *names)
            if done.code and not done.cut:
                raise failure("diff", done)
            text += "\n" + done.out.decode("utf-8", "replace")
            if done.cut:
                text += "\n[… the diff goes on; name a single path to see the rest …]\n"
        return ToolResult(content=self._bounded(text, context), details=details)

    def _readable(
        self, repository: Repository, stats: Sequence[NumStat], *, asked: str
    ) -> tuple[list[NumStat], list[NumStat]]:
        """Split files in those whose contents may be shown and others."""
        shown: list[NumStat] = []
        hidden: list[NumStat] = []
        room = _MAX_ARGUMENTS
        for stat in stats:
            names = [name for name in (stat.origin, stat.path) if name]
            room -= sum(len(name.encode("utf-8", "surrogateescape")) + 1 for name in names)
            free = all(name == asked or self._free(repository, name) for name in names)
            (shown if free and room > 0 else hidden).append(stat)
        return shown, hidden

    def _free(self, repository: Repository, name: str) -> bool:
        path = repository.absolute(name)
        return not self._parts.guard.secret(path) and self._parts.may_read(portable(path))

    async def _nothing(self, repository: Repository, args: GitInput, path: str) -> str:
        where = f" in '{path}'" if path else ""
        if path and not await repository.files_below(path):
            raise ToolError(
                f"git does not know '{path}' yet, so there is nothing to compare it with.",
                hint="Read it; git_status lists untracked files.",
            )
        if args.staged:
            return f"Nothing is staged{where}."
        return f"Nothing has changed{where} that is not staged. For what is, set staged."
