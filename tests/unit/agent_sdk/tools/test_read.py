import asyncio
import base64
import os
import sys
import threading
from pathlib import Path

import pytest

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.core.fsio_at import read_regular
from agent_sdk.providers.messages import ImageBlock, TextBlock
from agent_sdk.providers.models import Model
from agent_sdk.tools import read
from agent_sdk.tools.line_view import page
from agent_sdk.tools.read import MAX_IMAGE, image_type
from tests.support.file_tools import SIGHTED, Workbench

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


async def test_lines_are_numbered(bench: Workbench) -> None:
    bench.put("a.txt", "one\ntwo\n\nfour")
    result = await bench.call("read", path="a.txt")
    assert result.content == "1\tone\n2\ttwo\n3\t\n4\tfour"
    assert not result.is_error
    assert result.details == {
        "path": f"{bench.cwd}/a.txt",
        "firstLine": 1,
        "lastLine": 4,
        "totalLines": 4,
        "bytes": 13,
    }


@pytest.mark.parametrize("data", [b"a\r\nb\r\n", b"a\rb\r", b"a\nb", b"\xef\xbb\xbfa\r\nb\n"])
async def test_every_line_ending(bench: Workbench, data: bytes) -> None:
    bench.put("a", data)
    assert await bench.read("a") == "1\ta\n2\tb"


async def test_utf16(bench: Workbench) -> None:
    bench.put("a", "\ufeff中\r\n🙂".encode("utf-16-le"))
    assert await bench.read("a") == "1\t中\n2\t🙂"


async def test_unicode_separators_end_no_line(bench: Workbench) -> None:
    bench.put("a", "x\u2028y\x0cz\x85\n")
    assert await bench.read("a") == "1\tx\u2028y\x0cz\x85"


async def test_unknown_encoding_is_shown_and_said(bench: Workbench) -> None:
    bench.put("a", "x中文\n".encode("gbk"))
    text = await bench.read("a")
    assert text.startswith("1\tx\ufffd")
    assert "[Not UTF-8" in text
    text.encode()


async def test_window(bench: Workbench) -> None:
    bench.put("a", "".join(f"l{n}\n" for n in range(1, 11)))
    text = await bench.read("a", offset=3, limit="2")
    assert text == (
        "3\tl3\n4\tl4\n[Lines 3-4 of 10; about 19 bytes follow. Continue with offset=5.]"
    )
    assert await bench.read("a", offset=10) == "10\tl10"
    with pytest.raises(ToolError, match="'a' has 10 lines; offset 11 is past its end"):
        await bench.read("a", offset=11)


async def test_following_the_notices_shows_everything_once(bench: Workbench) -> None:
    lines = [f"{n} " + "x" * (n % 90) for n in range(5_000)]
    bench.put("a", "\n".join(lines))
    shown: list[str] = []
    offset = 1
    while offset:
        text = await bench.read("a", offset=offset)
        assert len(text.encode()) <= 48 * 1024
        body = [line for line in text.split("\n") if "\t" in line]
        assert len(body) <= 2_000
        shown += [line.split("\t", 1)[1] for line in body]
        _, found, rest = text.partition("Continue with offset=")
        offset = int(rest.split(".")[0]) if found else 0
    assert shown == lines


async def test_empty_file(bench: Workbench) -> None:
    bench.put("a", "")
    assert await bench.read("a") == "['a' is empty.]"
    with pytest.raises(ToolError, match="0 lines"):
        await bench.read("a", offset=2)


async def test_long_lines_are_cut(bench: Workbench) -> None:
    bench.put("a", "x" * 1_000_000 + "\nnext\n")
    text = await bench.read("a")
    first, second, notice = text.split("\n")
    assert first == "1\t" + "x" * 2_000 + "… [998,000 more characters]"
    assert second == "2\tnext"
    assert "line 1." in notice
    assert "sed -n '1p'" in notice


async def test_budget_is_a_quarter_of_the_window(tmp_path: Path) -> None:
    tiny = Model(id="t", provider="p", api="local", context_window=2_048)
    bench = Workbench(tmp_path, model=tiny)
    bench.put("a", "word " * 20_000 + "\n" + "line\n" * 500)
    text = await bench.read("a")
    assert len(text.encode()) <= 1_536
    assert "Continue with offset=" in text


def test_page_shows_a_line_however_small_the_budget() -> None:
    assert page(["é" * 500], name="a", budget=10).text.startswith("1\té")


async def test_missing_and_folder(bench: Workbench) -> None:
    with pytest.raises(ToolError, match="no file 'nope'"):
        await bench.read("nope")
    with pytest.raises(ToolError, match=r"is a directory\. List it with ls"):
        await bench.read(".")
    bench.put("file", "x")
    with pytest.raises(ToolError, match="below something that is no folder"):
        await bench.read("file/x")


async def test_binary(bench: Workbench) -> None:
    bench.put("a.bin", b"ELF\0\0")
    with pytest.raises(ToolError, match="binary file of 5 bytes"):
        await bench.read("a.bin")
    assert bench.state.view(f"{bench.cwd}/a.bin") is None


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", ""),
        (b"<svg/>", ""),
        (b"", ""),
    ],
)
def test_image_type(head: bytes, media_type: str) -> None:
    assert image_type(head) == media_type


async def test_image_for_a_model_that_sees(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, model=SIGHTED)
    bench.put("a.txt", PNG)  # the name does not decide
    result = await bench.call("read", file_path="a.txt")
    assert not isinstance(result.content, str)
    note, image = result.content
    assert isinstance(note, TextBlock)
    assert isinstance(image, ImageBlock)
    assert image.source["media_type"] == "image/png"
    assert base64.b64decode(image.source["data"]) == PNG


async def test_image_for_a_model_that_does_not(bench: Workbench) -> None:
    bench.put("a.png", PNG)
    assert "cannot see images" in await bench.read("a.png")


async def test_image_that_is_too_large(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, model=SIGHTED)
    bench.put("a.png", PNG + bytes(MAX_IMAGE))
    with pytest.raises(ToolError, match="smaller copy"):
        await bench.read("a.png")


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"file_path": "a", "offset": 0},
        {"file_path": "a", "limit": "x"},
        {"file_path": "a", "x": 1},
    ],
)
def test_bad_input(bench: Workbench, raw: dict[str, object]) -> None:
    with pytest.raises(InvalidToolInput):
        bench.tools["read"].parse(raw)


def test_it_may_start_early(bench: Workbench) -> None:
    assert bench.tools["read"].metadata.early
    assert not bench.tools["write"].metadata.early
    assert not bench.tools["edit"].metadata.early


@pytest.mark.parametrize(
    "name", ["a b.txt", "中文 文件.md", "🙂.txt", "ünï.txt", "-rf", "'q\"", "x" * 255]
)
async def test_odd_names(bench: Workbench, name: str) -> None:
    await bench.write(name, "one\n")
    assert await bench.read(name) == "1\tone"
    await bench.edit(name, "one", "two")
    assert bench.at(name).read_text() == "two\n"
    assert os.listdir(bench.cwd) == [name]


async def test_name_that_is_no_utf8(bench: Workbench) -> None:
    if sys.platform != "linux":
        pytest.skip("file systems elsewhere refuse such names")
    path = os.path.join(os.fsencode(bench.cwd), b"caf\xe9.txt")
    with open(path, "w") as file:
        file.write("x\n")
    result = await bench.call("read", file_path=r"caf\xe9.txt")
    assert result.content == "1\tx"
    result.details["path"].encode()
    await bench.edit(r"caf\xe9.txt", "x", "y")
    with open(path) as file:
        assert file.read() == "y\n"


async def test_name_that_is_too_long(bench: Workbench) -> None:
    with pytest.raises(ToolError, match="too long a name"):
        await bench.write("x" * 256, "a")


async def test_read_only_the_readable(bench: Workbench) -> None:
    if sys.platform == "win32" or os.geteuid() == 0:
        pytest.skip("needs a user who may not read everything")
    bench.put("a", "x").chmod(0)
    with pytest.raises(ToolError, match="permission denied"):
        await bench.read("a")


def test_a_read_that_hangs_does_not_keep_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, ended = threading.Event(), threading.Event()
    path = tmp_path / "large"
    path.write_bytes(b"x" * 100_000)

    def slow(name: str, limit: int) -> tuple[bytes, os.stat_result]:
        if limit >= 100_000 and not hangs.wait(20):
            ended.set()
        return read_regular(name, limit)

    monkeypatch.setattr(read, "read_regular", slow)
    monkeypatch.setattr(read, "_DEADLINE_SECONDS", 0.05)
    try:
        with pytest.raises(ToolError, match="could not be read within"):
            asyncio.run(Workbench(tmp_path).read("large"))
        assert not ended.is_set()  # the loop has been closed while the read still hung
    finally:
        hangs.set()
