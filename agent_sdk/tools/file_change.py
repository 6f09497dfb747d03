"""What a change of a file comes to, for the model and for the front end."""

from agent_sdk.loop.types import ToolResult
from agent_sdk.providers.messages import Json
from agent_sdk.tools.diff import Diff, unified
from agent_sdk.tools.file_state import FileChange
from agent_sdk.tools.path_text import portable, visible
from agent_sdk.tools.paths import ResolvedPath


def diff_of(resolved: ResolvedPath, before: str | None, after: str) -> Diff:
    """Return the difference between two texts of a file."""
    return unified(before, after, path=visible(resolved.relative or resolved.real.lstrip("/")))


def facts(diff: Diff) -> Json:
    """Return a diff as it is stored."""
    found: Json = {
        "diff": diff.text,
        "additions": diff.additions,
        "deletions": diff.deletions,
    }
    if diff.truncated:
        found["diffTruncated"] = True
    return found


def counts(diff: Diff) -> str:
    """Return how many lines were added and removed, such as ``+3 -1 lines``."""
    return f"+{diff.additions} -{diff.deletions} lines"


def result_of(resolved: ResolvedPath, change: FileChange) -> ToolResult:
    """Return a tool's result for a change that has been made.

    Its details hold ``fileChange`` with path, operation, hashes, diff and
    counts; no ``fileChange`` if the file had these contents already.
    """
    text = change.planned.text
    if change.before == change.after:
        return ToolResult(
            content=f"'{resolved.shown}' has exactly these contents already; nothing was written."
        )
    if change.links > 1:
        text += f" It was one of {change.links} hard links; the others keep the old contents."
    return ToolResult(content=text, details={"fileChange": change_details(resolved, change)})


def change_details(resolved: ResolvedPath, change: FileChange) -> Json:
    """Return a change that has been made as a result's details hold it."""
    return {
        "path": portable(resolved.real),
        "operation": "created" if change.created else "modified",
        "beforeHash": change.before or None,
        "afterHash": change.after,
        **change.planned.facts,
    }
