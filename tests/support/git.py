"""A git repository, made with plain git, and the git tools on it."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.environment import child_environment
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import PermissionRequest, Tool, ToolContext, ToolResult
from agent_sdk.tools.git import GitDiffTool, GitLogTool, GitParts, GitStatusTool
from agent_sdk.tools.git_commit import GitCommitTool
from agent_sdk.tools.paths import PathGuard
from agent_sdk.tools.protected import load_protected
from tests.support.file_tools import MODEL


class GitBench:
    """The git tools of a session in a folder, and git itself.

    Attributes:
        home: The user's home folder, with a ``.gitconfig`` that has an identity.
        processes: Starts git for the tools.
    """

    def __init__(
        self,
        folder: Path,
        home: Path,
        owner: ProcessOwner,
        *,
        roots: tuple[str, ...] = (),
        may_read: Callable[[str], bool] = lambda path: True,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.home = home
        self.processes = owner
        self.environment = {
            **child_environment(os.environ if environ is None else environ),
            "HOME": str(home),
            "USERPROFILE": str(home),
        }
        parts = GitParts(
            guard=PathGuard(protected=load_protected(), home=str(home), roots=roots),
            processes=owner,
            environment=self.environment,
            may_read=may_read,
        )
        tools: tuple[Tool, ...] = (
            GitStatusTool(parts=parts),
            GitDiffTool(parts=parts),
            GitLogTool(parts=parts),
            GitCommitTool(parts=parts),
        )
        self.tools = {tool.name: tool for tool in tools}

    def git(self, *argv: str, cwd: str | Path = "") -> str:
        """Run git as the user would, and expect that it succeeds."""
        done = self.attempt(*argv, cwd=cwd)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="surrogateescape")

    def attempt(self, *argv: str, cwd: str | Path = "") -> "subprocess.CompletedProcess[bytes]":
        """Run git as the user would, whatever comes of it."""
        return subprocess.run(
            ["git", *argv],
            cwd=self.folder / cwd,
            env={**self.environment, "LC_ALL": "C"},
            capture_output=True,
            check=False,
        )

    def put(self, name: str, data: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def prepare(self, tool: str, **raw: Any) -> tuple[Any, tuple[PermissionRequest, ...]]:
        args = self.tools[tool].parse(raw)
        return args, self.tools[tool].permissions(args, str(self.folder))

    async def call(self, tool: str, **raw: Any) -> ToolResult:
        args, _ = self.prepare(tool, **raw)
        return await self.tools[tool].execute(args, self.context())

    async def text(self, tool: str, **raw: Any) -> str:
        return str((await self.call(tool, **raw)).content)

    def context(self) -> ToolContext:
        return ToolContext(
            call_id="call",
            cwd=str(self.folder),
            model=MODEL,
            signal=AbortSignal(),
            update=lambda text: None,
        )


def make_home(folder: Path, more: str = "") -> Path:
    """Make a home folder with the settings of a git user."""
    folder.mkdir()
    identity = "[user]\n\tname = Ann Example\n\temail = ann@example.invalid\n"
    (folder / ".gitconfig").write_text(identity + "[init]\n\tdefaultBranch = main\n" + more)
    return folder
