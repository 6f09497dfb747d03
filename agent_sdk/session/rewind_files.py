"""What is on the disk now, against what a rewind expects there; reads only."""

import os
import stat
from collections.abc import Sequence

from msgspec import Struct

from agent_sdk.core.fsio_at import NotRegularFile, PathMoved, TooLarge, read_regular
from agent_sdk.session.checkpoint_store import CheckpointStore
from agent_sdk.session.rewind_plan import (
    Action,
    Chain,
    FileToRewind,
    Hash,
    Problem,
    RewindProblem,
    hash_of,
)
from agent_sdk.tools.diff import Diff, unified
from agent_sdk.tools.file_state import MAX_FILE, sha256
from agent_sdk.tools.path_text import from_portable, portable, relative_to, visible, within
from agent_sdk.tools.paths import ResolvedPath
from agent_sdk.tools.text_codec import decode

_TEXTS: dict[Problem, str] = {
    "changed": "'{}' was changed by somebody else since.",
    "changed_between": "'{}' was changed by somebody else between changes of this session.",
    "changed_later": "'{}' was changed again since.",
    "not_kept": "What '{}' was before is not kept (any more).",
    "not_a_file": "'{}' is not a plain file any more, or is reached through a link.",
    "read_only": "'{}' cannot be changed or read by this user.",
    "outside": "'{}' lies outside of the folders that may be changed.",
}


GONE: frozenset[Problem] = frozenset({"not_a_file", "changed"})
"""Problems that say that somebody else has put something in a file's place."""


class DiskState(Struct, frozen=True):
    """A file as it is.

    Attributes:
        data: Its contents; None if there is no file, or they cannot be read.
        mode: Its permission bits.
        problem: Why it cannot be told, or not be changed.
    """

    data: bytes | None = None
    mode: int = 0
    problem: Problem | None = None

    @property
    def hash(self) -> Hash:
        """What it is compared by."""
        return None if self.data is None else sha256(self.data)


class FileLook:
    """Looks at the files that a rewind would change.

    Args:
        store: Where contents are kept.
        cwd: The session's folder.
        roots: Folders outside of which nothing may be changed; empty for none.
    """

    def __init__(self, *, store: CheckpointStore, cwd: str, roots: Sequence[str]) -> None:
        self._store = store
        self._cwd = cwd
        self._roots = tuple(roots)

    def at_all(
        self, chains: Sequence[Chain]
    ) -> tuple[tuple[FileToRewind, ...], tuple[RewindProblem, ...]]:
        """Return what happens to which file, and what stands in the way. Blocks.

        Files that are already what they shall be are in neither.

        Raises:
            StorageError: If what is kept cannot be read.
        """
        found = [self._at(chain) for chain in sorted(chains, key=lambda chain: chain.path)]
        files = tuple(one for one in found if isinstance(one, FileToRewind))
        return files, tuple(one for one in found if isinstance(one, RewindProblem))

    def _at(self, chain: Chain) -> FileToRewind | RewindProblem | None:
        path = real_path(chain.path)
        now = disk_state(path)
        target = hash_of(chain.target)
        known = now.problem is None or now.data is not None
        if known and now.hash == target and chain.problem != "changed_later":
            return None
        problem = self._problem(chain, path, now)
        data: bytes | None = None
        if problem is None and target is not None:
            data = self._store.get(target)
            problem = "not_kept" if data is None else None
        if problem is not None:
            shown = self._shown(path)
            return RewindProblem(
                path=path, shown=shown, kind=problem, text=_TEXTS[problem].format(shown)
            )
        return self._file(chain, path, now=now, data=data)

    def _problem(self, chain: Chain, path: str, now: DiskState) -> Problem | None:
        if self._roots and not any(within(path, root) for root in self._roots):
            return "outside"
        if chain.problem is not None:
            return chain.problem
        if now.problem is not None:
            return now.problem
        return "changed" if now.hash not in chain.expected else None

    def _file(self, chain: Chain, path: str, *, now: DiskState, data: bytes | None) -> FileToRewind:
        action: Action = "restore"
        if data is None:
            action = "delete"
        elif now.data is None:
            action = "recreate"
        wanted = chain.target.mode & 0o777 if chain.target else 0
        diff = _diff(now.data, data, name=self._shown(path))
        return FileToRewind(
            path=path,
            shown=self._shown(path),
            action=action,
            now=now.hash,
            target=hash_of(chain.target),
            mode=0 if wanted == now.mode & 0o777 else wanted,
            additions=diff.additions,
            deletions=diff.deletions,
            diff=diff.text,
        )

    def _shown(self, path: str) -> str:
        return visible(relative_to(path, self._cwd) or portable(path))


def real_path(stored: str) -> str:
    """Return the path of a file for the one that its record has."""
    return os.path.normpath(from_portable(stored))


def plain_path(path: str, cwd: str) -> ResolvedPath:
    """Return a real path in the form in which files are changed."""
    return ResolvedPath(
        cwd=cwd,
        given=path,
        path=path,
        real=path,
        relative=relative_to(path, cwd),
        links=(),
        names=(),
        inside=within(path, cwd),
        guarded=False,
        secret=False,
        root="",
    )


def disk_state(path: str) -> DiskState:
    """Return what is at a real path now. Blocks."""
    try:
        data, status = read_regular(path, MAX_FILE)
    except FileNotFoundError:
        return DiskState()
    except (PathMoved, NotRegularFile, NotADirectoryError):
        return DiskState(problem="not_a_file")
    except TooLarge:
        return DiskState(problem="changed")  # the tools write nothing that large
    except OSError:
        return DiskState(problem="read_only")
    if not status.st_mode & 0o222:
        return DiskState(data, problem="read_only")
    return DiskState(data, stat.S_IMODE(status.st_mode))


def _diff(now: bytes | None, then: bytes | None, *, name: str) -> Diff:
    """Return how the file will change, as lines; nothing of what is no text."""
    before = None if now is None else decode(now)
    after = None if then is None else decode(then)
    if (now is not None and before is None) or (then is not None and after is None):
        return Diff("", 0, 0)
    return unified(
        before.printable if before else None, after.printable if after else "", path=name
    )
