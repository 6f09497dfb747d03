"""Files, a session and somebody else, by chance, against what each of them has written."""

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from agent_sdk.core.errors import FileConflict
from agent_sdk.tools.file_state import sha256
from tests.support.rewinds import RewindBench, opened, without_syncs
from tests.support.session_files import CountingIds

NAMES = st.sampled_from(["a", "d/c"])
CONTENTS = st.sampled_from(["", "one\n", "two\n", "one\ntwo\n", "x" * 20_000])


class RewindMachine(RuleBasedStateMachine):
    """The model: what is on the disk, and what was there at each prompt.

    What somebody else has written and nobody has changed since must never be
    overwritten; whatever is overwritten must be kept.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.patch = pytest.MonkeyPatch()
        without_syncs(self.patch)
        self.root = Path(tempfile.mkdtemp(prefix="zpi-rewind-"))
        self.ids = 0
        self.stack = AsyncExitStack()
        self.bench: RewindBench | None = None
        self.disk: dict[str, bytes] = {}
        self.prompts: list[tuple[str, dict[str, bytes]]] = []
        self.foreign: list[set[str]] = []  # since each prompt
        self.rewinds: dict[str, tuple[dict[str, bytes], dict[str, bytes]]] = {}
        self.touched: dict[str, set[str]] = {}  # since each rewind, by others or by us
        self.fresh: dict[str, bytes] = {}  # what only somebody else has ever written
        self.count = 0

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @property
    def open(self) -> RewindBench:
        assert self.bench is not None
        return self.bench

    def touch(self, name: str, *, theirs: bool) -> None:
        self.fresh.pop(name, None)
        if theirs:
            for since in self.foreign:
                since.add(name)
        for since in self.touched.values():
            since.add(name)

    @initialize(writes=st.lists(st.tuples(NAMES, CONTENTS), max_size=3))
    def begin(self, writes: list[tuple[str, str]]) -> None:
        self.start()
        for name, content in writes:
            self.open.tools.put(name, content)
            self.disk[name] = content.encode()
        self.turn([("a", "one\n"), ("d/c", "two\n")])

    def start(self) -> None:
        self.ids += 100_000
        self.stack = AsyncExitStack()
        self.bench = self.run(
            self.stack.enter_async_context(opened(self.root, ids=CountingIds(self.ids)))
        )
        assert self.run(self.open.rewind.recover()) is None

    @rule()
    def restart(self) -> None:
        self.run(self.stack.aclose())
        self.start()

    @rule(writes=st.lists(st.tuples(NAMES, CONTENTS), max_size=3))
    def turn(self, writes: list[tuple[str, str]]) -> None:
        """Somebody asks, and the model writes."""
        self.prompts.append((self.run(self.open.say()), dict(self.disk)))
        self.foreign.append(set())
        for name, content in writes:
            if self.disk.get(name) != content.encode():
                self.run(self.open.put(name, content))
                self.disk[name] = content.encode()
                self.touch(name, theirs=False)

    @rule(name=NAMES, content=st.one_of(CONTENTS, st.just("new"), st.none()))
    def somebody_else(self, name: str, content: str | None) -> None:
        """Another program writes: what was seen before, something new, or nothing."""
        if content is None:
            self.open.tools.at(name).unlink(missing_ok=True)
            self.disk.pop(name, None)
            self.touch(name, theirs=True)
            return
        if new := content == "new":
            self.count += 1
            content = f"theirs {self.count}"
        self.open.tools.put(name, content)
        self.disk[name] = content.encode()
        self.touch(name, theirs=True)
        if new:
            self.fresh[name] = content.encode()

    @precondition(lambda self: self.prompts)
    @rule(data=st.data())
    def go_back(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.prompts) - 1))
        uuid, then = self.prompts[at]
        wanted = {**{n: c for n, c in self.disk.items() if n in self.foreign[at]}}
        wanted |= {n: c for n, c in then.items() if n not in self.foreign[at]}
        preview = self.run(self.open.rewind.preview(uuid))
        if not self.foreign[at]:
            assert preview.possible, preview.problems
        if not preview.possible:
            assert {p.shown for p in preview.problems} <= self.foreign[at]
            with pytest.raises(FileConflict):
                self.run(self.open.rewind.commit(preview))
            return
        done = self.run(self.open.rewind.commit(preview))
        self.settled(done, preview, wanted, foreign=self.foreign[at])

    def settled(
        self, done: str, preview: Any, wanted: dict[str, bytes], *, foreign: set[str]
    ) -> None:
        now = self.open.files()
        # What others have touched may go back where they have left only what was known.
        assert {n: c for n, c in now.items() if n not in foreign} == {
            n: c for n, c in wanted.items() if n not in foreign
        }
        assert bool(done) == bool(preview.files)
        assert {n: now.get(n) for n in self.fresh} == self.fresh
        lost = [c for n, c in self.disk.items() if now.get(n) != c]
        assert all(self.open.store.get(sha256(c)) == c for c in lost)
        before, self.disk = self.disk, now
        for file in preview.files:
            self.touch(file.shown, theirs=False)
        if done:
            self.rewinds[done] = (before, dict(now))
            self.touched[done] = set()

    @precondition(lambda self: self.rewinds)
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        done = data.draw(st.sampled_from(sorted(self.rewinds)))
        before, after = self.rewinds[done]
        names = {n for n in {*before, *after} if before.get(n) != after.get(n)}
        preview = self.run(self.open.rewind.preview_undo(done))
        if names & self.touched[done]:
            return  # the rules for these are in the other tests; nothing is changed here
        assert preview.possible
        again = self.run(self.open.rewind.commit(preview))
        assert {n: self.open.files().get(n) for n in names} == {n: before.get(n) for n in names}
        wanted = {n: c for n, c in self.disk.items() if n not in names}
        wanted |= {n: c for n, c in before.items() if n in names}
        self.settled(again, preview, wanted, foreign=set())

    @invariant()
    def disk_is_as_told(self) -> None:
        if self.bench is not None:
            assert self.bench.files() == self.disk

    @override
    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.loop.close()
        self.patch.undo()
        shutil.rmtree(self.root)


RewindMachine.TestCase.settings = settings(
    settings.default, max_examples=25, stateful_step_count=25
)
TestRewinds = RewindMachine.TestCase
