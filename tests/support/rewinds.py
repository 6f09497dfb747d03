"""A session's file tools with a history of files, and rewinds in it."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.failpoints import Faults
from agent_sdk.core.ids import Ids
from agent_sdk.session.checkpoint_store import (
    CheckpointStore,
    FolderCheckpoints,
    MemoryCheckpoints,
    checkpoints_folder,
)
from agent_sdk.session.checkpoints import FileRewind
from agent_sdk.session.file_history import SessionFileHistory
from agent_sdk.session.manager import SessionManager
from agent_sdk.tools.file_state import FileReadState
from tests.support.file_tools import Workbench
from tests.support.session_files import CountingIds, StepClock, create, prompt, resume

SID = "rewound-session"


def without_syncs(patch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk: nothing here cuts the machine's real power."""
    for name in ("fsync", "fdatasync"):
        patch.setattr(os, name, lambda _fd: None, raising=False)


class RewindBench:
    """One open session; its files are in ``project``, its own data beside it."""

    def __init__(
        self,
        project: Path,
        manager: SessionManager,
        *,
        faults: Faults | None = None,
        ids: Ids | None = None,
        limit: int | None = None,
        roots: tuple[str, ...] = (),
    ) -> None:
        more: dict[str, Any] = {} if limit is None else {"limit": limit}
        self.manager = manager
        self.store: CheckpointStore = MemoryCheckpoints(**more)
        if manager.path is not None:
            folder = checkpoints_folder(manager.path)
            self.store = FolderCheckpoints(folder, faults=faults, **more)
        history = SessionFileHistory(manager=manager, store=self.store)
        self.tools = Workbench(project, state=FileReadState(history=history, faults=faults))
        self.rewind = FileRewind(
            manager=manager,
            store=self.store,
            state=self.tools.state,
            ids=ids or CountingIds(900_000),
            roots=roots,
        )

    @property
    def project(self) -> Path:
        return Path(self.tools.cwd)

    async def say(self, text: str = "go on") -> str:
        """Store a prompt and return its id."""
        return (await self.manager.append(prompt(text)))[0]

    async def put(self, name: str, content: str) -> None:
        """Let the model write a file, after reading it if it is there."""
        if self.tools.at(name).exists():
            await self.tools.read(name)
        await self.tools.write(name, content)

    def files(self, *, killed: bool = False) -> dict[str, bytes]:
        """Return all contents in the project; there must be nothing of ours.

        Args:
            killed: Leave out temporary files, which a kill leaves for a while.
        """
        found = {
            str(path.relative_to(self.project)): path.read_bytes()
            for path in self.project.rglob("*")
            if path.is_file() and not (killed and path.name.startswith(".zpi-"))
        }
        assert not [name for name in found if ".zpi-" in name]
        return found

    async def back(self, to: str, **more: Any) -> str:
        """Rewind, and check that it is what the preview said."""
        preview = await self.rewind.preview(to, **more)
        return await self.rewind.commit(preview)

    async def undo(self, rewind_id: str) -> str:
        """Take a rewind back."""
        return await self.rewind.commit(await self.rewind.preview_undo(rewind_id))


@contextlib.asynccontextmanager
async def opened(root: Path, **more: Any) -> AsyncIterator[RewindBench]:
    """Open the session below a folder, or begin it."""
    project = root / "project"
    project.mkdir(exist_ok=True)
    faults, ids = more.get("faults"), more.pop("ids", CountingIds())
    begun = any((root / "sessions").glob(f"*/{SID}.jsonl"))
    options = {"faults": faults, "ids": ids, "clock": StepClock()}
    if begun:
        manager = await resume(root, SID, **options)
    else:
        manager = await create(root, session_id=SID, cwd=project, **options)
    try:
        yield RewindBench(project, manager, ids=ids, **more)
    finally:
        await manager.close()
