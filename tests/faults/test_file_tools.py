"""What happens to files when somebody or something interferes."""

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typing_extensions import override

from agent_sdk.core.errors import ToolError
from agent_sdk.core.failpoints import Action, Faults
from agent_sdk.core.fsio_at import Folder, PathMoved, read_regular
from tests.support.file_tools import Workbench

if sys.platform == "win32":
    pytest.skip("links, pipes and signals", allow_module_level=True)

POINTS = ("at.create", "at.write", "at.sync", "at.check", "at.rename", "at.dirsync")
OLD, NEW = "old\n" * 100, "new\n" * 100


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    folder = tmp_path / "project"
    folder.mkdir()
    return Workbench(folder)


# ------------------------------------------------------- things that are no files


async def test_pipe_is_not_waited_for(bench: Workbench) -> None:
    os.mkfifo(bench.at("pipe"))
    with pytest.raises(ToolError, match="named pipe; it was not opened"):
        await bench.read("pipe")


async def test_socket(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bench.cwd)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(ToolError, match="socket"):
            await bench.read("s")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/tty", "/dev/urandom"])
async def test_device(bench: Workbench, path: str) -> None:
    with pytest.raises(ToolError, match="a device; it was not opened"):
        await bench.read(path)


async def test_standard_input_that_is_a_pipe(bench: Workbench) -> None:
    reader, writer = os.pipe()
    try:
        with pytest.raises(ToolError):
            await bench.read(f"/dev/fd/{reader}")
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
async def test_files_that_say_they_are_empty(bench: Workbench) -> None:
    text = await bench.read("/proc/self/status")
    assert "\tPid:" in text.replace("Pid:\t", "\tPid:")
    with pytest.raises(ToolError, match="binary"):
        await bench.read("/proc/self/environ")


async def test_sparse_giant(bench: Workbench) -> None:
    with bench.at("giant").open("wb") as file:
        file.truncate(50 * 1024**3)
    with pytest.raises(ToolError, match=r"53,687,091,200 bytes.*sed -n"):
        await bench.read("giant")


async def test_file_that_grows_while_it_is_read(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.put("log", "line\n" * 10)
    real_read = os.read
    reads = 0

    def read(fd: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        with path.open("ab") as file:
            file.write(b"x" * 4_000_000)
        return real_read(fd, size)

    monkeypatch.setattr(os, "read", read)
    with pytest.raises(ToolError, match="more than this tool takes"):
        await bench.read("log")
    assert reads < 1_000


# ------------------------------------------------------------------------ links


async def test_link_out_of_the_folder_asks_for_its_target(bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    bench.at("link").symlink_to(tmp_path / "outside")
    for tool, more in (
        ("read", {}),
        ("write", {"content": "x"}),
        ("edit", {"old_string": "a", "new_string": "b"}),
    ):
        keys = [r.permission for r in bench.requests(tool, file_path="link/x", **more)]
        assert keys[1:] == ["external_directory"]


async def test_dangling_link_that_is_swapped_after_the_question(
    bench: Workbench, tmp_path: Path
) -> None:
    bench.at("link").symlink_to(tmp_path / "project" / "new")
    args, _ = bench.prepare("write", file_path="link", content="x")
    bench.at("link").unlink()
    bench.at("link").symlink_to(tmp_path / "outside")
    with pytest.raises(ToolError, match="leads elsewhere now"):
        await bench.run("write", args)
    assert not (tmp_path / "outside").exists()
    assert not bench.at("new").exists()


async def test_folder_that_becomes_a_link_after_the_question(
    bench: Workbench, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("secret")
    bench.put("src/a", "mine")
    for tool, more in (("read", {}), ("write", {"content": "x"})):
        args, _ = bench.prepare(tool, file_path="src/a", **more)
        bench.at("src").rename(bench.at("moved"))
        bench.at("src").symlink_to(tmp_path / "outside")
        with pytest.raises(ToolError, match="leads elsewhere now"):
            await bench.run(tool, args)
        bench.at("src").unlink()
        bench.at("moved").rename(bench.at("src"))
    assert (tmp_path / "outside" / "a").read_text() == "secret"


async def test_links_in_a_circle(bench: Workbench) -> None:
    bench.at("a").symlink_to("b")
    bench.at("b").symlink_to("a")
    with pytest.raises(ToolError, match="circle"):
        await bench.write("a", "x")


def test_no_part_of_the_path_may_be_a_link(bench: Workbench) -> None:
    bench.put("real/a", "x")
    bench.at("link").symlink_to("real")
    bench.at("file").symlink_to("real/a")
    with pytest.raises(PathMoved):
        read_regular(f"{bench.cwd}/link/a", 100)
    with pytest.raises(PathMoved):
        read_regular(f"{bench.cwd}/file", 100)
    with pytest.raises(PathMoved):
        Folder.open(f"{bench.cwd}/link/new", make=True)
    assert read_regular(f"{bench.cwd}/real/a", 100)[0] == b"x"
    assert not bench.at("real/new").exists()


class Swapper:
    """Exchanges two names over and over in a thread, so that neither is ever missing.

    Attributes:
        swaps: How often it has done so.
    """

    def __init__(self, one: Path, other: Path) -> None:
        self.swaps = 0
        self._names = (os.fsencode(one), os.fsencode(other))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
        while not self._stop.is_set():
            if exchange(-100, self._names[0], -100, self._names[1], 2):
                raise OSError(ctypes.get_errno(), "renameat2")
            self.swaps += 1
            if random.random() < 0.2:  # let the other thread meet either state
                time.sleep(0.0002)

    def __enter__(self) -> "Swapper":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2")
async def test_race_of_folder_and_link(bench: Workbench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret")
    bench.put("dir/a", "mine")
    bench.at("link").symlink_to(outside)
    mine = {"mine"}
    seen: set[str] = set()
    written = turn = 0
    with Swapper(bench.at("dir"), bench.at("link")) as swapper:
        while swapper.swaps < 2_000 or not written:
            turn += 1
            with contextlib.suppress(PathMoved, NotADirectoryError):
                seen.add(read_regular(f"{bench.cwd}/dir/a", 100)[0].decode())
            try:
                args, requests = bench.prepare("read", file_path="dir/a")
                if len(requests) > 1:
                    continue  # it would have been asked about, as what it is
                text = str((await bench.run("read", args)).content)
                seen.add(text.removeprefix("1\t"))
                args, requests = bench.prepare("write", file_path="dir/a", content=f"mine {turn}")
                if len(requests) > 1:
                    continue
                mine.add(f"mine {turn}")
                await bench.run("write", args)
                written += 1
            except ToolError:
                continue
    assert seen <= mine
    assert (outside / "a").read_text() == "secret"
    assert sorted(os.listdir(outside)) == ["a"]


# -------------------------------------------------------------- faults and kills


@pytest.mark.parametrize("action", ["enospc", "eio"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("existing", [True, False], ids=["replace", "create"])
async def test_failing_step(tmp_path: Path, point: str, action: Action, *, existing: bool) -> None:
    bench = Workbench(tmp_path, faults=Faults(name=point, nth=1, action=action))
    if existing:
        bench.put("a", OLD).chmod(0o755)
        await bench.read("a")
    with pytest.raises(ToolError) as caught:
        await bench.write("a", NEW)
    assert ("full" in str(caught.value)) == (action == "enospc")
    # What could not be made durable is taken back, too.
    assert os.listdir(bench.cwd) == (["a"] if existing else [])
    if existing:
        assert bench.at("a").read_text() == OLD
        assert bench.at("a").stat().st_mode & 0o777 == 0o755
    # Whatever it was, it is over: the same call works.
    await bench.write("a", NEW + "more\n")
    assert bench.at("a").read_text() == NEW + "more\n"


async def test_short_writes_are_continued(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, faults=Faults(name="at.write", nth=1, action="short"))
    await bench.write("a", NEW)
    assert bench.at("a").read_text() == NEW


async def test_change_between_the_check_and_the_rename(tmp_path: Path) -> None:
    class Meddler(Faults):
        @override
        def act(self, point: str) -> None:
            if point == "at.check":
                path.write_text("somebody else's\n")

    path = tmp_path / "a"
    bench = Workbench(tmp_path, faults=Meddler(name="none", nth=1, action="eio"))
    bench.put("a", OLD)
    await bench.read("a")
    with pytest.raises(ToolError, match="changed on disk"):
        await bench.write("a", NEW)
    assert path.read_text() == "somebody else's\n"
    assert os.listdir(tmp_path) == ["a"]


async def test_file_that_appears_while_it_is_created(tmp_path: Path) -> None:
    class Meddler(Faults):
        @override
        def act(self, point: str) -> None:
            if point == "at.rename":
                path.write_text("somebody else's\n")

    path = tmp_path / "a"
    bench = Workbench(tmp_path, faults=Meddler(name="none", nth=1, action="eio"))
    with pytest.raises(ToolError, match="appeared just now"):
        await bench.write("a", NEW)
    assert path.read_text() == "somebody else's\n"
    assert os.listdir(tmp_path) == ["a"]


async def test_created_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*args: object, **options: object) -> None:
        raise PermissionError(1, "no hard links on this file system")

    monkeypatch.setattr(os, "link", link)
    bench = Workbench(tmp_path)
    await bench.write("a", NEW)
    assert os.listdir(tmp_path) == ["a"]


CHILD = """
import asyncio, sys
from pathlib import Path
from agent_sdk.core.failpoints import PROCESS_FAULTS
from tests.support.file_tools import Workbench

async def main():
    bench = Workbench(Path(sys.argv[1]), faults=PROCESS_FAULTS)
    if sys.argv[2] == "replace":
        await bench.read("a")
    await bench.write("a", "new\\n" * 100)
    print("acknowledged")

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["replace", "create"])
def test_kill_at_each_step(tmp_path: Path, kind: str) -> None:
    deaths = [(point, "kill") for point in POINTS] + [("at.write", "torn")]
    running = []
    for point, action in deaths:
        folder = tmp_path / f"{point}-{action}"
        folder.mkdir()
        if kind == "replace":
            (folder / "a").write_text(OLD)
        spec = f"{point}:1:{action}"
        environ = {**os.environ, "ZPI_TEST_BUILD": "1", "ZPI_FAILPOINT": spec}
        command = [sys.executable, "-c", CHILD, str(folder), kind]
        running.append(
            (point, folder, subprocess.Popen(command, env=environ, stdout=subprocess.PIPE))
        )
    for point, folder, child in running:
        out, _ = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
        assert out == b""
        late = point == "at.dirsync"
        if kind == "replace" or late:
            assert (folder / "a").read_text() == (NEW if late else OLD)
        else:
            assert not (folder / "a").exists()


async def test_what_a_kill_left_is_swept_later(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, young = bench.put(".zpi-0123.tmp", "x"), bench.put(".zpi-4567.tmp", "x")
    other = bench.put(".zpi-note", "mine")
    just_moved = bench.put("moving", "x")  # its contents are old, its name is not
    later = time.time() + 3_600
    monkeypatch.setattr("agent_sdk.core.fsio_at.time.time", lambda: later)
    os.utime(young, (later, later))
    await bench.write("a", "x")
    assert not old.exists()
    assert sorted(os.listdir(bench.cwd)) == [young.name, other.name, "a", "moving"]
    monkeypatch.undo()
    os.utime(just_moved, (1, 1))
    just_moved.rename(old)
    await Workbench(Path(bench.cwd)).write("b", "x")
    assert old.exists()


@pytest.mark.needs_root
async def test_full_disk(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("must be root to mount")
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(mount)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount here")
    try:
        bench = Workbench(mount)
        bench.put("a", OLD)
        await bench.read("a")
        with pytest.raises(ToolError, match="disk is full"):
            await bench.write("a", "x" * 200_000)
        assert bench.at("a").read_text() == OLD
        assert os.listdir(mount) == ["a"]
    finally:
        subprocess.run(["umount", str(mount)], check=True)
