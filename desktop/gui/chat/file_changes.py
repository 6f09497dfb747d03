"""What a call changed in files, as its details tell. Pure, no Qt."""

from dataclasses import dataclass

from agent_sdk.events.wire import ToolCompleted, ToolFailed, ToolPart


@dataclass(frozen=True)
class FileChange:
    """One file's change.

    Attributes:
        path: The file.
        diff: What changed; empty if it is not told.
        additions: Lines added.
        deletions: Lines removed.
    """

    path: str
    diff: str
    additions: int
    deletions: int


def file_changes(part: ToolPart) -> list[FileChange]:
    """Return what the call changed, file by file; one file is told apart from a list."""
    state = part.state
    if not isinstance(state, ToolCompleted | ToolFailed):
        return []
    several = state.details.get("fileChanges")
    found = several if isinstance(several, list) else [state.details.get("fileChange")]
    return [_change(each) for each in found if isinstance(each, dict)]


def _change(told: dict[str, object]) -> FileChange:
    path, diff = told.get("path"), told.get("diff")
    return FileChange(
        path=path if isinstance(path, str) else "",
        diff=diff if isinstance(diff, str) else "",
        additions=_count(told, "additions"),
        deletions=_count(told, "deletions"),
    )


def _count(told: dict[str, object], name: str) -> int:
    value = told.get(name, 0)
    return value if isinstance(value, int) else 0
