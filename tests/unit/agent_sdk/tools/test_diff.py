import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.tools.diff import changed_blocks, unified


def test_modified() -> None:
    diff = unified("a\nb\nc\n", "a\nB\nc\n", path="x.txt")
    assert diff.text == "--- a/x.txt\n+++ b/x.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    assert (diff.additions, diff.deletions, diff.truncated) == (1, 1, False)


def test_created_and_emptied() -> None:
    assert unified(None, "a\n", path="x").text == "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n"
    assert unified("a\n", "", path="x").text == "--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-a\n"
    assert unified("a", "a", path="x").text == ""


def test_missing_final_newline_is_said() -> None:
    text = unified("a", "a\n", path="x").text
    assert text.endswith("-a\n\\ No newline at end of file\n+a\n")


def test_far_changes_get_hunks_of_their_own() -> None:
    old = [f"{n}\n" for n in range(40)]
    new = old.copy()
    new[5], new[9], new[30] = "x\n", "y\n", "z\n"
    text = unified("".join(old), "".join(new), path="x").text
    assert [line for line in text.split("\n") if line.startswith("@@")] == [
        "@@ -3,11 +3,11 @@",
        "@@ -28,7 +28,7 @@",
    ]


def test_crlf_and_separators_within_a_line_stay() -> None:
    diff = unified("a\r\nb\u2028c\r\n", "a\r\nb\u2028d\r\n", path="x")
    assert diff.text.endswith(" a\r\n-b\u2028c\r\n+b\u2028d\r\n")


def test_large_diff_is_cut() -> None:
    diff = unified(None, "x" * 99 + "\n" + "é" * 100_000, path="x")
    assert diff.truncated
    assert len(diff.text.encode()) <= 64 * 1024
    assert diff.additions == 2
    assert len(unified(None, "line\n" * 50_000, path="x").text) <= 64 * 1024


def test_two_changes_far_apart_in_a_large_file() -> None:
    old = [f"line {n}\n" for n in range(60_000)]
    new = old.copy()
    new[10] = "first\n"
    new[59_990:59_992] = ["second\n"]
    diff = unified("".join(old), "".join(new), path="x")
    assert (diff.additions, diff.deletions) == (2, 3)


def test_hopeless_texts_count_as_replaced() -> None:
    rng = random.Random(1)
    old = "".join(rng.choice("ab") + "\n" for _ in range(30_000))
    new = "".join(rng.choice("ab") + "\n" for _ in range(30_000))
    diff = unified(old, new, path="x")  # to compare them in full would take hours
    assert diff.additions > 20_000


texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=12).map("".join)


@given(texts, texts)
def test_blocks_turn_one_into_the_other(old: str, new: str) -> None:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    rebuilt: list[str] = []
    at = 0
    for block in changed_blocks(before, after):
        rebuilt += before[at : block.a] + after[block.c : block.d]
        assert before[block.a : block.b] != after[block.c : block.d]
        at = block.b
    assert rebuilt + before[at:] == after


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs the program patch")
@pytest.mark.parametrize("seed", range(12))
def test_patch_takes_it(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    old = [f"{rng.randrange(60)}\n" for _ in range(rng.choice([0, 5, 900]))]
    new = [line for line in old if rng.random() > 0.05]
    for _ in range(10):
        new.insert(rng.randrange(len(new) + 1), f"new {rng.random()}\n")
    if seed % 2:
        new.append("no newline")
    target = tmp_path / "x"
    target.write_text("".join(old))
    diff = unified("".join(old), "".join(new), path="x")
    run = subprocess.run(
        ["patch", "-p1", "--fuzz=0", str(target)],
        input=diff.text,
        text=True,
        capture_output=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert target.read_text() == "".join(new)
