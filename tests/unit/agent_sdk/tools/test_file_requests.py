import os
from pathlib import Path

import pytest

from agent_sdk.loop.types import Rule
from tests.support.file_tools import Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    return Workbench(folder)


def test_edit_inside(bench: Workbench) -> None:
    (request,) = bench.requests("write", file_path="src/a.py", content="x")
    assert request.permission == "edit"
    assert request.patterns == (f"{bench.cwd}/src/a.py",)
    assert request.aliases == ("src/a.py",)
    assert request.always == (Rule("edit", f"{bench.cwd}/*", "allow"),)
    assert request.title == "Edit src/a.py"
    assert not request.protected


def test_read_inside(bench: Workbench) -> None:
    (request,) = bench.requests("read", file_path="./src/../a.py")
    assert request.permission == "read"
    assert request.patterns == (f"{bench.cwd}/a.py",)
    assert set(request.aliases) == {"a.py", "./src/../a.py", f"{bench.cwd}/./src/../a.py"}
    assert request.always == (Rule("read", f"{bench.cwd}/a.py", "allow"),)


def test_outside_needs_the_folder_too(bench: Workbench, tmp_path: Path) -> None:
    one, two = bench.requests("write", file_path="../other/a.py", content="x")
    real = str(tmp_path / "other" / "a.py")
    assert (one.permission, two.permission) == ("edit", "external_directory")
    assert one.patterns == two.patterns == (real,)
    assert one.always == (Rule("edit", real, "allow"),)
    assert two.always == (Rule("external_directory", f"{tmp_path}/other/*", "allow"),)
    assert f"{tmp_path}/other" in two.aliases
    assert "outside the session's folder" in one.title


def test_link_and_target_are_shown(bench: Workbench, tmp_path: Path) -> None:
    bench.at("readme.txt").symlink_to(tmp_path / "secret" / ".env")
    one, _ = bench.requests("read", file_path="readme.txt")
    assert one.patterns == (f"{tmp_path}/secret/.env",)
    assert {"readme.txt", f"{bench.cwd}/readme.txt"} <= set(one.aliases)
    assert f"readme.txt → {tmp_path}/secret/.env" in one.title


def test_hard_link_is_an_alias(bench: Workbench) -> None:
    bench.put(".env", "KEY=1")
    os.link(bench.at(".env"), bench.at("notes.txt"))
    (request,) = bench.requests("read", file_path="notes.txt")
    assert ".env" in request.aliases


def test_protected_is_never_offered_for_good(bench: Workbench) -> None:
    (request,) = bench.requests("write", file_path=".git/hooks/pre-commit", content="x")
    assert request.protected
    assert request.always == ()
    assert "(protected)" in request.title
    (request,) = bench.requests("read", file_path=".git/HEAD")
    assert not request.protected


def test_protected_by_the_link_or_by_the_target(bench: Workbench) -> None:
    (bench.at(".git")).mkdir()
    bench.at("hooks").symlink_to(".git")
    (request,) = bench.requests("write", file_path="hooks/x", content="x")
    assert request.protected
    bench.at(".vscode").symlink_to("src")
    (request,) = bench.requests("write", file_path=".vscode/tasks.json", content="x")
    assert request.protected


def test_secret_is_protected_for_reading(bench: Workbench) -> None:
    (request,) = bench.requests("read", file_path=".ssh/id_rsa")
    assert request.protected
    one, two = bench.requests("read", file_path="/proc/self/environ")
    assert one.protected
    assert two.protected
    assert two.always == ()


@pytest.mark.parametrize("name", [".env", "prod.env", ".env.local"])
def test_env_files_are_remembered_alone(bench: Workbench, name: str) -> None:
    (request,) = bench.requests("write", file_path=name, content="x")
    assert request.always == (Rule("edit", f"{bench.cwd}/{name}", "allow"),)


def test_wildcards_in_a_name_give_no_rule(bench: Workbench) -> None:
    (request,) = bench.requests("write", file_path="a*b", content="x")
    assert request.always == ()
    assert request.patterns == (f"{bench.cwd}/a*b",)


def test_title_hides_nothing(bench: Workbench) -> None:
    (request,) = bench.requests("write", file_path="a\u202etxt.exe\n", content="x")
    assert request.title == r"Edit a\u{202e}txt.exe\x0a"


def test_name_that_is_no_utf8_can_be_stored(bench: Workbench) -> None:
    bench.at("link").symlink_to(os.fsdecode(b"\xff\xfe"))
    (request,) = bench.requests("write", file_path="link", content="x")
    for text in (*request.patterns, *request.aliases, request.title):
        text.encode()
    assert request.patterns == (bench.cwd + r"/\xff\xfe",)
