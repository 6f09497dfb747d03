from pathlib import Path

import msgspec
import pytest

from agent_sdk.core.errors import InvalidToolInput, StaleFile, ToolError
from tests.support.file_tools import Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path)
    bench.put("a.py", "one\ntwo\nthree\n")
    return bench


async def test_edit(bench: Workbench) -> None:
    await bench.read("a.py")
    result = await bench.edit("a.py", "two", "2\n2")
    assert bench.at("a.py").read_text() == "one\n2\n2\nthree\n"
    assert result.content == "Edited 'a.py': +2 -1 lines."
    change = result.details["fileChange"]
    assert change["operation"] == "modified"
    assert change["diff"].endswith("@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2\n three\n")


async def test_edits_can_follow_each_other(bench: Workbench) -> None:
    await bench.read("a.py")
    await bench.edit("a.py", "one", "1")
    await bench.edit("a.py", "two", "2")
    assert bench.at("a.py").read_text() == "1\n2\nthree\n"


@pytest.mark.parametrize(
    "raw",
    [
        {"edits": [{"old_string": "one", "new_string": "1"}, {"oldText": "two", "newText": "2"}]},
        {"edits": '[{"old_str": "one", "new_str": "1"}, {"old_string": "two", "new_string": "2"}]'},
        {"edits": {"oldText": "one\ntwo", "newText": "1\n2"}},
        {"oldText": "one\ntwo", "newText": "1\n2"},
        {"old_string": "one\ntwo", "new_string": "1\n2", "replace_all": "false", "edits": None},
    ],
)
async def test_spellings(bench: Workbench, raw: dict[str, object]) -> None:
    await bench.read("a.py")
    await bench.call("edit", path="a.py", **raw)
    assert bench.at("a.py").read_text() == "1\n2\nthree\n"


async def test_replace_all(bench: Workbench) -> None:
    await bench.read("a.py")
    result = await bench.edit("a.py", "e", "E", replace_all=True)
    assert bench.at("a.py").read_text() == "onE\ntwo\nthrEE\n"
    assert "in 3 places" in str(result.content)


@pytest.mark.parametrize(
    "raw",
    [
        {"old_string": "a"},
        {"old_string": "a", "new_string": "b", "edits": [{"old_string": "c", "new_string": "d"}]},
        {"edits": []},
        {"edits": "no json"},
        {"edits": "[1]"},
        {"edits": [["a", "b"]]},
        {"edits": [{"old_string": "a"}]},
        {"edits": [{"old_string": "a", "new_string": "b", "regex": True}]},
        {"old_string": 1, "new_string": "b"},
    ],
)
def test_bad_input(bench: Workbench, raw: dict[str, object]) -> None:
    with pytest.raises(InvalidToolInput):
        bench.tools["edit"].parse({"file_path": "a.py", **raw})


async def test_unread_and_missing(bench: Workbench) -> None:
    with pytest.raises(StaleFile, match="has not been read"):
        await bench.edit("a.py", "one", "1")
    with pytest.raises(ToolError, match=r"no file 'b.py'.*create it with write"):
        await bench.edit("b.py", "one", "1")
    with pytest.raises(ToolError, match="no file"):
        await bench.edit("no/such/b.py", "one", "1")
    assert not bench.at("no").exists()


async def test_failed_edit_changes_nothing(bench: Workbench) -> None:
    await bench.read("a.py")
    inode = bench.at("a.py").stat().st_ino
    with pytest.raises(ToolError, match="edit 2: old_string was not found"):
        await bench.call(
            "edit",
            file_path="a.py",
            edits=[
                {"old_string": "one", "new_string": "1"},
                {"old_string": "nope", "new_string": "2"},
            ],
        )
    assert bench.at("a.py").stat().st_ino == inode


async def test_part_that_was_not_seen_may_be_edited(bench: Workbench) -> None:
    await bench.read("a.py", limit=1)
    await bench.edit("a.py", "three", "3")
    assert bench.at("a.py").read_text() == "one\ntwo\n3\n"


async def test_binary_is_refused(bench: Workbench) -> None:
    bench.put("img", b"\x89PNG\r\n\x1a\n\0one")
    await bench.read("img")
    with pytest.raises(ToolError, match="binary"):
        await bench.edit("img", "one", "two")


async def test_unknown_encoding_in_the_diff_is_printable(bench: Workbench) -> None:
    bench.put("g", "# 中文\nx = 1\n".encode("gbk"))
    await bench.read("g")
    result = await bench.edit("g", "x = 1", "x = 2")
    assert bench.at("g").read_bytes() == "# 中文\nx = 2\n".encode("gbk")
    msgspec.json.encode(result.details)


def test_declared_schema(bench: Workbench) -> None:
    declared = {name: list(tool.parameters["properties"]) for name, tool in bench.tools.items()}
    assert declared == {
        "read": ["file_path", "offset", "limit"],
        "write": ["file_path", "content"],
        "edit": ["file_path", "old_string", "new_string", "replace_all"],
        "apply_patch": ["patch"],
    }
    for tool in bench.tools.values():
        msgspec.json.encode(tool.parameters)
