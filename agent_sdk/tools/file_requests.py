"""What touching a file needs to be allowed: the keys, patterns and titles. Pure."""

import os
from typing import Literal

from agent_sdk.loop.types import PermissionRequest, Rule
from agent_sdk.tools.path_text import portable, relative_to, visible
from agent_sdk.tools.paths import Access, ResolvedPath


def requests_for(resolved: ResolvedPath, access: Access) -> tuple[PermissionRequest, ...]:
    """Return what reading or editing a file needs to be allowed.

    One request by the key ``read`` or ``edit`` for the real path; outside the
    session's folders a second one by the key ``external_directory``, whose
    *always* holds for the folder that the file lies in.
    The title names link and target where they differ.
    """
    protected = resolved.secret or (access == "edit" and resolved.guarded)
    title = _title(resolved, access=access, protected=protected)
    request = PermissionRequest(
        permission=access,
        patterns=(portable(resolved.real),),
        aliases=_aliases(resolved),
        always=() if protected else _always(resolved, access),
        title=title,
        protected=protected,
    )
    if resolved.inside:
        return (request,)
    folders = [_folder(p) for p in (resolved.real, resolved.path, *resolved.links)]
    return (request, _outside(resolved, request, folders))


def search_requests(
    resolved: ResolvedPath, key: Literal["glob", "grep"], *, folder: bool
) -> tuple[PermissionRequest, ...]:
    """Return what searching in a folder or file needs to be allowed.

    One request by the key for the real path; searching a single file shows
    what is in it and needs what reading it needs as well. Outside the
    session's folders the key ``external_directory`` comes on top, whose
    *always* holds for the folder and what lies below.

    Args:
        resolved: The folder or file.
        key: The tool's key.
        folder: Whether it is a folder.
    """
    title = _title(resolved, access=key, protected=resolved.secret)
    real = portable(resolved.real)
    always = () if resolved.secret or _wild(real) else _whole(key, real)
    request = PermissionRequest(
        permission=key,
        patterns=(real,),
        aliases=_aliases(resolved),
        always=always,
        title=title,
        protected=resolved.secret,
    )
    if not folder:
        return (request, *requests_for(resolved, "read"))
    if resolved.inside:
        return (request,)
    folders = [portable(p) for p in (resolved.real, resolved.path, *resolved.links)]
    return (request, _outside(resolved, request, folders))


def _whole(key: str, folder: str) -> tuple[Rule, ...]:
    return (Rule(key, folder, "allow"), Rule(key, folder.rstrip("/") + "/*", "allow"))


def _outside(
    resolved: ResolvedPath, request: PermissionRequest, folders: list[str]
) -> PermissionRequest:
    """Return the request to go outside; the first of ``folders`` is what *always* opens."""
    always = _whole("external_directory", folders[0])
    if request.patterns[0] != folders[0]:
        always = always[1:]  # a file: what lies in its folder is enough
    others = dict.fromkeys((*request.aliases, *folders))
    return PermissionRequest(
        permission="external_directory",
        patterns=request.patterns,
        aliases=tuple(other for other in others if other not in request.patterns),
        always=() if request.protected or _wild(folders[0]) else always,
        title=request.title,
        protected=request.protected,
    )


def _folder(path: str) -> str:
    return portable(os.path.split(path)[0])


def _aliases(resolved: ResolvedPath) -> tuple[str, ...]:
    """Every other spelling; the real path seen from the session's folder is first."""
    spellings = [resolved.relative, portable(resolved.given)]
    for path in (resolved.path, *resolved.links, *resolved.names):
        # Without "." and "..", though that may be wrong across links: it only
        # serves to be compared with what is denied.
        plain = os.path.normpath(path)
        spellings += [portable(path), portable(plain), relative_to(plain, resolved.cwd)]
    real = portable(resolved.real)
    return tuple(s for s in dict.fromkeys(spellings) if s and s != real)


def _wild(text: str) -> bool:
    return "*" in text or "?" in text


def _always(resolved: ResolvedPath, access: Access) -> tuple[Rule, ...]:
    """The rule that *always* stores: for edits, the folder of the session.

    It is the file alone for reading, outside, and for files that by custom
    hold secrets. A name with characters that a rule cannot quote gives none.
    """
    real, root = portable(resolved.real), portable(resolved.root)
    name = real.rpartition("/")[2].casefold()
    alone = access == "read" or not root or name.endswith(".env") or ".env." in name
    pattern = real if alone else root.rstrip("/") + "/*"
    return () if _wild(real) else (Rule(access, pattern, "allow"),)


_VERBS = {"read": "Read", "edit": "Edit", "glob": "Find files in", "grep": "Search in"}


def _title(
    resolved: ResolvedPath, *, access: Access | Literal["glob", "grep"], protected: bool
) -> str:
    verb = _VERBS[access]
    title = f"{verb} {resolved.shown}"
    if resolved.links:
        title = f"{verb} {visible(resolved.given)} → {visible(resolved.real)} (through a link)"
    if not resolved.inside:
        title += " (outside the session's folder)"
    if protected:
        title += " (protected)"
    return title
