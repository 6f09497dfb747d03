"""A repository that git has agreed to work on, for the git tools."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_sdk.core.errors import ToolError
from agent_sdk.tools.git_parse import (
    GitStatus,
    Setting,
    filter_names,
    is_true,
    last_value,
    parse_attributes,
    parse_names,
    parse_status,
)
from agent_sdk.tools.git_place import Place, absolute
from agent_sdk.tools.git_run import READ_SECONDS, Git, GitOutput
from agent_sdk.tools.path_text import visible

_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
_SAID = 400


class Repository:
    """An opened repository; see ``open_repository``.

    Attributes:
        place: Where it is.
        data: Real path of the folder that holds its data, of this work tree.
        common: The same for what all its work trees share.
        settings: Its configuration, the user's own included.
    """

    def __init__(
        self, git: Git, place: Place, *, data: str, common: str, settings: Sequence[Setting]
    ) -> None:
        self.place = place
        self.data = data
        self.common = common
        self.settings = settings
        self._git = git

    async def run(
        self,
        *argv: str,
        stdin: bytes | None = None,
        extra: Mapping[str, str] | None = None,
        seconds: float = READ_SECONDS,
    ) -> GitOutput:
        """Run a command, whatever comes of it; reading takes no locks."""
        return await self._git.run(
            self.place.root,
            argv,
            settings=self.settings,
            extra={"GIT_OPTIONAL_LOCKS": "0", **(extra or {})},
            stdin=stdin,
            seconds=seconds,
        )

    async def read(self, *argv: str, stdin: bytes | None = None) -> bytes:
        """Return what a command writes.

        Raises:
            ToolError: If it fails, or writes more than is taken.
        """
        done = await self.run(*argv, stdin=stdin)
        if done.cut:
            raise ToolError(
                f"git {argv[0]} has more to say than can be taken.", hint="Name a single path."
            )
        if done.code:
            raise failure(argv[0], done)
        return done.out

    async def status(self, *paths: str, untracked: str = "normal") -> GitStatus:
        """Return the state of the work tree, or of some paths in it."""
        data = await self.read(
            *("status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules=dirty"),
            *(f"--untracked-files={untracked}", "--find-renames", "--"),
            *(paths or (self.place.scope_path,)),
        )
        return parse_status(data)

    async def filtered(self, paths: Sequence[str]) -> dict[str, str]:
        """Return by path the filter through which a file is to be stored, where there is one."""
        names = set(filter_names(self.settings))
        if not names or not paths:
            return {}
        stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
        found = parse_attributes(
            await self.read("check-attr", "-z", "--stdin", "filter", stdin=stdin)
        )
        return {path: name for path, name in found.items() if name in names}

    async def files_below(self, *paths: str) -> tuple[str, ...]:
        """Return the files that git knows below some paths."""
        return parse_names(await self.read("ls-files", "-z", "--", *paths))

    @property
    def filters(self) -> bool:
        """Whether files may be stored otherwise than they are in the work tree."""
        return bool(filter_names(self.settings))

    @property
    def signs(self) -> bool:
        """Whether commits are meant to be signed."""
        return is_true(last_value(self.settings, "commit.gpgsign"))

    def hooks(self) -> list[str]:
        """Return the names of the hooks that a commit would have run."""
        folder = last_value(self.settings, "core.hookspath")
        path = Path(self.place.root, folder) if folder else Path(self.common, "hooks")
        return [name for name in _HOOKS if os.access(path / name, os.X_OK)]

    def absolute(self, path: str) -> str:
        """Return the real path of a file that git names."""
        return absolute(path, self.place.root)


async def open_repository(git: Git, place: Place) -> Repository:
    """Return the repository, if git takes it for the one that was found.

    Raises:
        ToolError: If it does not.
    """
    settings = await git.settings(place.root)
    argv = ("rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    done = await git.run(place.root, argv, settings=settings)
    if done.code and "dubious ownership" in done.error:
        raise ToolError(
            f"The repository '{place.shown}' belongs to another user, so git refuses it.",
            hint="If the user trusts it, they can run: git config --global --add safe.directory"
            f" {place.shown}",
        )
    lines = done.out.decode("utf-8", "surrogateescape").split("\n")
    if done.code or len(lines) < 3 or not _same(lines[0], place.root):
        raise ToolError(
            f"'{place.shown}' has a .git, but git does not take it for a repository with files"
            f" there{_reason(done)}.",
            hint="See what is wrong with git status in bash.",
        )
    data, common = (_real(place.root, line) for line in lines[1:3])
    return Repository(git, place, data=data, common=common, settings=settings)


def failure(command: str, done: GitOutput) -> ToolError:
    """Return the error for a command that failed."""
    if "index.lock" in done.error:
        return ToolError(
            "Another git is at work in this repository (index.lock exists).",
            hint="Try again; if it stays, nobody is at work and the file was left behind.",
        )
    return ToolError(f"git {command} failed with exit code {done.code}{_reason(done)}.")


def _reason(done: GitOutput) -> str:
    said = visible(" ".join(done.error.split()))[:_SAID].rstrip(".")
    return f": {said}" if said else ""


def _real(root: str, path: str) -> str:
    return os.path.realpath(Path(root, path))


def _same(one: str, other: str) -> bool:
    return os.path.normcase(os.path.realpath(one)) == os.path.normcase(other)
