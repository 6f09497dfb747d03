"""What a model is told when the system refuses a file."""

import errno

from agent_sdk.core.errors import StaleFile, ToolError
from agent_sdk.core.fsio_at import NotRegularFile, PathMoved, TooLarge
from agent_sdk.tools.paths import ResolvedPath, path_moved

_REASONS = {
    errno.EACCES: ("is not accessible to this user (permission denied)", ""),
    errno.EPERM: ("may not be changed (operation not permitted)", ""),
    errno.ENOTDIR: ("lies below something that is no folder", "Check the path with ls."),
    errno.ENAMETOOLONG: ("has too long a name", ""),
    errno.ELOOP: ("is a link now, which it was not when the call was allowed", "Call again."),
    errno.ENXIO: ("is not a file that can be read", ""),
    errno.EAGAIN: ("has no contents yet and would make the reader wait", ""),
    errno.EROFS: ("lies on a read-only file system", ""),
    errno.EISDIR: ("is a directory", ""),
}
_NO_ROOM = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}


def explain(error: OSError, resolved: ResolvedPath, *, changing: bool = False) -> ToolError:
    """Return the error that the model is told for one of the system.

    Args:
        error: What happened.
        resolved: The file.
        changing: Whether it was to be changed.
    """
    name = f"'{resolved.shown}'"
    match error:
        case PathMoved():
            return path_moved(resolved)
        case NotRegularFile(kind="directory"):
            return ToolError(f"{name} is a directory.", hint="List it with ls in bash.")
        case NotRegularFile():
            return ToolError(f"{name} is no regular file but a {error.kind}; it was not opened.")
        case TooLarge():
            return ToolError(
                f"{name} has {error.size:,} bytes, more than this tool takes.",
                hint="Use bash with grep, head or sed -n 'FROM,TOp' to see a part of it"
                + (", and sed -i to change it." if changing else "."),
            )
        case FileNotFoundError():
            return ToolError(f"There is no file {name}.", hint="Check the path with ls.")
        case FileExistsError():
            return StaleFile(f"{name} has appeared just now.", hint="Read it, then try again.")
    unchanged = " The file is unchanged." if changing else ""
    if error.errno in _NO_ROOM:
        return ToolError(f"{name} could not be written: {_NO_ROOM[error.errno]}.{unchanged}")
    reason, hint = _REASONS.get(
        error.errno or 0, (f"failed with {error.strerror or type(error).__name__}", "")
    )
    return ToolError(f"{name} {reason}.{unchanged}", hint=hint)
