"""The git tools on real repositories."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.core.process import ProcessOwner
from agent_sdk.tools import git_run
from agent_sdk.tools.git_run import find_git
from tests.support.git import GitBench, make_home
from tests.support.processes import appear, unique_word, vanish

if shutil.which("git") is None:
    pytest.skip("git is not installed", allow_module_level=True)


@pytest.fixture
async def owner() -> AsyncIterator[ProcessOwner]:
    async with ProcessOwner() as owner:
        yield owner


@pytest.fixture
def empty(tmp_path: Path, owner: ProcessOwner) -> GitBench:
    (tmp_path / "project").mkdir()
    bench = GitBench(tmp_path / "project", make_home(tmp_path / "home"), owner)
    bench.git("init", "-q")
    return bench


@pytest.fixture
def bench(empty: GitBench) -> GitBench:
    empty.put("a", "one\n")
    empty.put("src/b", "b\n")
    empty.git("add", ".")
    empty.git("commit", "-q", "-m", "first")
    return empty


def committed(bench: GitBench) -> list[str]:
    return bench.git("show", "--format=", "--name-only", "-z", "HEAD").strip("\0").split("\0")


# ------------------------------------------------------------------------ status


async def test_status(bench: GitBench) -> None:
    assert "On branch main at" in await bench.text("git_status")
    assert "Nothing has changed." in await bench.text("git_status")
    bench.put("a", "two\n")
    bench.put("文 件", "x\n")
    bench.put("new/x", "x\n")
    bench.git("mv", "src/b", "src/c")
    result = await bench.call("git_status")
    assert str(result.content).split("\n")[1:] == [
        "Staged (1):",
        "  renamed: src/b -> src/c",
        "Changed, not staged (1):",
        "  modified: a",
        "Untracked (2):",
        "  new/",
        "  文 件",
    ]
    assert result.details["staged"] == [{"path": "src/c", "change": "renamed", "origin": "src/b"}]
    assert result.details["branch"] == "main"
    assert result.details["repository"] == bench.folder.as_posix()


async def test_ahead_and_behind(bench: GitBench, tmp_path: Path) -> None:
    bench.git("clone", "-q", str(bench.folder), str(tmp_path / "clone"))
    clone = GitBench(tmp_path / "clone", bench.home, bench.processes)
    assert "level with origin/main" in await clone.text("git_status")
    clone.git("commit", "-q", "--allow-empty", "-m", "x")
    bench.git("commit", "-q", "--allow-empty", "-m", "y")
    clone.git("fetch", "-q")
    assert "1 ahead of and 1 behind origin/main" in await clone.text("git_status")
    clone.git("update-ref", "-d", "refs/remotes/origin/main")
    assert "upstream origin/main is gone" in await clone.text("git_status")


async def test_no_commits_and_detached(empty: GitBench) -> None:
    assert "On branch main, no commits yet." in await empty.text("git_status")
    assert await empty.text("git_log") == "The repository has no commits yet."
    assert await empty.text("git_diff") == (
        "Nothing has changed that is not staged. For what is, set staged."
    )
    empty.git("commit", "-q", "--allow-empty", "-m", "x")
    empty.git("checkout", "-q", "--detach")
    assert "HEAD is detached at" in await empty.text("git_status")


async def test_long_lists_are_cut(empty: GitBench) -> None:
    for n in range(250):
        empty.put(f"file{n:03}", "")
    text = await empty.text("git_status")
    assert "Untracked (250):" in text
    assert "… and 50 more" in text


# -------------------------------------------------------------------------- diff


async def test_diff(bench: GitBench) -> None:
    bench.put("a", "two\n")
    bench.put("bin", b"\0\1")
    bench.git("add", "bin")
    text = await bench.text("git_diff")
    assert text.startswith("+1 -1\ta\n1 file, +1 -1 lines\n\ndiff --git a/a b/a\n")
    assert text.endswith("-one\n+two\n")
    staged = await bench.call("git_diff", staged=True)
    assert str(staged.content).startswith("binary\tbin\n1 file, +0 -0 lines\n")
    assert staged.details["files"] == [{"path": "bin", "added": None, "deleted": None}]


async def test_diff_of_a_path(bench: GitBench) -> None:
    bench.put("a", "two\n")
    bench.put("src/b", "bb\n")
    bench.put("new", "x\n")
    assert "a/a" not in await bench.text("git_diff", path="src")
    assert "+bb" in await bench.text("git_diff", path="src/b", directory="src")
    assert "+bb" in await bench.text("git_diff", path="src/b")
    with pytest.raises(ToolError, match="git does not know 'new' yet"):
        await bench.text("git_diff", path="new")
    assert await bench.text("git_diff", path="a", staged=True) == "Nothing is staged in 'a'."
    requests = bench.prepare("git_diff", path="src/b")[1]
    assert [(r.permission, r.patterns[0]) for r in requests] == [
        ("git_read", bench.folder.as_posix()),
        ("read", (bench.folder / "src/b").as_posix()),
    ]


async def test_files_that_must_be_asked_for_are_named_only(bench: GitBench) -> None:
    lines = "".join(f"line {n}\n" for n in range(20))
    bench.put("prod.env", f"{lines}KEY=1\n")
    bench.put("id_rsa", "key 1\n")
    bench.git("add", "-f", ".")
    bench.git("commit", "-q", "-m", "bad idea")
    bench.put("prod.env", f"{lines}KEY=2\n")
    bench.put("id_rsa", "key 2\n")
    bench.put("a", "two\n")
    inner = GitBench(
        bench.folder, bench.home, bench.processes, may_read=lambda path: not path.endswith(".env")
    )
    text = await inner.text("git_diff")
    assert "+two" in text
    assert "KEY=" not in text
    assert "key 2" not in text
    assert "Not shown below: id_rsa, prod.env" in text
    inner.git("mv", "prod.env", "plain")  # under a new name it is the same
    inner.git("add", ".")
    assert "KEY=" not in await inner.text("git_diff", staged=True)


async def test_long_diff_is_cut(bench: GitBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put("a", "".join(f"line {n}\n" for n in range(20_000)))
    text = await bench.text("git_diff")
    assert len(text.encode()) <= 48 * 1024
    assert "left out here" in text
    monkeypatch.setattr(git_run, "OUTPUT_LIMIT", 10_000)
    assert "the diff goes on; name a single path" in await bench.text("git_diff")


# --------------------------------------------------------------------------- log


async def test_log(bench: GitBench) -> None:
    for n in range(3):
        bench.put("a", f"{n}\n")
        bench.git("commit", "-q", "-am", f"change {n}")
    result = await bench.call("git_log", limit=2)
    lines = str(result.content).split("\n")
    assert [line.rpartition(": ")[2] for line in lines] == [
        "change 2",
        "change 1",
        "… older ones follow; raise limit to see them.",
    ]
    assert "Ann Example (HEAD -> main)" in lines[0]
    assert [c["subject"] for c in result.details["commits"]] == ["change 2", "change 1"]
    assert (await bench.text("git_log", path="src/b")).endswith("first")
    assert await bench.text("git_log", path="nothing") == "No commit touches 'nothing'."


# ------------------------------------------------------------------------ commit


async def test_paths_are_committed_alone(bench: GitBench) -> None:
    bench.put("a", "two\n")
    bench.put("src/b", "staged\n")
    bench.git("add", "src/b")
    bench.put("new file", "x\n")
    result = await bench.call("git_commit", message=" Title\n\n# body \n", paths=["a", "new file"])
    assert "to main: 2 files.\n  a\n  new file" in str(result.content)
    assert committed(bench) == ["a", "new file"]
    assert bench.git("log", "-1", "--format=%B").rstrip() == "Title\n\n# body"
    assert bench.git("log", "-1", "--format=%an %ae %cn") == (
        "Ann Example ann@example.invalid Ann Example\n"
    )
    assert bench.git("status", "--porcelain") == "M  src/b\n"  # still staged
    assert result.details["commit"] == bench.git("rev-parse", "HEAD").strip()
    assert result.details["files"] == ["a", "new file"]


async def test_deleted_and_folder(bench: GitBench) -> None:
    (bench.folder / "a").unlink()
    bench.put("src/c", "c\n")
    await bench.call("git_commit", message="x", paths=["a", "src/"])
    assert committed(bench) == ["a", "src/c"]
    assert bench.git("ls-files") == "src/b\nsrc/c\n"


async def test_add_all_and_staged(bench: GitBench) -> None:
    bench.put("a", "two\n")
    bench.put("c", "c\n")
    bench.git("add", "c")
    await bench.call("git_commit", message="x", staged=True)
    assert committed(bench) == ["c"]
    await bench.call("git_commit", message="x", add_all=True)
    assert committed(bench) == ["a"]


async def test_first_commit(empty: GitBench) -> None:
    empty.put("a", "one\n")
    await empty.call("git_commit", message="x", paths=["a"])
    assert committed(empty) == ["a"]


async def test_nothing_to_commit(bench: GitBench) -> None:
    with pytest.raises(ToolError, match=r"Nothing is staged.*Nothing has changed"):
        await bench.call("git_commit", message="x", staged=True)
    bench.put("a", "two\n")
    with pytest.raises(ToolError, match=r"Nothing is staged.*Give paths, or set add_all"):
        await bench.call("git_commit", message="x", staged=True)
    with pytest.raises(ToolError, match="Nothing has changed in 'src/b'"):
        await bench.call("git_commit", message="x", paths=["src/b"])
    bench.put(".git/info/exclude", "ignored\n")
    bench.put("ignored", "x\n")
    with pytest.raises(ToolError, match="ignored files are not committed"):
        await bench.call("git_commit", message="x", paths=["ignored"])


async def test_failed_commit_forgets_new_files(
    bench: GitBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put("new", "x\n")
    monkeypatch.setattr("agent_sdk.tools.git_commit.WRITE_SECONDS", 1e-9)
    bench.put("a", "two\n")
    with pytest.raises(ToolError):
        await bench.call("git_commit", message="x", paths=["a", "new"])
    assert bench.git("status", "--porcelain") == " M a\n?? new\n"


async def test_secrets_are_not_swept_up(bench: GitBench) -> None:
    for name in (".env", "deep/prod.env.local", ".netrc"):
        bench.put(name, "secret\n")
        with pytest.raises(ToolError, match=f"add_all would add '{name}'"):
            await bench.call("git_commit", message="x", add_all=True)
        (bench.folder / name).unlink()


async def test_conflict_and_merge(bench: GitBench) -> None:
    bench.git("checkout", "-q", "-b", "other")
    bench.put("a", "theirs\n")
    bench.git("commit", "-q", "-am", "theirs")
    bench.git("checkout", "-q", "main")
    bench.put("a", "ours\n")
    bench.git("commit", "-q", "-am", "ours")
    assert bench.attempt("merge", "other").returncode
    assert "Conflicts (1):\n  a" in await bench.text("git_status")
    for what in ({"staged": True}, {"add_all": True}, {"paths": ["src/b"]}):
        with pytest.raises(ToolError, match="unresolved conflicts in 'a'"):
            await bench.call("git_commit", message="x", **what)
    bench.put("a", "both\n")
    bench.git("add", "a")
    with pytest.raises(
        ToolError, match="A merge is under way; it can only be committed as a whole"
    ):
        await bench.call("git_commit", message="x", paths=["a"])
    await bench.call("git_commit", message="merged", staged=True)
    assert len(bench.git("log", "-1", "--format=%P").split()) == 2
    bench.put(".git/rebase-merge/x", "")
    with pytest.raises(ToolError, match="A rebase is under way"):
        await bench.call("git_commit", message="x", staged=True)


async def test_detached_head_and_no_identity(bench: GitBench) -> None:
    bench.put("a", "two\n")
    (bench.home / ".gitconfig").write_text("[user]\n\tname = Ann\n")
    with pytest.raises(ToolError, match="does not know the e-mail address"):
        await bench.call("git_commit", message="x", add_all=True)
    bench.git("config", "user.email", "here@example.invalid")
    bench.git("checkout", "-q", "--detach")
    with pytest.raises(ToolError, match=r"HEAD is detached.*git switch -c NAME"):
        await bench.call("git_commit", message="x", add_all=True)
    bench.git("checkout", "-q", "main")
    await bench.call("git_commit", message="x", add_all=True)
    assert bench.git("log", "-1", "--format=%an %ae") == "Ann here@example.invalid\n"


async def test_another_git_is_at_work(bench: GitBench) -> None:
    bench.put("a", "two\n")
    bench.put(".git/index.lock", "")
    assert "modified: a" in await bench.text("git_status")  # looking needs no lock
    with pytest.raises(ToolError, match=r"Another git is at work.*index\.lock"):
        await bench.call("git_commit", message="x", add_all=True)


async def test_settings_of_the_user_that_hold(bench: GitBench) -> None:
    (bench.home / "ignore").write_text("*.swp\n")
    with (bench.home / ".gitconfig").open("a") as file:
        file.write("[core]\n\tautocrlf = input\n\texcludesFile = ~/ignore\n")
    bench.put("x.swp", "x")
    bench.put("crlf", "a\r\n")
    await bench.call("git_commit", message="x", add_all=True)
    assert committed(bench) == ["crlf"]
    assert bench.git("cat-file", "-p", "HEAD:crlf") == "a\n"
    bench.git("config", "core.autocrlf", "false")  # what the repository says comes first
    bench.put("crlf2", "a\r\n")
    await bench.call("git_commit", message="x", paths=["crlf2"])
    assert bench.git("cat-file", "-p", "HEAD:crlf2") == "a\r\n"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({}, "'message' is missing"),
        ({"message": " \n", "staged": True}, "must not be empty"),
        ({"message": "a\0b", "staged": True}, "must not be empty or hold NUL"),
        ({"message": "\ud800", "staged": True}, "not valid Unicode"),
        ({"message": "x" * 70_000, "staged": True}, "longer than 65536 bytes"),
        ({"message": "x"}, "by paths, add_all or staged; there is none of these"),
        ({"message": "x", "staged": True, "add_all": True}, "there is more than one"),
        ({"message": "x", "paths": ["a"], "staged": True}, "there is more than one"),
        ({"message": "x", "staged": False}, "there is none of these"),
        ({"message": "x", "paths": []}, "a list of 1 to 200 paths"),
        ({"message": "x", "paths": [1]}, "a list of 1 to 200 paths"),
        ({"message": "x", "paths": "a"}, "must be a list"),
        ({"message": "x", "staged": True, "amend": True}, "no field 'amend'"),
    ],
)
def test_bad_commit(empty: GitBench, raw: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidToolInput, match=says):
        empty.tools["git_commit"].parse(raw)


def test_bad_limit(empty: GitBench) -> None:
    for limit in (0, 201):
        with pytest.raises(InvalidToolInput, match="'limit' must be at"):
            empty.tools["git_log"].parse({"limit": limit})


# ------------------------------------------------------------------------- places


async def test_not_a_repository(tmp_path: Path, owner: ProcessOwner) -> None:
    (tmp_path / "plain").mkdir()
    bench = GitBench(tmp_path / "plain", make_home(tmp_path / "home"), owner)
    for tool in ("git_status", "git_diff", "git_log"):
        with pytest.raises(ToolError, match=r"is not in a git repository.*git init"):
            bench.prepare(tool)
    (tmp_path / "plain" / ".git").mkdir()
    with pytest.raises(ToolError, match="git does not take it for a repository"):
        await bench.text("git_status")
    with pytest.raises(ToolError, match="There is no folder 'gone'"):
        bench.prepare("git_status", directory="gone")
    with pytest.raises(ToolError, match="outside of the session's folder"):
        bench.prepare("git_status", directory="..")


async def test_repository_above_the_session(bench: GitBench) -> None:
    bench.put("a", "two\n")
    bench.put("src/b", "bb\n")
    inner = GitBench(bench.folder / "src", bench.home, bench.processes)
    text = await inner.text("git_status")
    assert f"begins at {bench.folder}; only '{bench.folder / 'src'}' is shown" in text
    assert "modified: src/b" in text
    assert "modified: a" not in text
    assert "+two" not in await inner.text("git_diff")
    for tool, raw in (
        ("git_diff", {"path": "../a"}),
        ("git_commit", {"message": "x", "paths": ["../a"]}),
    ):
        with pytest.raises(ToolError, match="lies outside of the repository"):
            await inner.text(tool, **raw)
    (request,) = inner.prepare("git_commit", message="x", add_all=True)[1]
    assert (request.permission, request.patterns) == ("git_write", (bench.folder.as_posix(),))
    assert "begins above the session's folder" in request.title
    await inner.call("git_commit", message="x", add_all=True)
    assert committed(bench) == ["src/b"]


async def test_linked_work_tree_and_repository_below(bench: GitBench, tmp_path: Path) -> None:
    bench.git("worktree", "add", "-q", "-b", "tree", str(tmp_path / "tree"))
    tree = GitBench(tmp_path / "tree", bench.home, bench.processes)
    tree.put("a", "in the tree\n")
    await tree.call("git_commit", message="in the tree", add_all=True)
    assert "On branch tree" in await tree.text("git_status")
    assert bench.git("log", "-1", "--format=%s", "tree") == "in the tree\n"
    assert "first" in await bench.text("git_log")
    bench.git("init", "-q", "below")
    bench.put("below/x", "x\n")
    await bench.call("git_commit", message="below", add_all=True, directory="below")
    assert bench.git("log", "--format=%s", cwd="below") == "below\n"


@pytest.mark.skipif(sys.platform == "win32", reason="links")
async def test_links_are_committed_as_links(bench: GitBench, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (bench.folder / "link").symlink_to(tmp_path / "outside")
    await bench.call("git_commit", message="x", paths=["link"])
    assert bench.git("ls-tree", "HEAD", "link").startswith("120000 blob")
    (bench.folder / "folder").symlink_to(tmp_path)
    with pytest.raises(ToolError, match="lies outside of the repository"):
        await bench.call("git_commit", message="x", paths=["folder/outside"])


def test_permission_is_for_the_repository(bench: GitBench) -> None:
    root = bench.folder.as_posix()
    for tool, raw, key in (
        ("git_status", {}, "git_read"),
        ("git_log", {"directory": "src"}, "git_read"),
        ("git_commit", {"message": "x", "staged": True}, "git_write"),
    ):
        (request,) = bench.prepare(tool, **raw)[1]
        assert (request.permission, request.patterns) == (key, (root,))
        assert [(r.permission, r.pattern, r.action) for r in request.always] == [
            (key, root, "allow")
        ]
    for name, tool_ in bench.tools.items():
        assert tool_.metadata.read_only == (name != "git_commit")
        assert tool_.metadata.early == (name != "git_commit")


# ------------------------------------------------------------------------ the program


def test_git_is_found_by_its_whole_path(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / ("git.exe" if sys.platform == "win32" else "git")
    fake.parent.mkdir()
    fake.write_text("")
    fake.chmod(0o755)
    env = {"PATH": str(fake.parent)}
    assert find_git(env, outside="/nowhere") == str(fake)
    assert find_git(env, outside=str(tmp_path)) != str(fake)


@pytest.mark.skipif(sys.platform == "win32", reason="a script with a shebang")
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo git version 2.31.9", "too old"),
        ("echo something else", "too old"),
        ('case "$*" in --version) echo git version 2.40.0;; *) exit 7;; esac', "does not take it"),
    ],
)
async def test_other_versions_of_git(
    bench: GitBench, tmp_path: Path, script: str, says: str
) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    bench.environment["PATH"] = f"{fake.parent}{os.pathsep}{bench.environment['PATH']}"
    with pytest.raises(ToolError, match=says):
        await bench.text("git_status")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("stop", ["time", "cancel"])
async def test_git_that_hangs_is_ended(
    bench: GitBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    word = unique_word()
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in --version) echo git version 2.40.0;; *) sh -c "sleep 99; : {word}";;'
        " esac\n"
    )
    fake.chmod(0o755)
    bench.environment["PATH"] = f"{fake.parent}{os.pathsep}{bench.environment['PATH']}"
    if stop == "time":
        monkeypatch.setattr(git_run.Git._run, "__kwdefaults__", {"stdin": None, "seconds": 0.5})
        with pytest.raises(ToolError, match=r"did not answer within 0\.5 seconds"):
            await bench.text("git_status")
    else:
        task = asyncio.ensure_future(bench.text("git_status"))
        await appear(word)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await vanish(word)
