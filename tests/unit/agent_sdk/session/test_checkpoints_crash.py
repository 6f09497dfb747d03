"""A rewind, and a change, in which the process ends: at every step that can be told apart."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typing_extensions import override

from agent_sdk.core.errors import StorageError
from agent_sdk.core.failpoints import Action, Faults
from agent_sdk.tools.file_state import Planned, Wanted, sha256
from tests.support.rewinds import RewindBench, opened, without_syncs
from tests.support.session_files import CountingIds

OLD = {"a": b"old a", "b": b"old b", "gone": b"old gone"}
NEW = {"a": b"new a", "b": b"new b", "made": b"new made"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_syncs(monkeypatch)


class PowerCut(BaseException):
    """Nothing runs after it."""


class Cut(Faults):
    """From the n-th step on, whatever shall be made durable fails without a word."""

    def __init__(self, nth: int, name: str = "*") -> None:
        super().__init__(name=name, nth=nth, action="kill")
        self.armed = False
        self.off = False

    @override
    def strike(self, point: str) -> Action | None:
        if self.armed:
            self.off = self.off or super().strike(point) is not None
            if self.off:
                raise PowerCut(point)
        return None


async def begin(root: Path) -> str:
    """Write a session that has changed, made and deleted; return its prompt."""
    async with opened(root) as bench:
        for name, content in OLD.items():
            bench.tools.put(name, content)
        first = await bench.say()
        for name in ("a", "b", "made"):
            await bench.put(name, f"new {name}")
        # There is no tool yet that deletes, but the tools' own commit can.
        await delete(bench, "gone")
        assert bench.files() == NEW
        return first


async def delete(bench: RewindBench, name: str) -> None:
    resolved = bench.tools.guard.resolve(name, bench.tools.cwd, existing=True)
    planned = Planned(data=None, lines=0, text="", facts={})
    await bench.tools.state.change_all(
        [Wanted(resolved=resolved, plan=lambda _: planned, unseen=True)], call_id="c"
    )


async def cut_rewind(root: Path, first: str, cut: Cut, *, ids: int = 600_000) -> bool:
    """Rewind with the power cut at a step; return whether it came to its end before."""
    async with opened(root, faults=cut, ids=CountingIds(ids)) as bench:
        preview = await bench.rewind.preview(first, what="both")
        cut.armed = True
        try:
            await bench.rewind.commit(preview)
        except PowerCut:
            return False
        finally:
            cut.armed = False
    return True


async def test_power_cut_at_every_step(tmp_path: Path) -> None:
    first = await begin(tmp_path)
    nth, seen, done = 0, set(), False
    while not done:
        nth += 1
        forget(tmp_path, NEW)
        done = await cut_rewind(tmp_path, first, Cut(nth), ids=nth * 10_000)
        async with opened(tmp_path, ids=CountingIds(nth * 10_000 + 5_000)) as bench:
            rewinds = len((await bench.rewind._log()).rewinds)
            notice = await bench.rewind.recover()
            files, talk = bench.files(), len(bench.manager.state.message_uuids)
            assert (files, talk) in ((OLD, 0), (NEW, 1)), nth
            assert bench.store.plan() is None
            assert await bench.rewind.recover() is None
            seen.add((files == OLD, notice.code if notice else ""))
            assert len((await bench.rewind._log()).rewinds) == rewinds
            if files == OLD or nth % 5 == 0:
                await there_and_back(bench, first)
    assert nth > 30
    assert seen == {
        (False, ""),  # nothing had been begun
        (False, "rewind_taken_back"),
        (True, "rewind_finished"),
        (True, ""),  # all had been done
    }


def forget(root: Path, contents: dict[str, bytes]) -> None:
    """Take contents out of the store, so that they must be stored again."""
    for content in contents.values():
        for path in (root / "sessions").glob(f"*/*/checkpoints/{sha256(content)}"):
            path.unlink()


async def there_and_back(bench: RewindBench, first: str) -> None:
    """Whatever has happened, the way back and its undo are open."""
    if bench.files(killed=True) == NEW:
        done = await bench.back(first, what="both")
    else:
        *_, done = (await bench.rewind._log()).rewinds
    assert bench.files(killed=True) == OLD
    await bench.undo(done)
    assert bench.files(killed=True) == NEW
    assert len(bench.manager.state.message_uuids) == 1


async def test_recovery_is_cut_too(tmp_path: Path) -> None:
    """As often as it is cut, the next one ends it."""
    first = await begin(tmp_path)
    assert not await cut_rewind(tmp_path, first, Cut(3, "at.dirsync"))
    rounds = 0
    while True:
        rounds += 1
        cut = Cut(rounds)
        async with opened(tmp_path, faults=cut, ids=CountingIds(700_000 + rounds * 100)) as bench:
            assert bench.store.plan() is not None
            cut.armed = True
            try:
                notice = await bench.rewind.recover()
            except PowerCut:
                continue
            finally:
                cut.armed = False
            assert notice is not None
            assert bench.files() == NEW
            assert bench.store.plan() is None
            break
    assert rounds > 5


async def test_what_others_did_after_the_cut_stays(tmp_path: Path) -> None:
    first = await begin(tmp_path)
    assert not await cut_rewind(tmp_path, first, Cut(2, "at.dirsync"))
    async with opened(tmp_path) as bench:
        changed = {name for name in NEW if bench.files().get(name) != NEW[name]}
        assert changed, "the cut came before any file was changed"
        theirs = min(changed)
        bench.tools.at(theirs).unlink(missing_ok=True)
        bench.tools.at(theirs).mkdir()
        bench.tools.put(f"{theirs}/x", "theirs")
        notice = await bench.rewind.recover()
        assert notice is not None
        assert notice.code == "rewind_conflict"
        assert str(bench.tools.at(theirs)) in notice.text
        assert bench.files() == {n: c for n, c in NEW.items() if n != theirs} | {
            f"{theirs}/x": b"theirs"
        }
        assert bench.store.plan() is None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize(
    "point", ["replace.done:4", "at.rename:2", "at.remove:1", "remove.unlink:1"]
)
async def test_killed(tmp_path: Path, point: str) -> None:
    first = await begin(tmp_path)
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.support.rewinds import opened\n"
        "from tests.support.session_files import CountingIds\n"
        "from agent_sdk.core.failpoints import PROCESS_FAULTS\n"
        "async def main():\n"
        "    ids = CountingIds(600_000)\n"
        "    async with opened(Path(sys.argv[1]), ids=ids, faults=PROCESS_FAULTS) as bench:\n"
        "        await bench.back(sys.argv[2])\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "ZPI_TEST_BUILD": "1", "ZPI_FAILPOINT": f"{point}:kill"}
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), first], env=environment, check=False
    )
    assert ended.returncode == -9
    async with opened(tmp_path, ids=CountingIds(700_000)) as bench:
        notice = await bench.rewind.recover()
        assert notice is not None
        finished = notice.code == "rewind_finished"
        assert finished == (point == "remove.unlink:1")
        assert bench.files(killed=True) == (OLD if finished else NEW)
        await there_and_back(bench, first)


async def test_change_that_is_cut_can_be_rewound(tmp_path: Path) -> None:
    """A tool's change of one file: before or after it, never in between."""
    nth, ended = 0, False
    while not ended:
        nth += 1
        root = tmp_path / str(nth)
        root.mkdir()
        cut = Cut(nth)
        async with opened(root, faults=cut) as bench:
            bench.tools.put("a", "old")
            first = await bench.say()
            cut.armed = True
            try:
                await bench.put("a", "new")
                ended = True
            except PowerCut:
                assert bench.tools.at("a").read_bytes() in (b"old", b"new")
            cut.armed = False
        async with opened(root, ids=CountingIds(700_000)) as bench:
            await bench.back(first)
            assert bench.files() == {"a": b"old"}, nth
    assert nth > 10


@pytest.mark.parametrize("lost", range(6))
async def test_records_that_were_not_all_stored(tmp_path: Path, lost: int) -> None:
    """The last write may come to the disk in part: the mark says what it comes to."""
    first = await begin(tmp_path)
    assert not await cut_rewind(tmp_path, first, Cut(1, "remove.unlink"))
    (file,) = (tmp_path / "sessions").glob("*/*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    kinds = [line[9:20] for line in lines[-6:]]
    assert kinds == [*[b"file_change"] * 4, b'custom","uu', b'rewind","uu']
    file.write_bytes(b"".join(lines[: len(lines) - lost]))
    async with opened(tmp_path, ids=CountingIds(700_000)) as bench:
        notice = await bench.rewind.recover()
        assert notice is not None
        assert notice.code == ("rewind_finished" if lost < 2 else "rewind_taken_back")
        assert bench.files() == (OLD if lost < 2 else NEW)
        assert len(bench.manager.state.message_uuids) == (0 if lost < 2 else 1)
        await there_and_back(bench, first)


async def test_damaged_plan_is_said(tmp_path: Path) -> None:
    first = await begin(tmp_path)
    async with opened(tmp_path) as bench:
        bench.store.set_plan(b"{")
        notice = await bench.rewind.recover()
        assert notice is not None
        assert notice.code == "rewind_unsettled"
        assert "damaged" in notice.text
        assert "rewind.json" in notice.text
        with pytest.raises(StorageError, match="damaged"):
            await bench.back(first)
        assert bench.files() == NEW


async def test_file_that_cannot_be_put_back_now(tmp_path: Path) -> None:
    """It is tried again, and until then there is no other rewind."""
    first = await begin(tmp_path)
    assert not await cut_rewind(tmp_path, first, Cut(2, "at.dirsync"))
    async with opened(tmp_path, ids=CountingIds(700_000)) as bench:
        changed = [name for name in ("a", "b") if bench.files().get(name) == OLD[name]]
        for name in changed:
            bench.tools.at(name).chmod(0o444)
        assert changed
        notice = await bench.rewind.recover()
        assert notice is not None
        assert notice.code == "rewind_unsettled"
        with pytest.raises(StorageError, match="read-only"):
            await bench.back(first, what="conversation")
        for name in changed:
            bench.tools.at(name).chmod(0o644)
        notice = await bench.rewind.recover()
        assert notice is not None
        assert notice.code == "rewind_taken_back"
        await there_and_back(bench, first)
