"""A session store against a list: random appends, faults and crashes, and what must be left.

The model is the list of acknowledged records. A crash may keep some of what
was being written, but never loses what was acknowledged and never makes
anything up.
"""

import asyncio
import contextlib
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import update

from agent_sdk.contrib.sql.database import SqlDatabase
from agent_sdk.contrib.sql.schema import sessions
from agent_sdk.contrib.sql.storage import sql_storage
from agent_sdk.core.errors import DiskFull, SessionLocked, StorageError
from agent_sdk.core.failpoints import Faults
from agent_sdk.core.ids import RandomIds
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import (
    CustomRecord,
    PermissionModeChangeRecord,
    Record,
    RewindRecord,
    SessionInfoRecord,
    TodoItem,
    TodoRecord,
)
from agent_sdk.session.storage import open_storage
from tests.support.session_files import CWD, CountingIds, StepClock, create, prompt, resume

SESSION = "model-session"
TEXTS = ("x", "ä 中文 \U0001f600", 'line\nbreak \u2028 \x00 \\ "', "y" * 3000, "z" * 30_000)


class Place(Protocol):
    """Where the session of one run is kept."""

    async def open(self) -> SessionManager:
        """Open the session, or begin it."""
        ...

    def arm(self, rng: random.Random) -> bool:
        """Let the next append run out of room; False if that cannot be had here."""
        ...

    async def crash(
        self, manager: SessionManager, drafts: Sequence[Record], rng: random.Random
    ) -> tuple[list[str], set[int]]:
        """Append, but end the program in the middle.

        Returns:
            The ids of the records, and how many of them may be left.
        """
        ...

    async def end(self) -> None:
        """Let go of everything."""
        ...


class FilePlace:
    """A session file, cut at any byte of the write that was going on."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ids = CountingIds()
        self._clock = StepClock()
        self._path: Path | None = None
        self._faults = Faults(name="none", nth=1, action="eio")

    def _arm(self, name: str, action: Any, nth: int = 1) -> None:
        self._faults.__init__(name=name, nth=nth, action=action)  # type: ignore[misc]

    async def open(self) -> SessionManager:
        more: dict[str, Any] = {"ids": self._ids, "clock": self._clock, "faults": self._faults}
        path = self._path
        if path is None or not path.exists() or b"\n" not in path.read_bytes():
            manager = await create(self._root, session_id=SESSION, **more)
        else:
            manager = await resume(self._root, SESSION, **more)
        self._path = manager.path
        return manager

    def arm(self, rng: random.Random) -> bool:
        self._arm("append.write", rng.choice(["enospc", "short"]))
        return True

    async def crash(
        self, manager: SessionManager, drafts: Sequence[Record], rng: random.Random
    ) -> tuple[list[str], set[int]]:
        path = self._path
        assert path is not None
        index = path.with_suffix(".index")
        before = path.read_bytes() if path.exists() else b""
        if b"\n" not in before:
            before = b""  # never begun: what is there is put aside
        kept_index = index.read_bytes() if index.exists() else None
        uuids = await manager.append(*drafts)
        after = path.read_bytes()
        assert after.startswith(before)
        await manager.close()
        cut = rng.choice([len(before), len(after), rng.randint(len(before), len(after))])
        left = after[:cut]
        lines = left[len(before) :].count(b"\n") - (0 if before else 1)
        survive = {max(lines, 0)}
        if cut < len(after) and rng.random() < 0.3:  # the size was there before the bytes
            left += b"\0" * rng.randint(1, 5000)
        _write_in_place(path, left)
        if kept_index is None:
            index.unlink(missing_ok=True)
        else:
            index.write_bytes(kept_index)
        if rng.random() < 0.2:
            await self._crash_while_mending(rng)
        return uuids, survive

    async def _crash_while_mending(self, rng: random.Random) -> None:
        """Let the next opening fail on the way; the one after it must do."""
        point = rng.choice(["copy.write", "truncate.cut", "append.open", "truncate.sync"])
        self._arm(point, "eio")
        with contextlib.suppress(StorageError):
            await (await self.open()).close()
        self._arm("none", "eio")

    async def end(self) -> None:
        shutil.rmtree(self._root)


def _write_in_place(path: Path, data: bytes) -> None:
    """Change a file's bytes without making another file of it."""
    with path.open("r+b") as stream:
        stream.write(data)
        stream.truncate()
        os.fsync(stream.fileno())


class SqlPlace:
    """A database in a file, whose write-ahead log is cut at any byte of the last write."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ids = CountingIds()
        self._clock = StepClock()
        self._number = 0
        self._database: SqlDatabase | None = None

    @property
    def _path(self) -> Path:
        return self._root / f"{self._number}.db"

    async def open(self) -> SessionManager:
        if self._database is None:
            self._database = await SqlDatabase.open(f"sqlite:///{self._path}")
        storage = sql_storage(self._database, user="u", session_id=SESSION, ids=RandomIds())
        return await open_storage(storage, cwd=CWD, ids=self._ids, clock=self._clock)

    def arm(self, rng: random.Random) -> bool:
        return False

    async def crash(
        self, manager: SessionManager, drafts: Sequence[Record], rng: random.Random
    ) -> tuple[list[str], set[int]]:
        assert self._database is not None
        wal = self._path.with_name(f"{self._path.name}-wal")
        safe = wal.stat().st_size
        old = wal.read_bytes()
        uuids = await manager.append(*drafts)
        whole, data = wal.read_bytes(), self._path.read_bytes()
        await manager.close()
        await self._database.close()
        self._number += 1
        grown = whole[:safe] == old and len(whole) > safe
        cut = rng.choice([safe, len(whole), rng.randint(safe, len(whole))]) if grown else len(whole)
        self._path.write_bytes(data)
        self._path.with_name(f"{self._path.name}-wal").write_bytes(whole[:cut])
        self._database = await SqlDatabase.open(f"sqlite:///{self._path}")
        await self._database.write(  # the lease of the program that has died
            lambda connection: connection.execute(update(sessions).values(expires_at=0.0))
        )
        return uuids, {len(uuids)} if cut == len(whole) else {0, len(uuids)}

    async def end(self) -> None:
        if self._database is not None:
            await self._database.close()
        shutil.rmtree(self._root)


class Run:
    """One random life of a session."""

    def __init__(self, place: Place, rng: random.Random) -> None:
        self._place = place
        self._rng = rng
        self._manager: SessionManager | None = None
        self._begun = False  # whether there is a header
        self._uuids: list[str] = []
        self._views: dict[str, list[tuple[str, str]]] = {}
        self._view: list[tuple[str, str]] = []
        self._todos: dict[str, tuple[TodoItem, ...]] = {}
        self._todo: tuple[TodoItem, ...] = ()
        self._title = ""
        self._mode = ""
        self.crashes = 0
        self.partial = 0

    async def go(self, steps: int) -> None:
        """Do random steps and look after each; raises AssertionError."""
        actions = (
            (self._append, 10),
            (self._append_at_once, 2),
            (self._full, 2),
            (self._close, 2),
            (self._crash, 3),
            (self._lock, 1),
        )
        choices, weights = zip(*actions, strict=True)
        for action in self._rng.choices(choices, weights, k=steps):
            await action()
            await self._look()
        await self._close()
        await self._look()
        await self._close()

    async def _open(self) -> SessionManager:
        if self._manager is None:
            self._manager = await self._place.open()
            self.partial += bool(self._manager.state.partial)
        return self._manager

    def _draft(self) -> Record:
        rng = self._rng
        match rng.randrange(8):
            case 0 if self._uuids:
                return RewindRecord(to_uuid=rng.choice(self._uuids), reason="rewind")
            case 1:
                return SessionInfoRecord(title=rng.choice(["a", "b 中", ""]))
            case 2:
                return PermissionModeChangeRecord(mode=rng.choice(["default", "plan"]))
            case 3:
                return TodoRecord(items=(TodoItem(rng.choice("abc")),))
            case 4:
                return CustomRecord(custom_type="c", data={"n": [1, None, "é"]})
        return prompt(rng.choices(TEXTS, (20, 8, 5, 5, 1))[0])

    def _note(self, uuid: str, draft: Record) -> None:
        if isinstance(draft, RewindRecord):
            self._view = self._views[draft.to_uuid]
            self._todo = self._todos[draft.to_uuid]
        elif isinstance(draft, SessionInfoRecord):
            self._title = draft.title if isinstance(draft.title, str) else ""
        elif isinstance(draft, PermissionModeChangeRecord):
            self._mode = draft.mode
        elif isinstance(draft, TodoRecord):
            self._todo = draft.items
        elif not isinstance(draft, CustomRecord):
            text = "".join(block.text for block in draft.message.content)  # type: ignore[union-attr]
            self._view = [*self._view, (uuid, text)]
        self._begun = True
        self._uuids.append(uuid)
        self._views[uuid] = self._view
        self._todos[uuid] = self._todo

    async def _append(self) -> None:
        drafts = [self._draft() for _ in range(self._rng.randint(1, 3))]
        uuids = await (await self._open()).append(*drafts)
        for uuid, draft in zip(uuids, drafts, strict=True):
            self._note(uuid, draft)

    async def _append_at_once(self) -> None:
        manager = await self._open()
        drafts = [prompt(f"n{number}") for number in range(self._rng.randint(2, 4))]
        for (uuid,), draft in zip(
            await asyncio.gather(*(manager.append(draft) for draft in drafts)), drafts, strict=True
        ):
            self._note(uuid, draft)

    async def _full(self) -> None:
        manager = await self._open()
        if not self._place.arm(self._rng):
            return
        try:
            await manager.append(*(prompt("lost") for _ in range(self._rng.randint(1, 3))))
        except DiskFull:
            assert not manager.read_only
        else:
            raise AssertionError("there was room on a full disk")

    async def _crash(self) -> None:
        manager = await self._open()
        drafts = [self._draft() for _ in range(self._rng.randint(1, 4))]
        uuids, may_be_left = await self._place.crash(manager, drafts, self._rng)
        self._manager = None
        self.crashes += 1
        manager = await self._open()
        self._begun = bool(manager.state.count)
        left = manager.state.count - self._begun - len(self._uuids)
        assert left in may_be_left, f"{left} of {len(uuids)} are left, not {may_be_left}"
        for uuid, draft in zip(uuids[:left], drafts, strict=False):
            self._note(uuid, draft)

    async def _lock(self) -> None:
        await self._open()
        if not self._begun:
            return
        try:
            await self._place.open()
        except SessionLocked:
            return
        raise AssertionError("two writers")

    async def _close(self) -> None:
        manager, self._manager = self._manager, None
        if manager is not None:
            await manager.close()

    async def _look(self) -> None:
        state = (await self._open()).state
        assert state.count == len(self._uuids) + self._begun
        if self._uuids:
            assert state.last_uuid == self._uuids[-1]
        assert state.message_uuids == [uuid for uuid, _ in self._view]
        assert [message.text for message in state.messages] == [text for _, text in self._view]
        assert (state.title, state.permission_mode) == (self._title, self._mode)
        assert state.todos == self._todo
