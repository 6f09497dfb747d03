import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from agent_sdk.core.errors import DiskFull, InvalidInput, StaleFile, ToolError
from agent_sdk.core.failpoints import Faults
from agent_sdk.tools.file_history import FileFacts, PendingChange
from agent_sdk.tools.file_state import FileReadState, Planned, Wanted, in_thread, sha256
from tests.support.file_tools import Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path)
    bench.put("a", "one\ntwo\n")
    return bench


async def test_changed_since(bench: Workbench) -> None:
    await bench.read("a")
    bench.put("a", "one\nTWO\n")
    with pytest.raises(StaleFile, match=r"changed on disk since it was read.*Read it again"):
        await bench.edit("a", "one", "1")
    await bench.read("a")
    await bench.edit("a", "one", "1")


async def test_same_size_and_time_do_not_hide_a_change(bench: Workbench) -> None:
    await bench.read("a")
    before = bench.at("a").stat()
    with bench.at("a").open("r+b") as file:
        file.write(b"ONE")
    os.utime(bench.at("a"), ns=(before.st_atime_ns, before.st_mtime_ns))
    after = bench.at("a").stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )
    with pytest.raises(StaleFile, match="changed on disk"):
        await bench.write("a", "x")


async def test_touched_or_rewritten_alike_is_still_known(bench: Workbench) -> None:
    await bench.read("a")
    os.utime(bench.at("a"), (0, 0))
    await bench.edit("a", "one", "1")
    bench.at("a").unlink()
    bench.put("a", "1\ntwo\n")
    await bench.edit("a", "two", "2")
    assert bench.at("a").read_text() == "1\n2\n"


async def test_deleted_since(bench: Workbench) -> None:
    await bench.read("a")
    bench.at("a").unlink()
    result = await bench.write("a", "new\n")
    assert result.details["fileChange"]["operation"] == "created"


async def test_known_under_every_path_to_it(bench: Workbench) -> None:
    bench.at("link").symlink_to("a")
    await bench.read("link")
    await bench.edit("./a", "one", "1")


async def test_new_state_knows_nothing(bench: Workbench) -> None:
    await bench.read("a")
    with pytest.raises(StaleFile):
        await Workbench(Path(bench.cwd)).write("a", "x")


async def test_forgotten(bench: Workbench) -> None:
    await bench.read("a")
    view = bench.state.view(f"{bench.cwd}/a")
    assert view is not None
    assert view.whole
    assert view.size == 8
    bench.state.forget(f"{bench.cwd}/a")
    with pytest.raises(StaleFile):
        await bench.write("a", "x")


def test_ranges_are_joined(bench: Workbench) -> None:
    state = FileReadState()
    status = bench.at("a").stat()
    for seen in [(5, 6), (1, 2), (8, 9), (3, 3), (0, 0), (2, 1)]:
        state.note_read("/a", digest="d", status=status, lines=9, seen=seen)
    view = state.view("/a")
    assert view is not None
    assert view.seen == ((0, 3), (5, 6), (8, 9))
    state.note_read("/a", digest="other", status=status, lines=9, seen=(4, 4))
    view = state.view("/a")
    assert view is not None
    assert view.seen == ((4, 4),)


async def test_parallel_edits_of_one_file_all_succeed(bench: Workbench) -> None:
    bench.put("a", "".join(f"v{n} = 0\n" for n in range(6)))
    await bench.read("a")
    await asyncio.gather(*(bench.edit("a", f"v{n} = 0", f"v{n} = {n}\n#") for n in range(6)))
    assert bench.at("a").read_text() == "".join(f"v{n} = {n}\n#\n" for n in range(6))


async def test_parallel_creation_has_one_winner(bench: Workbench, tmp_path: Path) -> None:
    others = [Workbench(tmp_path) for _ in range(6)]  # sessions that know nothing of each other
    results = await asyncio.gather(
        *(other.write("new", f"{n}\n") for n, other in enumerate(others)), return_exceptions=True
    )
    refused = [r for r in results if isinstance(r, StaleFile)]
    assert len(refused) == 5
    assert bench.at("new").read_text() in {f"{n}\n" for n in range(6)}


async def test_locks_do_not_pile_up(bench: Workbench) -> None:
    for n in range(20):
        await bench.write(f"f{n}", "x")
    assert len(bench.state._locks) == 0


async def test_cancelled_change_is_waited_for() -> None:
    begun, go, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait(10)
        done.set()

    task = asyncio.ensure_future(in_thread(work))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


# --------------------------------------------------------------- several files


class Kept:
    """A history that only listens."""

    def __init__(self, bench: Workbench, *, error: Exception | None = None) -> None:
        self.told: list[Sequence[PendingChange]] = []
        self.disk: list[dict[str, bytes]] = []
        self._bench = bench
        self._error = error

    async def before_change(self, changes: Sequence[PendingChange]) -> None:
        self.told.append(changes)
        self.disk.append(contents(self._bench))
        if self._error is not None:
            raise self._error


def contents(bench: Workbench) -> dict[str, bytes]:
    folder = Path(bench.cwd)
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def wanted(bench: Workbench, name: str, data: bytes | None, **more: Any) -> Wanted:
    resolved = bench.guard.resolve(name, bench.cwd, existing=False)
    planned = Planned(data=data, lines=1, text=f"did {name}", facts={}, mode=more.pop("mode", None))
    return Wanted(resolved=resolved, plan=lambda _: planned, **more)


async def three(bench: Workbench) -> list[Wanted]:
    """Read and return changes of three files: one is made, one changed, one deleted."""
    bench.put("gone", "gone\n")
    await bench.read("a")
    await bench.read("gone")
    return [
        wanted(bench, "new/b", b"b\n", mode=0o750),
        wanted(bench, "a", b"1\n"),
        wanted(bench, "gone", None),
    ]


async def test_several_files_in_one_change(bench: Workbench) -> None:
    bench.at("a").chmod(0o640)
    kept = Kept(bench)
    bench = Workbench(Path(bench.cwd), state=FileReadState(history=kept))
    work = await three(bench)
    before = contents(bench)
    made, changed, deleted = await bench.state.change_all(work, call_id="c1")
    assert contents(bench) == {"new/b": b"b\n", "a": b"1\n"}
    assert bench.at("new/b").stat().st_mode & 0o777 == 0o750
    assert bench.at("a").stat().st_mode & 0o777 == 0o640
    assert (made.created, made.before, made.after) == (True, "", sha256(b"b\n"))
    assert (changed.created, changed.after) == (False, sha256(b"1\n"))
    assert (deleted.before, deleted.after) == (sha256(b"gone\n"), "")

    ((b, a, gone),) = kept.told
    assert kept.disk == [before], "a history is told before anything is touched"
    assert {one.call_id for one in (b, a, gone)} == {"c1"}
    assert (b.before, b.content) == (None, None)
    assert b.after == FileFacts(sha256(b"b\n"), 2, 0o750)
    assert a.path == f"{bench.cwd}/a"
    assert a.content == b"one\ntwo\n"
    assert a.before == FileFacts(sha256(b"one\ntwo\n"), 8, 0o640)
    assert a.after == FileFacts(sha256(b"1\n"), 2, 0o640)
    assert gone.after is None

    await bench.edit("a", "1", "2")
    assert kept.told[1][0].call_id == "call"
    await bench.edit("new/b", "b", "c")
    assert bench.state.view(f"{bench.cwd}/gone") is None
    assert len(bench.state._locks) == 0


async def test_nothing_to_write_is_no_change(bench: Workbench) -> None:
    kept = Kept(bench)
    bench = Workbench(Path(bench.cwd), state=FileReadState(history=kept))
    await bench.read("a")
    await bench.write("a", "one\ntwo\n")
    await bench.state.change_all([wanted(bench, "missing", None)])
    assert kept.told == []


async def test_history_that_cannot_keep_it(bench: Workbench) -> None:
    for error in (DiskFull("No space.", hint="Make some."), InvalidInput("No.")):
        state = FileReadState(history=Kept(bench, error=error))
        other = Workbench(Path(bench.cwd), state=state)
        work = await three(other)
        before = contents(bench)
        with pytest.raises(ToolError, match="Nothing was changed"):
            await state.change_all(work)
        assert contents(bench) == before


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        *((point, nth) for point in ("at.check", "at.dirsync") for nth in (1, 2, 3)),
        *((point, nth) for point in ("at.write", "at.rename") for nth in (1, 2)),
        ("at.remove", 1),
    ],
)
async def test_failure_takes_back_what_was_done(bench: Workbench, point: str, nth: int) -> None:
    bench.state._faults = Faults(name=point, nth=nth, action="eio")
    work = await three(bench)
    before = contents(bench)
    with pytest.raises(ToolError):
        await bench.state.change_all(work)
    assert contents(bench) == before
    bench.state._faults = None
    await bench.state.change_all(work)
    assert contents(bench) == {"new/b": b"b\n", "a": b"1\n"}


async def test_what_cannot_be_taken_back_is_named(bench: Workbench) -> None:
    class Broken(Faults):
        @override
        def act(self, point: str) -> None:
            if point == "at.remove":
                bench.put("a", "theirs\n")  # somebody is quicker
            super().act(point)

    bench.state._faults = Broken(name="at.remove", nth=1, action="eio")
    work = await three(bench)
    with pytest.raises(ToolError, match=r"change of 'a' could not be taken back"):
        await bench.state.change_all(work)
    assert contents(bench) == {"a": b"theirs\n", "gone": b"gone\n"}


async def test_one_that_is_refused_refuses_all(bench: Workbench) -> None:
    work = await three(bench)
    bench.put("unread", "x")
    before = contents(bench)
    with pytest.raises(StaleFile, match="'unread'"):
        await bench.state.change_all([*work, wanted(bench, "unread", b"y")])
    with pytest.raises(InvalidInput, match="named twice"):
        await bench.state.change_all([*work, wanted(bench, "./a", b"y")])
    assert contents(bench) == before


async def test_changes_that_share_files_do_not_wait_for_each_other(bench: Workbench) -> None:
    for n in range(6):
        bench.put(f"f{n}", "0")
    order = [wanted(bench, f"f{n}", b"1", unseen=True) for n in range(6)]
    async with asyncio.timeout(20):
        await asyncio.gather(*(bench.state.change_all(order[:: (-1) ** n]) for n in range(8)))
    assert set(contents(bench).values()) == {b"1", b"one\ntwo\n"}
