"""Files of every kind, and programs that get in between: other bytes stay what they are.

Each case goes through the tools, from reading to replacing. Either exactly the
bytes change that were meant, or the call is refused and none do.
"""

import asyncio
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from typing_extensions import override

from agent_sdk.core import fsio_swap
from agent_sdk.core.errors import StaleFile, ToolError
from agent_sdk.core.failpoints import Faults
from agent_sdk.loop.types import ToolResult
from agent_sdk.tools.file_state import MAX_FILE
from tests.support.file_tools import Workbench

BOM8, LE, BE = b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"
TEXT = "first é\nsome needle here\nlast 文\n"
CRLF = TEXT.replace("\n", "\r\n")

CORPUS = {
    "lf": TEXT.encode(),
    "crlf": CRLF.encode(),
    "cr": TEXT.replace("\n", "\r").encode(),
    "mixed": b"a\r\nb\nsome needle here\r\nc\n\r\nd\n",
    "mixed-with-bare-cr": b"a\rb\r\n\nsome needle here\nc\r\rd",
    "no-final-newline": b"a\nsome needle here",
    "no-final-newline-crlf": b"a\r\nsome needle here",
    "only-line": b"some needle here",
    "blank-lines-at-both-ends": b"\n\n\nsome needle here\n\n\n",
    "white-space": b" \t \na  \nsome needle here\n\t\n  ",
    "form-feed-and-separators": "a\x0cb\x1cc\u2028d\x85e\nsome needle here\n\x0b\n".encode(),
    "control-characters": b"\x1b[31ma\x07\x08\nsome needle here\n\x7f\n",
    "bom": BOM8 + TEXT.encode(),
    "bom-crlf": BOM8 + CRLF.encode(),
    "bom-twice": BOM8 + BOM8 + b"\nsome needle here\n",
    "utf-16-le": LE + CRLF.encode("utf-16-le"),
    "utf-16-be": BE + TEXT.encode("utf-16-be"),
    "utf-16-astral": LE + "😀\nsome needle here\n𐍈".encode("utf-16-le"),
    "gbk": "第一行\r\nsome needle here\r\n最后\r\n".encode("gbk"),
    "big5": "第一行\nsome needle here\n最後\n".encode("big5"),
    "shift-jis": "表示\nsome needle here\nソース\n".encode("shift_jis"),
    "latin-1": "café\nsome needle here\nnaïve\n".encode("latin-1"),
    "cp1252": "“quoted”\nsome needle here\n€\n".encode("cp1252"),
    "utf-8-cut-short": b"a\nsome needle here\n\xe6\x96",
    "utf-8-overlong": b"\xc0\xaf\nsome needle here\n\xed\xa0\x80\n",
    "decomposed": "e\u0301 a\u030a\nsome needle here\n\u1100\u1161\n".encode(),
}
REFUSED = {
    "utf-16-without-mark": TEXT.encode("utf-16-le"),
    "utf-32": b"\xff\xfe\0\0" + TEXT.encode("utf-32-le"),
    "utf-16-odd": LE + TEXT.encode("utf-16-le") + b"x",
    "utf-16-lone-surrogate": LE + TEXT.encode("utf-16-le") + b"\x00\xd8",
    "nul-in-the-middle": b"a\0\nsome needle here\n",
    "nul-at-the-end": b"a\nsome needle here\n\0",
}


def in_form(text: str, data: bytes) -> bytes:
    if data.startswith(LE):
        return text.encode("utf-16-le")
    return text.encode("utf-16-be") if data.startswith(BE) else text.encode()


def line_of(data: bytes) -> int:
    """The number of the needle's line, as read shows it."""
    before = data[: data.index(in_form("needle", data))]
    text = before.decode({LE: "utf-16-le", BE: "utf-16-be"}.get(data[:2], "latin-1"))
    return text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1


def patch_for(name: str, line: int) -> str:
    return (
        f"--- a/{name}\n+++ b/{name}\n@@ -{line} +{line} @@\n"
        "-some needle here\n+some longer thread here\n"
    )


async def by_edit(bench: Workbench, line: int) -> ToolResult:
    return await bench.edit("f", "needle", "longer thread")


async def by_patch(bench: Workbench, line: int) -> ToolResult:
    return await bench.patch(patch_for("f", line))


Change = Callable[[Workbench, int], Awaitable[ToolResult]]
BOTH = pytest.mark.parametrize("change", [by_edit, by_patch])


@BOTH
@pytest.mark.parametrize("kind", CORPUS)
async def test_only_what_was_meant_changes(tmp_path: Path, kind: str, change: Change) -> None:
    data = CORPUS[kind]
    bench = Workbench(tmp_path)
    bench.put("f", data).chmod(0o751)
    await bench.read("f")
    await change(bench, line_of(data))
    assert bench.at("f").read_bytes() == data.replace(
        in_form("needle", data), in_form("longer thread", data)
    )
    if sys.platform != "win32":
        assert bench.at("f").stat().st_mode & 0o777 == 0o751
    assert os.listdir(tmp_path) == ["f"]


@BOTH
@pytest.mark.parametrize("kind", REFUSED)
async def test_what_is_no_text_is_refused(tmp_path: Path, kind: str, change: Change) -> None:
    bench = Workbench(tmp_path)
    bench.put("f", "some needle here\n")
    await bench.read("f")
    path = bench.put("f", REFUSED[kind])
    with pytest.raises(ToolError):
        await bench.read("f")
    with pytest.raises(ToolError):
        await change(bench, 1)
    assert path.read_bytes() == REFUSED[kind]


@BOTH
@pytest.mark.parametrize("kind", ["gbk", "latin-1", "shift-jis"])
async def test_what_the_encoding_has_not_is_refused(
    tmp_path: Path, kind: str, change: Change
) -> None:
    bench = Workbench(tmp_path)
    bench.put("f", CORPUS[kind])
    await bench.read("f")
    with pytest.raises(ToolError, match="encoding is unknown"):
        await bench.edit("f", "needle", "针")
    with pytest.raises(ToolError, match="encoding is unknown"):
        await bench.patch(patch_for("f", 2).replace("thread", "线"))
    assert bench.at("f").read_bytes() == CORPUS[kind]


@BOTH
@pytest.mark.parametrize("where", ["in it", "beside it"])
async def test_line_of_ten_megabytes(tmp_path: Path, where: str, change: Change) -> None:
    huge = b"x" * 10_000_000
    if where == "in it":
        data = huge[:5_000_000] + b" needle " + huge[5_000_000:] + b"\nend"
    else:
        data = huge + b"\r\nsome needle here\r\n" + b"y" * 100_000
    bench = Workbench(tmp_path)
    bench.put("f", data)
    await bench.read("f")
    if where == "in it" and change is by_patch:
        with pytest.raises(ToolError, match="was not found"):
            await change(bench, 1)
        assert bench.at("f").read_bytes() == data
        return
    await change(bench, 2)
    assert bench.at("f").read_bytes() == data.replace(b"needle", b"longer thread")


@BOTH
async def test_file_over_the_limit(tmp_path: Path, change: Change) -> None:
    bench = Workbench(tmp_path)
    data = b"some needle here\n".ljust(MAX_FILE, b"x")
    bench.put("f", data)
    await bench.read("f")
    with pytest.raises(ToolError, match="more than this tool takes"):
        await change(bench, 1)  # it would grow over the limit
    assert bench.at("f").read_bytes() == data


@BOTH
@pytest.mark.skipif(sys.platform == "win32", reason="links")
async def test_through_links(tmp_path: Path, change: Change) -> None:
    bench = Workbench(tmp_path)
    bench.put("deep/real", "some needle here\n")
    bench.at("middle").symlink_to("deep")
    bench.at("f").symlink_to("middle/real")
    await bench.read("f")
    await change(bench, 1)
    assert bench.at("f").is_symlink()
    assert bench.at("middle").is_symlink()
    assert bench.at("deep/real").read_text() == "some longer thread here\n"
    assert os.listdir(bench.at("deep")) == ["real"]


# --------------------------------------------------------- somebody else at the same time


def in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"SOMEBODY ELSE")


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"somebody else's needle\n")
    other.replace(path)


def replaced_alike(path: Path) -> None:
    """With the same size and times, and another inode."""
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes().replace(b"some", b"Some"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def turned_back(path: Path) -> None:
    path.write_bytes(b"older needle\n")
    os.utime(path, (1, 1))


def shortened(path: Path) -> None:
    path.write_bytes(b"")


def into_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def into_a_link(path: Path) -> None:
    target = path.with_name("target")
    target.write_bytes(b"some needle here\n")
    path.unlink()
    path.symlink_to(target)


MEDDLERS = (in_place, replaced, replaced_alike, turned_back, shortened, into_a_folder, into_a_link)


async def by_write(bench: Workbench, line: int) -> ToolResult:
    return await bench.write("f", "all new\n")


def look(folder: Path) -> dict[str, bytes | str]:
    """What is there: contents, where links lead, and which are folders."""
    return {
        path.name: os.readlink(path)
        if path.is_symlink()
        else "folder"
        if path.is_dir()
        else path.read_bytes()
        for path in folder.iterdir()
    }


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be replaced")
@pytest.mark.parametrize("meddle", MEDDLERS)
@pytest.mark.parametrize("change", [by_edit, by_patch, by_write])
@pytest.mark.parametrize("when", ["after reading", "at.create", "at.sync", "at.check", "at.rename"])
async def test_what_somebody_else_writes_stays(
    tmp_path: Path, when: str, change: Change, meddle: Callable[[Path], None]
) -> None:
    if when == "at.rename" and not exchanges(tmp_path):
        pytest.skip("the system cannot exchange two names")
    seen: list[dict[str, bytes | str]] = []

    class Meddler(Faults):
        @override
        def act(self, point: str) -> None:
            if point == when and not seen:
                meddle(tmp_path / "f")
                seen.append({n: c for n, c in look(tmp_path).items() if not n.startswith(".zpi-")})

    bench = Workbench(tmp_path, faults=Meddler(name="none", nth=1, action="eio"))
    bench.put("f", "some needle here\n")
    await bench.read("f")
    if when == "after reading":
        meddle(tmp_path / "f")
        seen.append(look(tmp_path))
    with pytest.raises(ToolError):
        await change(bench, 1)
    assert [look(tmp_path)] == seen


def exchanges(folder: Path) -> bool:
    one, other = folder / ".one", folder / ".other"
    one.write_text("1")
    other.write_text("2")
    fd = os.open(folder, os.O_RDONLY)
    try:
        return fsio_swap.swap_names(fd, ".one", ".other") and one.read_text() == "2"
    finally:
        os.close(fd)
        one.unlink()
        other.unlink()


@pytest.mark.skipif(sys.platform == "win32", reason="no exchange")
async def test_deleted_in_the_last_moment(tmp_path: Path) -> None:
    if not exchanges(tmp_path):
        pytest.skip("the system cannot exchange two names")

    class Meddler(Faults):
        @override
        def act(self, point: str) -> None:
            if point == "at.rename":
                (tmp_path / "f").unlink()

    bench = Workbench(tmp_path, faults=Meddler(name="none", nth=1, action="eio"))
    bench.put("f", "some needle here\n")
    await bench.read("f")
    with pytest.raises(ToolError, match="There is no file"):
        await by_edit(bench, 1)
    assert os.listdir(tmp_path) == []


async def test_systems_that_cannot_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_sdk.core.fsio_at.swap_names", lambda *args: False)
    bench = Workbench(tmp_path)
    bench.put("f", "some needle here\n")
    await bench.read("f")
    await by_edit(bench, 1)
    assert look(tmp_path) == {"f": b"some longer thread here\n"}


@pytest.mark.skipif(sys.platform == "win32", reason="no exchange")
@pytest.mark.slow
async def test_several_sessions_lose_no_edit(tmp_path: Path) -> None:
    """Each knows nothing of the others; who is too late is told, and reads again."""
    if not exchanges(tmp_path):
        pytest.skip("the system cannot exchange two names")
    sessions, edits = 4, 15
    path = tmp_path / "f"
    path.write_text("".join(f"<{s}-{n}>\n" for n in range(edits) for s in range(sessions)))
    late = 0

    async def work(session: int) -> None:
        nonlocal late
        bench = Workbench(tmp_path)
        for n in range(edits):
            while True:
                await bench.read("f")
                try:
                    await bench.edit("f", f"<{session}-{n}>", f"[{session}-{n}]")
                    break
                except StaleFile:
                    late += 1
                    await asyncio.sleep(random.random() * 0.01)

    await asyncio.gather(*(work(session) for session in range(sessions)))
    text = path.read_text()
    assert text.count("[") == sessions * edits
    assert "<" not in text
    assert late  # they did get in each other's way
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be replaced")
@pytest.mark.slow
async def test_an_editor_that_saves_all_the_time(tmp_path: Path) -> None:
    """Whatever the editor saved last before it read its own file back is never lost.

    It saves by replacing, and what it finds when it looks again is its own
    version, or one that a tool has made of it.
    """
    if not exchanges(tmp_path):
        pytest.skip("the system cannot exchange two names")
    path = tmp_path / "f"
    path.write_text("0 needle\n")
    lost: list[int] = []
    stop = threading.Event()

    def editor() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            other = tmp_path / "saved"
            other.write_text(f"{number} needle\n")
            other.replace(path)
            stop.wait(random.random() * 0.004)
            for _ in range(1_000):  # a tool may hold its own version there for a moment
                if path.read_text().split()[0] == str(number):
                    break
                time.sleep(0.005)
            else:
                lost.append(number)

    thread = threading.Thread(target=editor)
    thread.start()
    done = refused = 0
    bench = Workbench(tmp_path)
    try:
        while done < 20 or refused < 20:
            try:
                await bench.read("f")
                await bench.edit("f", "needle", "thread")
                done += 1
            except ToolError:
                refused += 1
    finally:
        stop.set()
        thread.join()
    assert lost == []
