"""Finding files: order, ignore files, links, odd names, bounds, permissions."""

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.permissions.ruleset import PermissionLayers, evaluate_layers
from agent_sdk.tools import glob as glob_module
from agent_sdk.tools.file_walk import Walked, WalkQuery, walk
from agent_sdk.tools.glob import GlobTool
from tests.support.file_tools import Workbench

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="names that Windows has not")


class Finder(Workbench):
    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self.tools["glob"] = GlobTool(guard=self.guard)

    async def find(self, pattern: str, **raw: Any) -> str:
        return str((await self.call("glob", pattern=pattern, **raw)).content)

    def fill(self, *names: str) -> None:
        for name in names:
            self.put(name, "x\n")


@pytest.fixture
def bench(tmp_path: Path) -> Finder:
    return Finder(tmp_path)


async def test_paths_come_in_order_and_can_be_read(bench: Finder) -> None:
    bench.fill("b.py", "a/z.py", "a.py", "a/b/c.py", "a-b.py", ".hidden/x.py", "no.txt")
    expected = [".hidden/x.py", "a-b.py", "a.py", "a/b/c.py", "a/z.py", "b.py"]
    assert (await bench.find("*.py")).splitlines() == expected
    assert expected == sorted(expected)
    result = await bench.call("glob", pattern="**/z.py")
    assert result.details["filenames"] == ["a/z.py"]
    assert (result.details["numFiles"], result.details["truncated"]) == (1, False)
    assert "x" in await bench.read("a/z.py")


async def test_a_folder_can_be_named_and_its_paths_are_whole(bench: Finder) -> None:
    bench.fill("a/b/c.py", "a/d.py", "e.py")
    assert (await bench.find("*.py", path="a/b")).splitlines() == ["a/b/c.py"]
    assert (await bench.find(f"{bench.cwd}/a/*.py")).splitlines() == ["a/d.py"]
    assert (await bench.find(f"{bench.cwd}/e.py")).splitlines() == ["e.py"]


async def test_ignore_files_hold_from_the_top_of_the_repository(bench: Finder) -> None:
    bench.put(".git/config", "")
    bench.put(".gitignore", "*.log\n/build/\n")
    bench.put("pkg/.gitignore", "!keep.log\nlocal\n")
    bench.put("pkg/.ignore", "big\n")
    bench.fill("a.log", "build/x", "pkg/keep.log", "pkg/b.log", "pkg/local", "pkg/big", "pkg/ok")
    assert (await bench.find("**")).splitlines() == [
        ".gitignore",
        "pkg/.gitignore",
        "pkg/.ignore",
        "pkg/keep.log",
        "pkg/ok",
    ]
    assert "b.log" not in await bench.find("*", path="pkg")
    everything = await bench.find("**", include_ignored=True)
    assert "build/x" in everything
    assert ".git/" not in everything


async def test_a_negated_file_in_an_ignored_folder_stays_out(bench: Finder) -> None:
    bench.put(".gitignore", "out/\n!out/keep\n")
    bench.fill("out/keep", "in")
    assert (await bench.find("**")).splitlines() == [".gitignore", "in"]


@POSIX
async def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("x")
    work = tmp_path / "work"
    work.mkdir()
    bench = Finder(work)
    bench.fill("a.py")
    bench.at("away").symlink_to(outside)
    bench.at("loop").symlink_to(".")
    bench.at("link.py").symlink_to(outside / "secret.py")
    assert (await bench.find("**/*.py")).splitlines() == ["a.py", "link.py"]


@POSIX
async def test_names_that_no_terminal_likes_are_one_line_each(bench: Finder) -> None:
    os.makedirs(os.path.join(os.fsencode(bench.cwd), b"d\xff"))
    for name in (
        b"d\xff/a.c",
        b"new\nline.c",
        b"tab\t.c",
        "中文 文件.c".encode(),
        b"back\\slash.c",
    ):
        with open(os.path.join(os.fsencode(bench.cwd), name), "wb"):
            pass
    found = (await bench.find("*.c")).splitlines()
    assert found == ["back\\slash.c", "d\\xff/a.c", "new\\x0aline.c", "tab\\x09.c", "中文 文件.c"]
    assert await bench.read(found[1]) == "['d\\xff/a.c' is empty.]"


async def test_what_is_left_out_is_said(bench: Finder) -> None:
    bench.fill(*(f"f{number:03}" for number in range(30)))
    text = await bench.find("f*", limit=10, offset=5)
    assert text.splitlines()[0] == "f005"
    assert text.endswith("[Shown: 6-15 of 30 files. Continue with offset=15.]")
    assert (await bench.find("f*", limit=10, offset=20)).endswith("[Shown: 21-30 of 30 files.]")
    with pytest.raises(ToolError, match="only 30 results"):
        await bench.find("f*", offset=30)
    assert await bench.find("nope") == "No file matches 'nope' in '.'."


def walked(folder: Path, **query: Any) -> Walked:
    return walk(
        WalkQuery(folder=str(folder), wanted=lambda names: True, **query), threading.Event()
    )


def test_a_walk_ends_at_its_bounds(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}" / "f").write_text("")
    assert walked(tmp_path, max_files=25).cut == "entries"
    assert len(walked(tmp_path, max_files=25).files) < 20
    assert walked(tmp_path, seconds=-1.0).cut == "time"
    assert walked(tmp_path).cut == ""
    stop = threading.Event()
    stop.set()
    query = WalkQuery(folder=str(tmp_path), wanted=lambda names: True)
    assert walk(query, stop).cut == "stopped"
    assert walk(query, stop).files == []


async def test_a_stopped_call_stops_its_thread(
    bench: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(query: WalkQuery, stop: threading.Event) -> Walked:
        begun.set()
        assert stop.wait(20)
        ended.set()
        return Walked(files=[])

    monkeypatch.setattr(glob_module, "walk", endless)
    task = asyncio.ensure_future(bench.find("*"))
    await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 20)


@POSIX
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root opens everything")
async def test_a_closed_folder_is_counted(bench: Finder) -> None:
    bench.fill("a", "shut/b")
    bench.at("shut").chmod(0)
    try:
        assert "[1 files or folders could not be opened.]" in await bench.find("**")
    finally:
        bench.at("shut").chmod(0o700)


async def test_what_is_no_folder_is_an_error(bench: Finder) -> None:
    bench.fill("a.py")
    with pytest.raises(ToolError, match="is no folder"):
        await bench.find("*", path="a.py")
    with pytest.raises(ToolError, match="There is no file 'gone'"):
        await bench.find("*", path="gone")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({}, "'pattern' is missing"),
        ({"pattern": "../*"}, "leads out of the folder"),
        ({"pattern": "/x/*", "path": "y"}, "leads out of the folder"),
        ({"pattern": "*", "limit": 0}, "at least 1"),
        ({"pattern": "*", "limit": 20_000}, "at most 10000"),
        ({"pattern": "*", "depth": 1}, "no field 'depth'"),
    ],
)
def test_bad_input_names_the_field(bench: Finder, raw: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidToolInput, match=said):
        bench.tools["glob"].parse(raw)


def test_inside_is_allowed_by_the_baseline_and_outside_asks(bench: Finder) -> None:
    layers = PermissionLayers().in_order()
    (inside,) = bench.requests("glob", pattern="**")
    assert (inside.permission, inside.patterns) == ("glob", (bench.cwd,))
    assert evaluate_layers(layers, inside) == "allow"
    key, outside = bench.requests("glob", pattern="*", path="/usr")
    assert (key.permission, outside.permission) == ("glob", "external_directory")
    assert evaluate_layers(layers, outside) == "ask"
    assert [rule.pattern for rule in outside.always] == ["/usr", "/usr/*"]
    assert "outside the session's folder" in outside.title
    secret = bench.requests("glob", pattern="*", path="/root/.ssh")
    assert all(request.protected and not request.always for request in secret)
