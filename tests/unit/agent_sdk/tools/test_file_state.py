import asyncio
import os
import threading
from pathlib import Path

import pytest

from agent_sdk.core.errors import StaleFile
from agent_sdk.tools.file_state import FileReadState, in_thread
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
