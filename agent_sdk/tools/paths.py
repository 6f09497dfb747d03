"""From the path that a model wrote to the one file that is meant.

Everything that a person is shown and a rule is held against comes from here:
the real path with all links resolved, the other spellings of it, whether it
lies in the session's folders, and whether it is protected. The file tools then
use exactly that real path (see ``core/fsio_at``).
"""

import os
import stat
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal, TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.tools.path_text import (
    from_portable,
    quoted,
    relative_to,
    visible,
    windows_refusal,
    within,
)
from agent_sdk.tools.protected import ProtectedPaths

Access: TypeAlias = Literal["read", "edit"]

_MAX_LINKS = 40
_MAX_LISTED = 5_000
"""Entries of a folder that are looked at for another spelling or hard link."""

_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})


class ResolvedPath(Struct, frozen=True, kw_only=True):
    """A path that was resolved at one moment.

    Attributes:
        cwd: The session's folder.
        given: As the model wrote it.
        path: Absolute, before links were followed.
        real: Absolute, with every link resolved; the file that is used.
        relative: ``real`` seen from the session's folder, with ``/``; empty
            if it lies elsewhere.
        links: The links on the way, absolute.
        names: Other hard links to the same file that were found near it.
        inside: Whether it lies in one of the session's folders.
        guarded: Whether writing it needs a person each time.
        secret: Whether reading it does, too.
        root: The folder of the session that it lies in; empty if in none.
    """

    cwd: str
    given: str
    path: str
    real: str
    relative: str
    links: tuple[str, ...]
    names: tuple[str, ...]
    inside: bool
    guarded: bool
    secret: bool
    root: str

    @property
    def shown(self) -> str:
        """The name to show: short where possible, nothing in it invisible."""
        return visible(self.relative or self.real)


class PathGuard:
    """Resolves paths for a session.

    Args:
        protected: What needs a person each time.
        home: The user's home folder, for ``~``; empty if there is none.
        roots: Real paths of the session's folders, fixed when it was created;
            empty for the session's ``cwd`` alone.
    """

    def __init__(self, *, protected: ProtectedPaths, home: str, roots: Sequence[str] = ()) -> None:
        self._protected = protected
        self._home = home
        self._roots = tuple(roots)

    def secret(self, real: str) -> bool:
        """Return whether reading a real path needs a person each time."""
        return self._protected.secret(real)

    def resolve(self, given: str, cwd: str, *, existing: bool) -> ResolvedPath:
        """Resolve a path as a model gave it; looks at the disk, changes nothing.

        A missing name is also tried without a leading ``@`` and, if it must
        exist, in other spellings (composed or not, odd spaces and quotes), as
        long as exactly one file fits.

        Args:
            given: The path, relative to ``cwd`` or absolute; ``~`` is the home.
            cwd: The session's folder, an absolute real path.
            existing: Whether it must exist already.

        Raises:
            ToolError: If no file can be meant by it.
        """
        refusal = _refusal(given)
        if refusal:
            raise InvalidToolInput(f"The path {quoted(given)} {refusal}.")
        path = self._absolute(given, cwd)
        if not _exists(path):
            path = self._other_spelling(given, cwd, existing=existing) or path
        real, links = follow(path)
        if given.endswith(("/", os.sep)) and not _is_folder(real):
            raise ToolError(
                f"{quoted(given)} ends in a slash, so it names a folder.",
                hint="Leave the slash off to name a file.",
            )
        root = next((r for r in self._roots or (cwd,) if within(real, r)), "")
        names = tuple(_hard_links(real, (os.path.split(real)[0], root)))
        everything = tuple(dict.fromkeys((real, path, *links, *names)))
        return ResolvedPath(
            cwd=cwd,
            given=given,
            path=path,
            real=real,
            relative=relative_to(real, cwd),
            links=links,
            names=names,
            inside=bool(root),
            guarded=any(map(self._protected.write, everything)),
            secret=any(map(self._protected.secret, everything)),
            root=root,
        )

    def _absolute(self, text: str, cwd: str) -> str:
        if text == "~" or text.startswith(("~/", "~" + os.sep)):
            if not self._home:
                raise ToolError("No home folder is known, so '~' means nothing here.")
            return self._home.rstrip(os.sep) + text[1:]
        return os.path.join(cwd, text)  # noqa: PTH118 - pathlib would fold "a/../b" of a link

    def _other_spelling(self, given: str, cwd: str, *, existing: bool) -> str | None:
        head, *rest = given.split("/", 1)
        if head.startswith("@") and len(given) > 1:
            # "@src/a.py" is how people mention files; "@scope/x" may be a folder.
            plain = self._absolute(given[1:], cwd)
            if not (rest and _exists(self._absolute(head, cwd))) and (
                not existing or _exists(plain)
            ):
                return plain
        if not existing:
            return None  # a new file gets the very name that was asked for
        unescaped = self._absolute(from_portable(given), cwd)
        return unescaped if _exists(unescaped) else _similar(self._absolute(given, cwd))


class Target:
    """The path of one call, resolved once.

    What was resolved when the call's permissions were asked for is what the
    call uses; if by then the path leads elsewhere, the call is refused.

    Attributes:
        given: As the model wrote it.
        existing: Whether the file must exist already.
    """

    __slots__ = ("_resolved", "existing", "given")

    def __init__(self, given: str, *, existing: bool) -> None:
        self.given = given
        self.existing = existing
        self._resolved: ResolvedPath | None = None

    def resolve(self, guard: PathGuard, cwd: str) -> ResolvedPath:
        """Return the path, resolved the first time that this is called."""
        if self._resolved is None or self._resolved.cwd != cwd:
            self._resolved = guard.resolve(self.given, cwd, existing=self.existing)
        return self._resolved

    def confirm(self, guard: PathGuard, cwd: str) -> ResolvedPath:
        """Return the path as it was resolved, if it still leads there.

        Raises:
            ToolError: If it leads elsewhere now.
        """
        authorized = self.resolve(guard, cwd)
        real, _ = follow(authorized.path)
        if real != authorized.real:
            raise path_moved(authorized)
        return authorized


def path_moved(resolved: ResolvedPath) -> ToolError:
    """Return the error for a path that leads elsewhere than it did."""
    return ToolError(
        f"{quoted(resolved.given)} leads elsewhere now than when the call was allowed"
        f" ('{resolved.shown}'); nothing was done.",
        hint="Make the call again.",
    )


def follow(path: str) -> tuple[str, tuple[str, ...]]:
    """Return the path with every link resolved, and the links on the way.

    Components are resolved from left to right, so ``..`` after a link means
    the parent of its target; a link to something missing is resolved too.

    Args:
        path: An absolute path.

    Raises:
        ToolError: If links lead in a circle.
    """
    if sys.platform == "win32":
        real = os.path.realpath(path)
        lexical = os.path.normpath(path)
        return real, (() if os.path.normcase(real) == os.path.normcase(lexical) else (lexical,))
    pending = path.split("/")[::-1]
    links: list[str] = []
    done = ""
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        here = f"{done}/{part}"
        try:
            target = os.readlink(here)  # noqa: PTH115 - text paths
        except OSError:  # no link, or nothing that could be one: opening will tell
            done = here
            continue
        links.append(here)
        if len(links) > _MAX_LINKS:
            raise ToolError(f"The links at {quoted(path)} lead in a circle.")
        if target.startswith("/"):
            done = ""
        pending.extend(reversed(target.split("/")))
    return done or "/", tuple(links)


def _refusal(given: str) -> str:
    if not given.strip():
        return "is empty"
    if "\0" in given:
        return "contains a NUL"
    if given[:5].lower() == "file:":
        return "is a URL; give the plain path"
    try:
        os.fsencode(given)
    except UnicodeEncodeError:
        return "is not valid Unicode"
    return windows_refusal(given) if os.name == "nt" else ""


def _exists(path: str) -> bool:
    try:
        os.lstat(path)
    except (OSError, ValueError):
        return False
    return True


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _similar(path: str) -> str | None:
    """Return the one entry of the same folder that looks like the missing name."""
    parent, name = os.path.split(path)
    wanted = _look(name)
    try:
        with os.scandir(parent) as entries:
            found = [e.name for e in islice(entries, _MAX_LISTED) if _look(e.name) == wanted]
    except OSError:
        return None
    return f"{parent}{os.sep}{found[0]}" if len(found) == 1 else None


def _look(name: str) -> str:
    if name.isascii():
        return name
    composed = unicodedata.normalize("NFC", name).translate(_QUOTES)
    return "".join(" " if unicodedata.category(c) == "Zs" else c for c in composed)


def _hard_links(real: str, folders: tuple[str, ...]) -> Iterator[str]:
    """Yield other names of a file with several, from the folders likely to hold them.

    A deny rule for the name of a secret shall hold for its hard link beside
    it, too; looking through the whole disk for one is out of the question.
    """
    try:
        status = os.lstat(real)
    except (OSError, ValueError):
        return
    if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return
    for folder in dict.fromkeys(f for f in folders if f):
        try:
            with os.scandir(folder) as entries:
                same = [e.path for e in islice(entries, _MAX_LISTED) if e.inode() == status.st_ino]
        except OSError:
            continue
        for path in same:
            if path != real and _device(path) == status.st_dev:
                yield path


def _device(path: str) -> int:
    try:
        return os.lstat(path).st_dev
    except OSError:
        return -1
