"""Notices changes of resources while a session is open, and has them read again.

Only the folders that matter are watched, each by itself: a project with a
million files costs nothing. This module loads the watching library, so only
programs that stay import it. Whoever cannot watch can still refresh on demand.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from os.path import realpath
from pathlib import Path
from typing import Protocol

import watchfiles

from agent_sdk.core.aio import TaskOwner
from agent_sdk.resources.files import is_folder
from agent_sdk.resources.loader import ResourceChanges, ResourceLoader, Watched
from agent_sdk.resources.problems import ResourceProblem, shown

_STEP_MS = 500
_RETRY_SECONDS = 1.0


class Watch(Protocol):
    """Watches folders, without those below them."""

    def __call__(
        self, folders: Iterable[Path], relevant: Callable[[str], bool]
    ) -> AsyncGenerator[set[str], None]:
        """Yield the paths that changed, again and again; only relevant ones.

        Watching has begun when the first step is waited for.

        Raises:
            FileNotFoundError: If a folder has gone meanwhile.
            OSError: If the system cannot watch them.
        """
        ...


class ResourceWatcher:
    """Refreshes a loader when its files change, until its owner is closed."""

    def __init__(
        self,
        *,
        loader: ResourceLoader,
        owner: TaskOwner,
        changed: Callable[[ResourceChanges], None],
        failed: Callable[[ResourceProblem], None],
        watch: Watch | None = None,
    ) -> None:
        """Create a watcher; ``start`` starts it.

        Args:
            loader: What is refreshed.
            owner: Runs the watching, and ends it.
            changed: Called after a refresh that found changes, on the event loop.
            failed: Called once if watching is not possible, which ends it.
            watch: How folders are watched; None for the system's own way.
        """
        self._loader = loader
        self._owner = owner
        self._changed = changed
        self._failed = failed
        self._watch = watch or watch_folders

    def start(self) -> None:
        """Start watching.

        Raises:
            Aborted: If the owner has been closed.
        """
        self._owner.start(self._run(), name="watch resources")

    async def _run(self) -> None:
        while True:
            folders = await asyncio.to_thread(_existing, self._loader.watched)
            try:
                await self._watch_until_moved(folders)
            except FileNotFoundError:  # one of them went at this moment
                await asyncio.sleep(_RETRY_SECONDS)
            except (OSError, RuntimeError) as error:  # its own errors are RuntimeErrors
                self._failed(_cannot_watch(self._loader, error))
                return

    async def _watch_until_moved(self, folders: frozenset[Path]) -> None:
        """Watch until other folders must be watched than these."""
        relevant = _Relevance(self._loader.watched)
        changes = self._watch(folders, relevant)
        waiting = self._wait_for(changes)
        try:
            await asyncio.sleep(0)  # watching begins; what came before it is read now
            await self._refresh()
            while not await self._is_moved(folders):
                paths = await waiting
                waiting = self._wait_for(changes)
                await self._refresh()
                if relevant.moves(paths):
                    return
        finally:
            waiting.cancel()
            await asyncio.wait([waiting])
            await changes.aclose()

    def _wait_for(self, changes: AsyncGenerator[set[str], None]) -> asyncio.Task[set[str]]:
        return self._owner.start(_next(changes), name="wait for a change")

    async def _refresh(self) -> None:
        if found := await self._loader.refresh():
            self._changed(found)

    async def _is_moved(self, folders: frozenset[Path]) -> bool:
        return await asyncio.to_thread(_existing, self._loader.watched) != folders


class _Relevance:
    """Decides which changed paths matter."""

    def __init__(self, watched: Watched) -> None:
        self._names = {str(folder): names for folder, names in watched.items()}
        # The system may report a folder by its real name.
        self._names |= {realpath(folder): names for folder, names in watched.items()}

    def __call__(self, path: str) -> bool:
        names = self._names.get(str(Path(path).parent), frozenset())
        return path in self._names or names is None or Path(path).name in names

    def moves(self, paths: set[str]) -> bool:
        """Whether one of the watched folders itself came or went."""
        return any(path in self._names for path in paths)


async def watch_folders(
    folders: Iterable[Path], relevant: Callable[[str], bool]
) -> AsyncGenerator[set[str], None]:
    """Watch by the operating system's own means; see ``Watch``."""
    changes = watchfiles.awatch(
        *folders,
        watch_filter=lambda _, path: relevant(path),
        step=_STEP_MS,
        recursive=False,
        ignore_permission_denied=True,
    )
    try:
        async for found in changes:
            yield {path for _, path in found}
    finally:
        await changes.aclose()


async def _next(changes: AsyncGenerator[set[str], None]) -> set[str]:
    return await anext(changes)


def _existing(watched: Watched) -> frozenset[Path]:
    return frozenset(folder for folder in watched if is_folder(folder))


def _cannot_watch(loader: ResourceLoader, error: Exception) -> ResourceProblem:
    return ResourceProblem(
        kind="source",
        source="project",
        path=shown(loader.places.cwd),
        text=f"Changes of instructions, skills, commands and agents are not noticed ({error}).",
        hint="Refresh by hand after a change, or raise the system's limit of watched files.",
        level="warning",
    )
