import os
import sys
from pathlib import Path

import pytest

from agent_sdk.resources.instructions import MOST_BYTES, Instruction, scan_instructions
from agent_sdk.resources.places import Folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "user").mkdir()
    (tmp_path / "repo" / "sub").mkdir(parents=True)
    return Path(os.path.realpath(tmp_path))


def folders(root: Path) -> tuple[Folder, ...]:
    repository = root / "repo"
    return (
        Folder(root / "user", "user"),
        Folder(repository, "project", repository),
        Folder(repository / "sub", "project", repository),
    )


def write(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


def test_nothing_is_nothing(root: Path) -> None:
    found = scan_instructions(folders(root))
    assert (found.items, found.problems) == ((), ())


def test_the_nearest_comes_last(root: Path) -> None:
    deep = write(root / "repo" / "sub" / "AGENTS.md", "deep")
    user = write(root / "user" / "AGENTS.md", "\ufeff\r\nmine\r\n")
    top = write(root / "repo" / "AGENTS.md", "top\n")
    assert scan_instructions(folders(root)).items == (
        Instruction(path=user, source="user", text="mine"),
        Instruction(path=top, source="project", text="top"),
        Instruction(path=deep, source="project", text="deep"),
    )


def test_another_name_is_read_where_there_is_no_first(root: Path) -> None:
    write(root / "repo" / "AGENTS.md", "agents")
    write(root / "repo" / "CLAUDE.md", "claude")
    other = write(root / "repo" / "sub" / "CLAUDE.md", "only")
    found = scan_instructions(folders(root)).items
    assert [item.text for item in found] == ["agents", "only"]
    assert found[1].path == other


def test_an_empty_file_says_nothing_and_stands(root: Path) -> None:
    write(root / "repo" / "AGENTS.md", " \n")
    write(root / "repo" / "CLAUDE.md", "claude")
    assert scan_instructions(folders(root)).items == ()


@pytest.mark.parametrize("over", [0, 1])
def test_a_large_file_is_left_out_and_said(root: Path, over: int) -> None:
    path = write(root / "repo" / "AGENTS.md", "é" * (MOST_BYTES // 2) + "x" * over)
    after = write(root / "repo" / "sub" / "AGENTS.md", "after")
    found = scan_instructions(folders(root))
    assert [item.path for item in found.items] == [path, after]
    assert found.items[1].text == "after"
    if not over:
        assert found.problems == ()
        assert len(found.items[0].text) == MOST_BYTES // 2
        return
    assert (found.items[0].text, found.items[0].error) == ("", "It is larger than 32 KiB.")
    (problem,) = found.problems
    assert (problem.kind, problem.source, problem.path) == ("instructions", "project", path)
    assert problem.level == "error"
    assert problem.hint


def test_another_encoding_is_left_out_and_said(root: Path) -> None:
    (root / "repo" / "AGENTS.md").write_bytes("说明".encode("gbk"))
    write(root / "repo" / "CLAUDE.md", "not this one instead")
    found = scan_instructions(folders(root))
    assert [item.error for item in found.items] == ["It is no UTF-8 text (line 1)."]
    assert len(found.problems) == 1


if sys.platform != "win32":

    def test_one_file_by_two_ways_is_read_once(root: Path) -> None:
        write(root / "repo" / "CLAUDE.md", "text")
        (root / "repo" / "AGENTS.md").symlink_to("CLAUDE.md")
        (root / "repo" / "sub" / "AGENTS.md").symlink_to("../CLAUDE.md")
        assert [item.text for item in scan_instructions(folders(root)).items] == ["text"]

    def test_a_project_cannot_show_the_model_files_of_the_user(root: Path) -> None:
        (root / "secret").write_text("secret")
        (root / "repo" / "AGENTS.md").symlink_to("../secret")
        (root / "user" / "AGENTS.md").symlink_to("../secret")
        found = scan_instructions(folders(root))
        assert [item.text for item in found.items] == ["secret", ""]
        assert "leads out of the project" in found.items[1].error

    def test_a_pipe_is_not_waited_for(root: Path) -> None:
        os.mkfifo(root / "repo" / "AGENTS.md")
        assert scan_instructions(folders(root)).items[0].error == "It is no ordinary file."
