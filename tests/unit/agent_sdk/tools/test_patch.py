"""The tool apply_patch: permission, all or nothing, what it returns."""

import os
import sys
from pathlib import Path

import pytest
from typing_extensions import override

from agent_sdk.core.errors import InvalidToolInput, StaleFile, ToolError
from agent_sdk.core.failpoints import Action, Faults
from agent_sdk.tools.diff import unified
from tests.support.file_tools import Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


def change(name: str, old: str = "old", new: str = "new") -> str:
    return f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{old}\n+{new}\n"


def create(name: str, text: str = "made") -> str:
    return f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{text}\n"


async def test_several_files(bench: Workbench) -> None:
    bench.put("a", "old\n").chmod(0o755)
    bench.put("src/文 件.txt", "old\r\nrest\r\n")
    await bench.read("a")
    await bench.read("src/文 件.txt")
    result = await bench.patch(
        change("a") + change("src/文 件.txt\t") + create("new/deep/file", "hello")
    )
    assert bench.at("a").read_bytes() == b"new\n"
    assert bench.at("src/文 件.txt").read_bytes() == b"new\r\nrest\r\n"
    assert bench.at("new/deep/file").read_bytes() == b"hello\n"
    if sys.platform != "win32":
        assert bench.at("a").stat().st_mode & 0o777 == 0o755
    assert result.content == (
        "Patched 'a': +1 -1 lines.\nPatched 'src/文 件.txt': +1 -1 lines.\n"
        "Created 'new/deep/file' (1 lines)."
    )
    changes = result.details["fileChanges"]
    assert [(c["path"], c["operation"]) for c in changes] == [
        (bench.at("a").as_posix(), "modified"),
        (bench.at("src/文 件.txt").as_posix(), "modified"),
        (bench.at("new/deep/file").as_posix(), "created"),
    ]
    assert changes[0]["diff"] == change("a")
    assert changes[2]["beforeHash"] is None
    assert {"beforeHash", "afterHash", "diff", "additions", "deletions"} <= set(changes[1])


async def test_git_quotes_unusual_names(bench: Workbench) -> None:
    bench.put('文"件', "old\n")
    await bench.read('文"件')
    await bench.patch(
        '--- "a/\\346\\226\\207\\"\\344\\273\\266"\n+++ "b/\\346\\226\\207\\"\\344\\273\\266"\n'
        "@@ -1 +1 @@\n-old\n+new\n"
    )
    assert bench.at('文"件').read_text() == "new\n"


async def test_what_was_patched_may_be_patched_again(bench: Workbench) -> None:
    bench.put("a", "old\n")
    await bench.read("a")
    await bench.patch(change("a") + create("b"))
    await bench.patch(change("a", "new", "newer") + change("b", "made", "changed"))
    await bench.edit("b", "changed", "edited")
    assert bench.at("a").read_text() + bench.at("b").read_text() == "newer\nedited\n"


async def test_drift_is_said(bench: Workbench) -> None:
    bench.put("a", "x\n" * 5 + "old\n")
    await bench.read("a")
    result = await bench.patch(change("a"))
    assert "Line numbers were off: hunk 1 at line 6." in str(result.content)


def test_permission_for_every_path(bench: Workbench, tmp_path: Path) -> None:
    bench.put("a", "old\n")
    requests = bench.requests(
        "apply_patch", patch=change("a") + create("../out") + create(".git/hooks/x")
    )
    assert [(r.permission, r.patterns) for r in requests] == [
        ("edit", (bench.at("a").as_posix(),)),
        ("edit", ((tmp_path.parent / "out").as_posix(),)),
        ("external_directory", ((tmp_path.parent / "out").as_posix(),)),
        ("edit", (bench.at(".git/hooks/x").as_posix(),)),
    ]
    assert [r.protected for r in requests] == [False, False, False, True]


@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_all_or_nothing_when_one_does_not_fit(bench: Workbench, failing: int) -> None:
    for name in "abc":
        bench.put(name, "old\n")
        await bench.read(name)
    parts = [change(name, "wrong" if n == failing else "old") for n, name in enumerate("abc")]
    with pytest.raises(
        ToolError, match=f"does not fit '{'abc'[failing]}', and nothing was written"
    ):
        await bench.patch("".join(parts) + create("d"))
    assert sorted(os.listdir(bench.cwd)) == ["a", "b", "c"]
    assert all(bench.at(name).read_text() == "old\n" for name in "abc")


async def test_unread_and_changed_and_missing_and_existing(bench: Workbench) -> None:
    bench.put("a", "old\n")
    bench.put("b", "old\n")
    await bench.read("a")
    with pytest.raises(StaleFile, match="'b' exists and has not been read"):
        await bench.patch(change("a") + change("b"))
    await bench.read("b")
    bench.put("b", "old\nmore\n")
    with pytest.raises(StaleFile, match="'b' has changed on disk"):
        await bench.patch(change("a") + change("b"))
    with pytest.raises(ToolError, match="There is no file 'c'"):
        await bench.patch(change("a") + change("c"))
    with pytest.raises(StaleFile, match="creates 'a', which exists already"):
        await bench.patch(create("a"))
    assert bench.at("a").read_text() == "old\n"


async def test_binary(bench: Workbench) -> None:
    bench.put("a", "old\n")
    await bench.read("a")
    bench.put("a", b"old\n\0")
    bench.state.forget(str(bench.at("a")))
    with pytest.raises(ToolError):
        await bench.patch(change("a"))
    assert bench.at("a").read_bytes() == b"old\n\0"


@pytest.mark.skipif(sys.platform == "win32", reason="links")
async def test_one_file_by_two_names(bench: Workbench) -> None:
    bench.put("a", "old\n")
    bench.at("link").symlink_to("a")
    await bench.read("a")
    with pytest.raises(ToolError, match="'a' and 'link' are the same file"):
        await bench.patch(change("a") + change("link"))
    await bench.patch(change("link"))
    assert bench.at("link").is_symlink()
    assert bench.at("a").read_text() == "new\n"


class Nth(Faults):
    """Fails at some hits of a point, and every time after the last of them if it is to last."""

    def __init__(self, point: str, nth: int, action: Action, *, lasting: bool = False) -> None:
        super().__init__(name=point, nth=nth, action=action)
        self._lasting = lasting

    @override
    def strike(self, point: str) -> Action | None:
        action = super().strike(point)
        if self._lasting and point == self._name and self.hits > self._nth:
            return self._action
        return action


@pytest.mark.parametrize("point", ["at.create", "at.write", "at.sync", "at.check", "at.rename"])
@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_failure_in_the_middle_is_taken_back(tmp_path: Path, point: str, nth: int) -> None:
    bench = Workbench(tmp_path, faults=Nth(point, nth, "enospc"))
    for name in "ab":
        bench.put(name, "old\n").chmod(0o755)
        await bench.read(name)
    with pytest.raises(ToolError, match="disk is full"):
        await bench.patch(change("a") + create("c") + change("b"))
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    for name in "ab":
        assert bench.at(name).read_text() == "old\n"
        assert bench.at(name).stat().st_mode & 0o777 == 0o755
    # It is over: the same call works.
    await bench.patch(change("a") + create("c") + change("b"))
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


async def test_failure_that_lasts_is_said_with_the_names(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, faults=Nth("at.rename", 2, "eio", lasting=True))
    for name in "ab":
        bench.put(name, "old\n")
        await bench.read(name)
    with pytest.raises(ToolError, match="The change of 'a' could not be taken back"):
        await bench.patch(change("a") + change("b"))
    assert bench.at("a").read_text() == "new\n"
    assert bench.at("b").read_text() == "old\n"


async def test_what_somebody_else_wrote_meanwhile_is_not_taken_back(tmp_path: Path) -> None:
    class Meddler(Faults):
        @override
        def act(self, point: str) -> None:
            super().act(point)
            if point == "at.check" and (tmp_path / "a").read_text() == "new\n":
                for name in "ab":
                    (tmp_path / name).write_text("somebody else's\n")

    bench = Workbench(tmp_path, faults=Meddler(name="none", nth=1, action="eio"))
    for name in "ab":
        bench.put(name, "old\n")
        await bench.read(name)
    with pytest.raises(ToolError, match="The change of 'a' could not be taken back"):
        await bench.patch(change("a") + change("b"))
    assert [bench.at(name).read_text() for name in "ab"] == ["somebody else's\n"] * 2


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({}, "'patch' is missing"),
        ({"patch": 1}, "must be text"),
        ({"patch": "x"}, "no file header"),
        ({"patch": "\ud800"}, "no valid character"),
        ({"patch": "x" * (2 * 1024 * 1024 + 1)}, "more than 2,097,152 characters"),
        ({"patch": "x", "strip": 1}, "no field 'strip'"),
    ],
)
def test_bad_input(bench: Workbench, raw: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidToolInput, match=says):
        bench.tools["apply_patch"].parse(raw)


async def test_large_patch(bench: Workbench) -> None:
    old = "".join(f"line {n}\n" for n in range(20_000))
    new = old.replace("00\n", "00!\n")
    bench.put("a", old)
    bench.state.forget("a")
    for first in range(1, 20_000, 2_000):
        await bench.read("a", offset=first, limit=2_000)
    await bench.patch(unified(old, new, path="a").text)
    assert bench.at("a").read_text() == new
