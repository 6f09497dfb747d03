import hashlib
import os
import stat
import sys
from pathlib import Path

import msgspec
import pytest

from agent_sdk.core.errors import InvalidToolInput, StaleFile, ToolError
from agent_sdk.tools.file_state import MAX_FILE
from tests.support.file_tools import Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_created_with_its_folders(bench: Workbench) -> None:
    result = await bench.write("deep/er/a.txt", "one\ntwo\n")
    assert bench.at("deep/er/a.txt").read_bytes() == b"one\ntwo\n"
    assert result.content == "Created 'deep/er/a.txt' (2 lines)."
    assert result.details == {
        "fileChange": {
            "path": f"{bench.cwd}/deep/er/a.txt",
            "operation": "created",
            "beforeHash": None,
            "afterHash": digest(b"one\ntwo\n"),
            "diff": "--- /dev/null\n+++ b/deep/er/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n",
            "additions": 2,
            "deletions": 0,
        }
    }
    msgspec.json.encode(result.details)


async def test_replaced(bench: Workbench) -> None:
    bench.put("a", "one\n")
    await bench.read("a")
    result = await bench.write("a", "two\n")
    assert bench.at("a").read_bytes() == b"two\n"
    change = result.details["fileChange"]
    assert change["operation"] == "modified"
    assert (change["beforeHash"], change["afterHash"]) == (digest(b"one\n"), digest(b"two\n"))
    assert result.content == "Wrote 'a': +1 -1 lines."


async def test_unread_is_refused(bench: Workbench) -> None:
    bench.put("a", "one\n")
    with pytest.raises(StaleFile, match=r"has not been read.*Read it"):
        await bench.write("a", "two\n")
    assert bench.at("a").read_bytes() == b"one\n"


async def test_half_read_is_refused(bench: Workbench) -> None:
    bench.put("a", "1\n2\n3\n4\n")
    await bench.read("a", limit=2)
    with pytest.raises(StaleFile, match=r"Only a part of 'a' has been read \(lines 1-2 of 4\)"):
        await bench.write("a", "x")
    await bench.read("a", offset=4)
    with pytest.raises(StaleFile, match="lines 1-2, 4-4 of 4"):
        await bench.write("a", "x")
    await bench.read("a", offset=3, limit=1)
    await bench.write("a", "x")
    assert bench.at("a").read_text() == "x"


async def test_own_file_may_be_written_again(bench: Workbench) -> None:
    await bench.write("a", "one\ntwo\n")
    await bench.write("a", "three\n")
    await bench.edit("a", "three", "four")
    await bench.write("a", "")
    await bench.write("a", "five")
    assert bench.at("a").read_text() == "five"


async def test_edit_of_a_part_does_not_make_it_known(bench: Workbench) -> None:
    bench.put("a", "1\n2\n3\n")
    await bench.read("a", limit=1)
    await bench.edit("a", "1", "one")
    with pytest.raises(StaleFile, match="Only a part"):
        await bench.write("a", "x")


async def test_same_contents(bench: Workbench) -> None:
    bench.put("a", "one\n")
    await bench.read("a")
    inode = bench.at("a").stat().st_ino
    result = await bench.write("a", "one\n")
    assert "already" in str(result.content)
    assert result.details == {}
    assert bench.at("a").stat().st_ino == inode


@pytest.mark.parametrize(
    ("before", "content", "after", "note"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n", "CRLF line endings"),
        (b"a\rb\r", "x\ny", b"x\ry", "CR line endings"),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n", ""),
        (b"a\r\n", "x\r\ny\n", b"x\r\ny\n", ""),
        (b"\xef\xbb\xbfa\n", "x\n", b"\xef\xbb\xbfx\n", "UTF-8 with byte order mark"),
        (b"\xef\xbb\xbfa\n", "\ufeffx\n", b"\xef\xbb\xbfx\n", "byte order mark"),
        ("\ufeffa\n".encode("utf-16-be"), "é\n", "\ufeffé\n".encode("utf-16-be"), "UTF-16-BE"),
        ("é\n".encode("latin-1"), "é\n", "é\n".encode(), ""),
    ],
)
async def test_form_of_the_old_is_kept(
    bench: Workbench, before: bytes, content: str, after: bytes, note: str
) -> None:
    bench.put("a", before)
    await bench.read("a")
    result = await bench.write("a", content)
    assert bench.at("a").read_bytes() == after
    assert note in str(result.content)
    assert ("Kept" in str(result.content)) == bool(note)


async def test_image_that_was_read_may_be_replaced(bench: Workbench) -> None:
    bench.put("a.png", b"\x89PNG\r\n\x1a\n\0")
    await bench.read("a.png")
    result = await bench.write("a.png", "text\n")
    assert result.details["fileChange"]["diff"] == ""


@pytest.mark.skipif(os.name == "nt", reason="modes")
async def test_mode_is_kept(bench: Workbench) -> None:
    bench.put("run.sh", "#!/bin/sh\n").chmod(0o755)
    await bench.read("run.sh")
    await bench.edit("run.sh", "sh\n", "bash\n")
    assert stat.S_IMODE(bench.at("run.sh").stat().st_mode) == 0o755
    before = os.umask(0o027)
    try:
        await bench.write("new", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(bench.at("new").stat().st_mode) == 0o640


async def test_extended_attributes_are_kept(bench: Workbench) -> None:
    if sys.platform != "linux":
        pytest.skip("extended attributes of Linux")
    path = bench.put("a", "one\n")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("no extended attributes here")
    await bench.read("a")
    await bench.write("a", "two\n")
    assert os.getxattr(path, "user.note") == b"kept"


async def test_an_attribute_that_cannot_be_set_costs_no_other(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("extended attributes of Linux")
    path = bench.put("a", "one\n")
    try:
        for name in ("user.a", "user.b"):
            os.setxattr(path, name, b"kept")
    except OSError:
        pytest.skip("no extended attributes here")
    refused = os.listxattr(path)[0]
    real = os.setxattr

    def set_but_one(target: int, name: str, value: bytes) -> None:
        if name == refused:
            raise PermissionError(1, "Operation not permitted")
        real(target, name, value)

    monkeypatch.setattr(os, "setxattr", set_but_one)
    await bench.read("a")
    await bench.write("a", "two\n")
    assert os.listxattr(path) == [n for n in ("user.a", "user.b") if n != refused]


async def test_read_only_is_refused(bench: Workbench) -> None:
    bench.put("a", "one\n").chmod(0o444)
    await bench.read("a")
    with pytest.raises(ToolError, match=r"read-only for this user \(mode 0444\)"):
        await bench.write("a", "two\n")
    assert bench.at("a").read_text() == "one\n"


async def test_hard_link_is_said(bench: Workbench) -> None:
    bench.put("a", "one\n")
    os.link(bench.at("a"), bench.at("b"))
    await bench.read("a")
    result = await bench.write("a", "two\n")
    assert "one of 2 hard links" in str(result.content)
    assert bench.at("b").read_text() == "one\n"


async def test_through_a_link_the_target_is_written(bench: Workbench) -> None:
    bench.put("real/a", "one\n")
    bench.at("link").symlink_to("real/a")
    await bench.read("link")
    await bench.write("link", "two\n")
    assert bench.at("link").is_symlink()
    assert bench.at("real/a").read_text() == "two\n"


async def test_folder_and_pipe_are_no_files(bench: Workbench) -> None:
    if sys.platform == "win32":
        pytest.skip("named pipes of Unix")
    bench.at("d").mkdir()
    with pytest.raises(ToolError, match="is a directory"):
        await bench.write("d", "x")
    os.mkfifo(bench.at("p"))
    with pytest.raises(ToolError, match="named pipe"):
        await bench.write("p", "x")


async def test_too_large(bench: Workbench) -> None:
    with pytest.raises(ToolError, match="more than this tool takes"):
        await bench.write("a", "x" * (MAX_FILE + 1))
    assert os.listdir(bench.cwd) == []


async def test_invalid_characters(bench: Workbench) -> None:
    with pytest.raises(ToolError, match="no valid character"):
        await bench.write("a", "x\ud83d")
    assert os.listdir(bench.cwd) == []


def test_bad_input(bench: Workbench) -> None:
    with pytest.raises(InvalidToolInput, match="'content' is missing"):
        bench.tools["write"].parse({"file_path": "a"})
