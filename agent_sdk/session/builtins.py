"""The built-in tools of a session, and what they share."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from agent_sdk.core.environment import child_environment
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import Tool
from agent_sdk.providers.models import Model
from agent_sdk.session.assembly import DEFAULT_TOOLS
from agent_sdk.session.checkpoint_store import (
    CheckpointStore,
    FolderCheckpoints,
    MemoryCheckpoints,
    checkpoints_folder,
)
from agent_sdk.session.file_history import SessionFileHistory
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.todos import SessionTodos
from agent_sdk.tools.bash import BashTool
from agent_sdk.tools.edit import EditTool
from agent_sdk.tools.file_state import FileReadState
from agent_sdk.tools.git import GitDiffTool, GitLogTool, GitParts, GitStatusTool
from agent_sdk.tools.git_commit import GitCommitTool
from agent_sdk.tools.glob import GlobTool
from agent_sdk.tools.grep import GrepTool
from agent_sdk.tools.patch import ApplyPatchTool
from agent_sdk.tools.paths import PathGuard
from agent_sdk.tools.protected import load_protected
from agent_sdk.tools.read import ReadTool
from agent_sdk.tools.todo import TodoTool
from agent_sdk.tools.write import WriteTool


class Builtins(Struct, frozen=True, kw_only=True):
    """The built-in tools, those that must be named included.

    Attributes:
        tools: In the order in which they are declared.
        state: What the model has seen of files; shared by the file tools.
        checkpoints: Where the contents of changed files are kept.
    """

    tools: tuple[Tool, ...]
    state: FileReadState
    checkpoints: CheckpointStore


def everyday_tools(model: Model) -> tuple[str, ...]:
    """Return the tools that ZPI's own front ends give a model.

    The embedded model is so small that it chooses well among few tools only.
    """
    more = () if model.api == "local" else ("glob", "grep", "todo")
    return (*DEFAULT_TOOLS, *more)


def outputs_folder(manager: SessionManager) -> Path | None:
    """Return where a session's long outputs are saved; None for one in memory."""
    return manager.path.with_suffix("") / "outputs" if manager.path else None


def checkpoint_store(manager: SessionManager) -> CheckpointStore:
    """Return where the contents of files are kept that a session changes."""
    if manager.path is None:
        return MemoryCheckpoints()
    return FolderCheckpoints(checkpoints_folder(manager.path))


def builtin_tools(
    *,
    manager: SessionManager,
    processes: ProcessOwner,
    environ: Mapping[str, str],
    tool_env: Mapping[str, str],
    protected: Sequence[str],
    home: str,
    reads_freely: Callable[[str], bool],
    checkpoints: CheckpointStore,
) -> Builtins:
    """Return the built-in tools of a session. Touches nothing.

    Args:
        manager: The session.
        processes: Starts commands; closed by whoever made it.
        environ: The program's environment, without secrets.
        tool_env: Variables that commands get in addition.
        protected: Real paths of folders of ZPI's own data.
        home: The user's home folder; empty if not known.
        reads_freely: Whether a file may be read without a question, by its
            portable real path; called on another thread.
        checkpoints: Where the contents of changed files are kept.
    """
    guard = PathGuard(protected=load_protected(protected), home=home)
    state = FileReadState(history=SessionFileHistory(manager=manager, store=checkpoints))
    environment = child_environment(environ, tool_env=tool_env)
    git = GitParts(
        guard=guard,
        processes=processes,
        environment=environment,
        may_read=reads_freely,
        artifacts=outputs_folder(manager),
    )
    tools: tuple[Tool, ...] = (
        ReadTool(guard=guard, state=state),
        WriteTool(guard=guard, state=state),
        EditTool(guard=guard, state=state),
        BashTool(processes=processes, environment=environment, artifacts=outputs_folder(manager)),
        GlobTool(guard=guard),
        GrepTool(guard=guard, may_read=reads_freely, processes=processes, environment=environment),
        ApplyPatchTool(guard=guard, state=state),
        TodoTool(store=SessionTodos(manager=manager)),
        GitStatusTool(parts=git),
        GitDiffTool(parts=git),
        GitLogTool(parts=git),
        GitCommitTool(parts=git),
    )
    return Builtins(tools=tools, state=state, checkpoints=checkpoints)
