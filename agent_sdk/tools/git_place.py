"""Which repository a git tool is about, and what it needs to be allowed.

The repository is found by looking for ``.git``, without git, so that a person
can be asked before anything runs; git must then agree. What is looked at never
goes beyond the session's folder, though the repository may begin above it.
"""

import os
import stat
from pathlib import Path

from msgspec import Struct

from agent_sdk.core.errors import ToolError
from agent_sdk.loop.types import PermissionRequest, Rule
from agent_sdk.tools.path_text import portable, relative_to, visible, within
from agent_sdk.tools.paths import PathGuard, ResolvedPath, Target, follow

_MAX_LINK = 4096
_OPENED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")


class Place(Struct, frozen=True, kw_only=True):
    """A repository as it was found.

    Attributes:
        root: Real path of its work tree.
        scope: Real path of the folder that is looked at: the root, or the
            session's folder if that lies below it.
        start: Real path of the folder that it was looked for in.
        cwd: The session's folder.
        elsewhere: Where its data lies, if ``.git`` is a file that says so.
    """

    root: str
    scope: str
    start: str
    cwd: str
    elsewhere: str = ""

    @property
    def shown(self) -> str:
        """The root, to show."""
        return visible(self.root)

    @property
    def scope_path(self) -> str:
        """The scope as git is told it, relative to the root."""
        return relative(self.scope, self.root)

    @property
    def above(self) -> bool:
        """Whether the repository begins above the session's folder."""
        return self.scope != self.root


def find_place(target: Target, guard: PathGuard, cwd: str) -> Place:
    """Return the repository that a folder lies in.

    Raises:
        ToolError: If the folder is none, lies outside of the session's
            folders, or is in no repository.
    """
    resolved = target.resolve(guard, cwd)
    if not resolved.inside:
        raise ToolError(
            f"'{resolved.shown}' lies outside of the session's folder.",
            hint="Use git in bash for a repository elsewhere.",
        )
    if not Path(resolved.real).is_dir():
        raise ToolError(f"There is no folder '{resolved.shown}'.", hint="Check it with ls.")
    root = _root_of(resolved.real)
    if not root:
        raise ToolError(
            f"'{resolved.shown}' is not in a git repository.",
            hint="Name the folder of one in 'directory', or make one with git init in bash.",
        )
    return Place(
        root=root,
        scope=root if within(root, resolved.root) else resolved.root,
        start=resolved.real,
        cwd=cwd,
        elsewhere=_elsewhere(root),
    )


def _root_of(folder: str) -> str:
    while True:
        try:
            Path(folder, ".git").lstat()
        except OSError:
            parent = os.path.split(folder)[0]
            if parent == folder:
                return ""
            folder = parent
        else:
            return folder


def _elsewhere(root: str) -> str:
    """Return where the data of a linked work tree lies; empty for a plain folder."""
    path = Path(root, ".git")
    try:
        if path.is_symlink():
            return os.path.realpath(path)
        if not stat.S_ISREG(path.lstat().st_mode):
            return ""
        with path.open("rb") as file:
            line = file.read(_MAX_LINK).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    return os.path.normpath(Path(root, line.removeprefix("gitdir:").strip()))


def requests_for_place(place: Place, key: str, verb: str) -> tuple[PermissionRequest, ...]:
    """Return what looking at a repository, or writing to it, needs to be allowed.

    Args:
        place: The repository; its root is the pattern.
        key: ``git_read`` or ``git_write``.
        verb: Beginning of the title.
    """
    root = portable(place.root)
    title = f"{verb} {place.shown}"
    if place.above:
        title += " (which begins above the session's folder)"
    aliases = [relative_to(place.root, place.cwd)]
    if place.elsewhere:
        title += f", data in {visible(place.elsewhere)}"
        aliases.append(portable(place.elsewhere))
    wild = "*" in root or "?" in root
    request = PermissionRequest(
        permission=key,
        patterns=(root,),
        aliases=tuple(alias for alias in aliases if alias and alias != root),
        always=() if wild else (Rule(key, root, "allow"),),
        title=title,
    )
    return (request,)


def path_in(place: Place, resolved: ResolvedPath) -> str:
    """Return a path as git is told it: relative to the root, a link not followed.

    Raises:
        ToolError: If it lies outside of the repository, or of what may be
            looked at of it.
    """
    parent, name = os.path.split(resolved.path.rstrip("/" + os.sep) or os.sep)
    plain = name in ("", ".", "..")
    real = follow(resolved.path)[0] if plain else absolute(name, follow(parent)[0])
    if not within(real, place.scope):
        raise ToolError(
            f"'{visible(resolved.given)}' lies outside of the repository '{visible(place.scope)}'.",
            hint="Name a path in it, or another 'directory'.",
        )
    return relative(real, place.root)


def relative(path: str, root: str) -> str:
    """Return a path seen from the root of a repository, with ``/``; ``.`` for the root."""
    return path[len(root.rstrip(os.sep)) + 1 :].replace(os.sep, "/") or "."


def absolute(path: str, root: str) -> str:
    """Return the path that git calls so."""
    return f"{root.rstrip(os.sep)}{os.sep}{path.replace('/', os.sep)}"


def under_way(folder: str) -> str:
    """Return what is under way in a repository whose data lies in a folder: ``rebase``, say."""
    for name in _OPENED:
        if os.path.lexists(Path(folder, name)):
            return name.split("_HEAD")[0].partition("-")[0].lower().replace("_", "-")
    return ""
