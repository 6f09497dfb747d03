"""A session's file against a plain list, with crashes in between."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from agent_sdk.core.errors import DiskFull, SessionLocked, SessionNotFound
from agent_sdk.core.failpoints import Faults
from agent_sdk.session.codec import chain_break
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import RewindRecord, RunRecord
from tests.support.session_files import CountingIds, StepClock, create, prompt, resume

SID = "machine-session"


class SessionMachine(RuleBasedStateMachine):
    """Appends, cuts, fills disks and reopens; the model is what was acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp(prefix="zpi-machine-"))
        self.ids = CountingIds()
        self.clock = StepClock()
        self.faults = Faults(name="none", nth=1, action="eio")
        self.acknowledged: list[str] = []
        self.view: list[str] = []
        self.views: dict[str, list[str]] = {}
        self.manager: SessionManager | None = None
        self.path: Path | None = None

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def open(self) -> SessionManager:
        if self.manager is None:
            more: dict[str, Any] = {"ids": self.ids, "clock": self.clock, "faults": self.faults}
            if self.acknowledged:
                self.manager = self.run(resume(self.root, SID, **more))
            else:
                self.manager = self.run(create(self.root, session_id=SID, **more))
            self.path = self.manager.path
        return self.manager

    def note(self, uuids: list[str], texts: list[str]) -> None:
        for uuid, text in zip(uuids, texts, strict=True):
            self.acknowledged.append(uuid)
            self.view = [*self.view, text]
            self.views[uuid] = self.view

    @initialize()
    def begin(self) -> None:
        self.open()

    @rule(texts=st.lists(st.text(min_size=1, max_size=8).map(lambda t: "x" + t), max_size=3))
    def append(self, texts: list[str]) -> None:
        uuids = self.run(self.open().append(*(prompt(text) for text in texts)))
        clean = [t.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for t in texts]
        self.note(uuids, clean)

    @rule(count=st.integers(2, 5))
    def append_at_once(self, count: int) -> None:
        manager = self.open()

        async def all_of_them() -> list[list[str]]:
            return list(
                await asyncio.gather(*(manager.append(prompt(f"n{n}")) for n in range(count)))
            )

        for number, uuids in enumerate(self.run(all_of_them())):
            self.note(uuids, [f"n{number}"])

    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        if self.acknowledged:
            target = data.draw(st.sampled_from(sorted(self.views)))
            record = RewindRecord(to_uuid=target, reason="rewind")
            (uuid,) = self.run(self.open().append(record))
            self.acknowledged.append(uuid)
            self.view = self.views[uuid] = self.views[target]

    @rule(action=st.sampled_from(["enospc", "short"]), size=st.integers(1, 3))
    def append_to_a_full_disk(self, action: Any, size: int) -> None:
        manager = self.open()
        self.faults.__init__(name="append.write", nth=1, action=action)  # type: ignore[misc]
        with pytest.raises(DiskFull):
            self.run(manager.append(*(prompt("lost") for _ in range(size))))

    @rule()
    def close(self) -> None:
        if self.manager is not None:
            self.run(self.manager.close())
            self.manager = None

    @rule(tail=st.binary(max_size=40).filter(lambda b: b"\n" not in b), whole=st.booleans())
    def crash_in_a_write(self, tail: bytes, whole: bool) -> None:
        """Leave what a write that was cut off leaves; it was not acknowledged."""
        self.close()
        if self.path is not None and self.acknowledged:
            with self.path.open("ab") as stream:
                if whole:
                    line = self.path.read_bytes().splitlines()[-1]
                    stream.write(line[: len(line) // 2])
                stream.write(tail)

    @rule()
    def crash_in_a_run(self) -> None:
        manager = self.open()
        (uuid,) = self.run(manager.append(RunRecord(event="start", run_id="r")))
        self.acknowledged.append(uuid)
        self.views[uuid] = self.view
        self.close()
        manager = self.open()
        assert manager.state.open_run == ""
        assert manager.state.last_uuid is not None
        self.acknowledged.append(manager.state.last_uuid)
        self.views[manager.state.last_uuid] = self.view

    @rule()
    def second_writer(self) -> None:
        manager = self.open()
        if self.acknowledged:
            with pytest.raises(SessionLocked):
                self.run(resume(self.root, SID))
            assert not manager.read_only

    @invariant()
    def nothing_is_lost(self) -> None:
        if not self.acknowledged:
            with pytest.raises(SessionNotFound):
                self.run(resume(self.root, SID, read_only=True))
            return
        reader = self.run(resume(self.root, SID, read_only=True))
        self.run(reader.close())
        assert reader.state.count == len(self.acknowledged) + 1
        assert reader.state.last_uuid == self.acknowledged[-1]
        assert [message.text for message in reader.state.messages] == self.view
        if self.manager is not None:
            assert self.path is not None
            assert self.manager.state.messages == reader.state.messages
            assert self.manager.state.message_uuids == reader.state.message_uuids
            assert chain_break(self.path.read_bytes().splitlines()) is None

    @override
    def teardown(self) -> None:
        self.close()
        self.loop.close()
        shutil.rmtree(self.root)


TestSession = SessionMachine.TestCase
TestSession.settings = settings(settings.default, max_examples=25, stateful_step_count=18)
