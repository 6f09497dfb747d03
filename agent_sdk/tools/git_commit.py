"""The tool ``git_commit``.

It makes the commit that was asked for and nothing else: no hook, no signature,
no filter and no editor is run (see ``git_run``), and what that means for the
commit is said. Everything that would make git fail half-way is looked at first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.loop.types import PermissionRequest, ToolContext, ToolMetadata, ToolResult
from agent_sdk.providers.messages import Json
from agent_sdk.tools.git import DIRECTORY, GitParts
from agent_sdk.tools.git_parse import GitStatus, last_value
from agent_sdk.tools.git_place import find_place, path_in, requests_for_place, under_way
from agent_sdk.tools.git_repository import Repository, failure, open_repository
from agent_sdk.tools.git_run import WRITE_SECONDS, Git, GitOutput
from agent_sdk.tools.inputs import check_input
from agent_sdk.tools.path_text import portable, visible
from agent_sdk.tools.paths import Target

MAX_MESSAGE = 64 * 1024
"""Most bytes of a message."""

MAX_PATHS = 200

_SHOWN = 20

_DESCRIPTION = """\
Commit to the git repository. Say what to commit in exactly one way: paths (these files, new ones \
too, whatever else is staged), add_all (everything that changed), or staged (what is staged). \
Commit hooks are not run, and the commit is not signed; use bash if they must be."""

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "The commit message."},
        "paths": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Commit these files or folders only.",
        },
        "add_all": {"type": "boolean", "description": "Commit everything that has changed."},
        "staged": {"type": "boolean", "description": "Commit what is staged, as it is staged."},
        "directory": DIRECTORY,
    },
    "required": ["message"],
    "additionalProperties": False,
}


class CommitInput(Struct, frozen=True, kw_only=True):
    """Checked input: what to commit, in one of three ways, and the message."""

    message: str
    directory: Target
    paths: tuple[Target, ...] = ()
    add_all: bool = False


class GitCommitTool:
    """Makes commits."""

    name: ClassVar[str] = "git_commit"
    description: ClassVar[str] = _DESCRIPTION
    parameters: ClassVar[Mapping[str, Any]] = _PARAMETERS
    metadata: ClassVar[ToolMetadata] = ToolMetadata(destructive=True, side_effects="git")

    def __init__(self, *, parts: GitParts) -> None:
        self._parts = parts
        self._git = Git(processes=parts.processes, environment=parts.environment)

    def parse(self, raw: Json) -> CommitInput:
        """Check the input.

        Raises:
            InvalidToolInput: If the message is empty, or what to commit is
                not said in exactly one way.
        """
        fields = check_input(raw, _PARAMETERS, tool=self.name)
        paths = fields.get("paths")
        ways = [paths is not None, fields.get("add_all", False), fields.get("staged", False)]
        if sum(ways) != 1:
            said = "none of these" if not any(ways) else "more than one"
            raise InvalidToolInput(
                f"git_commit: say what to commit by paths, add_all or staged; there is {said}.",
                hint="Give paths to commit some files, set add_all for everything that changed,"
                " or staged for what git add has been called with.",
            )
        return CommitInput(
            message=_message(fields["message"]),
            directory=Target(fields.get("directory", "."), existing=True),
            paths=_targets(paths),
            add_all=fields.get("add_all", False),
        )

    def permissions(self, args: CommitInput, cwd: str) -> tuple[PermissionRequest, ...]:
        """Return what it needs: to write to this repository."""
        place = find_place(args.directory, self._parts.guard, cwd)
        return requests_for_place(place, "git_write", "Commit to")

    async def execute(self, args: CommitInput, context: ToolContext) -> ToolResult:
        """Make the commit.

        Raises:
            ToolError: If there is nothing to commit, the repository is not in
                a state for it, or git refuses.
        """
        place = find_place(args.directory, self._parts.guard, context.cwd)
        repository = await open_repository(self._git, place)
        guard = self._parts.guard
        paths = [path_in(place, target.resolve(guard, context.cwd)) for target in args.paths]
        scope = paths or ([place.scope_path] if args.add_all else ["."])
        status = await repository.status(*scope, untracked="all")
        whole = status if scope == ["."] else await repository.status(".", untracked="no")
        _check_state(whole, under_way(repository.data), partial=bool(paths))
        identity = _identity(repository)
        if paths or args.add_all:
            await _check_files(repository, status, named=paths)
            if args.add_all:
                self._check_secrets(repository, status)
        elif not status.staged:
            raise ToolError(
                "Nothing is staged, so there is nothing to commit.",
                hint="Give paths, or set add_all." if _changed(status) else "Nothing has changed.",
            )
        if args.add_all:
            await _do(repository, "add", "--all", "--", place.scope_path)
        work = _Commit(repository, args.message, identity)
        await work.make(paths, new=[path for path in status.untracked if paths])
        return await _result(repository, whole)

    def _check_secrets(self, repository: Repository, status: GitStatus) -> None:
        """Refuse to sweep up new files that by their name hold secrets."""
        guard = self._parts.guard
        found = [
            path
            for path in status.untracked
            if _env(path) or guard.secret(repository.absolute(path))
        ]
        if found:
            raise ToolError(
                f"add_all would add {_names(found)}, which by the name holds secrets;"
                " nothing was committed.",
                hint="Put it in .gitignore, or name what to commit in paths.",
            )


class _Commit:
    """One commit, once everything has been looked at."""

    def __init__(self, repository: Repository, message: str, identity: Mapping[str, str]) -> None:
        self._repository = repository
        self._message = message
        self._identity = identity

    async def make(self, paths: Sequence[str], *, new: Sequence[str]) -> None:
        """Make it; new files that are named are made known first, and forgotten if it fails."""
        try:
            if new:
                await _do(self._repository, "add", "--intent-to-add", "--", *new)
            await self._make(paths)
        except BaseException:
            if new:
                await self._repository.run("reset", "--quiet", "--", *new)
            raise

    async def _make(self, paths: Sequence[str]) -> None:
        done = await self._repository.run(
            *("commit", "--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace"),
            *("--file=-", *(("--only", "--", *paths) if paths else ())),
            stdin=self._message.encode(),
            extra=self._identity,
            seconds=WRITE_SECONDS,
        )
        if done.code == 0:
            return
        text = f"{done.out.decode(errors='replace')} {done.error}"
        if "nothing to commit" in text or "nothing added to commit" in text:
            raise ToolError("There is nothing to commit: all of it is committed already.")
        raise failure("commit", _merged(done))


def _merged(done: GitOutput) -> GitOutput:
    return GitOutput(done.code, b"", done.error or done.out.decode("utf-8", "replace"))


async def _do(repository: Repository, *argv: str) -> None:
    done = await repository.run(*argv, seconds=WRITE_SECONDS)
    if done.code and "ignored by one of your .gitignore" in done.error:
        raise ToolError(
            "Some of these files are ignored by .gitignore; nothing was committed.",
            hint="Leave them out, or use git add -f in bash if the user wants them.",
        )
    if done.code:
        raise failure(argv[0], done)


def _message(text: str) -> str:
    message = text.strip()
    if not message or "\0" in message:
        raise InvalidToolInput("git_commit: 'message' must not be empty or hold NUL characters.")
    try:
        size = len(message.encode())
    except UnicodeEncodeError:
        raise InvalidToolInput("git_commit: 'message' is not valid Unicode.") from None
    if size > MAX_MESSAGE:
        raise InvalidToolInput(f"git_commit: 'message' is longer than {MAX_MESSAGE} bytes.")
    return message + "\n"


def _targets(paths: list[Any] | None) -> tuple[Target, ...]:
    if paths is None:
        return ()
    if not paths or len(paths) > MAX_PATHS or not all(isinstance(p, str) and p for p in paths):
        raise InvalidToolInput(
            f"git_commit: 'paths' must be a list of 1 to {MAX_PATHS} paths.",
            hint="To commit everything that has changed, set add_all.",
        )
    return tuple(Target(path, existing=False) for path in paths)


def _check_state(status: GitStatus, opened: str, *, partial: bool) -> None:
    if status.conflicts:
        raise ToolError(
            f"There are unresolved conflicts in {_names(status.conflicts)}.",
            hint="Edit these files until no conflict marks are left, then git add them in bash.",
        )
    if opened == "rebase":
        raise ToolError(
            "A rebase is under way, in which commits are made by git itself.",
            hint="Go on with git rebase --continue in bash, or give up with --abort.",
        )
    if opened and partial:
        raise ToolError(
            f"A {opened} is under way; it can only be committed as a whole, not by paths.",
            hint="Use staged, or add_all.",
        )
    if not status.branch:
        raise ToolError(
            "HEAD is detached, so the commit would belong to no branch and be lost later.",
            hint="Make a branch first, with git switch -c NAME in bash.",
        )


def _identity(repository: Repository) -> dict[str, str]:
    name, mail = (last_value(repository.settings, f"user.{key}") for key in ("name", "email"))
    if not name or not mail:
        missing = "name" if not name else "e-mail address"
        raise ToolError(
            f"git does not know the {missing} to commit under.",
            hint="The user can set both with git config --global user.name and user.email.",
        )
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": mail,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": mail,
    }


async def _check_files(repository: Repository, status: GitStatus, *, named: Sequence[str]) -> None:
    """Refuse when nothing changed, or a file would be stored otherwise than it should be."""
    if not _changed(status):
        raise ToolError(
            "Nothing has changed" + (f" in {_names(named)}" if named else "") + ".",
            hint="See git_status; ignored files are not committed.",
        )
    changed = [*(entry.path for entry in status.unstaged), *status.untracked]
    filtered = await repository.filtered(changed)
    if filtered:
        path, name = next(iter(filtered.items()))
        raise ToolError(
            f"'{visible(path)}' is to be stored through the filter '{visible(name)}', which this"
            " tool does not run.",
            hint="Use git add in bash for such files, then commit with staged.",
        )


def _changed(status: GitStatus) -> bool:
    return bool(status.staged or status.unstaged or status.untracked)


def _env(path: str) -> bool:
    name = path.rpartition("/")[2].casefold()
    return name.endswith(".env") or ".env." in name


def _names(paths: Sequence[str]) -> str:
    shown = ", ".join(f"'{visible(path)}'" for path in paths[:5])
    return shown + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")


async def _result(repository: Repository, status: GitStatus) -> ToolResult:
    head = await repository.read("rev-parse", "HEAD")
    sha = head.decode().strip()
    data = await repository.read(
        *("diff-tree", "-r", "-z", "--root", "--no-commit-id", "--name-only", "HEAD")
    )
    files = [name.decode("utf-8", "surrogateescape") for name in data.split(b"\0") if name]
    shown = [f"  {visible(path)}" for path in files[:_SHOWN]]
    if len(files) > _SHOWN:
        shown.append(f"  … and {len(files) - _SHOWN} more")
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    lines = [f"Committed {sha[:10]} to {visible(status.branch)}: {count}.", *shown]
    hooks = repository.hooks()
    if hooks:
        lines.append(f"The repository's hooks were not run: {', '.join(hooks)}.")
    if repository.signs:
        lines.append("The commit is not signed, though the settings ask for signatures.")
    details: Json = {
        "repository": portable(repository.place.root),
        "commit": sha,
        "branch": status.branch,
        "files": [portable(path) for path in files[:1_000]],
        "hooksNotRun": hooks,
    }
    return ToolResult(content="\n".join(lines), details=details)
