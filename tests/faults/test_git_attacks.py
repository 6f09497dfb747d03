"""Repositories that want to run something because somebody looked at them."""

import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_sdk.core.errors import ToolError
from agent_sdk.core.process import ProcessOwner
from tests.support.git import GitBench, make_home

if sys.platform == "win32":
    pytest.skip("scripts with a shebang", allow_module_level=True)
if shutil.which("git") is None:
    pytest.skip("git is not installed", allow_module_level=True)

HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change"),
    *("pre-auto-gc", "reference-transaction", "post-checkout", "post-rewrite"),
)


class Trap:
    """Scripts that leave a mark when they are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marks = folder / "marks"
        self.marks.mkdir(parents=True)

    def script(self, name: str, *, then: str = "exit 1") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho x > "{self.marks}/{name.replace("/", "-")}"\n{then}\n')
        path.chmod(0o755)
        return path

    def sprung(self) -> list[str]:
        return sorted(os.listdir(self.marks))

    def clear(self) -> None:
        for mark in self.marks.iterdir():
            mark.unlink()


@pytest.fixture
async def owner() -> AsyncIterator[ProcessOwner]:
    async with ProcessOwner() as owner:
        yield owner


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "trap")


@pytest.fixture
def bench(tmp_path: Path, owner: ProcessOwner) -> GitBench:
    (tmp_path / "project").mkdir()
    bench = GitBench(tmp_path / "project", make_home(tmp_path / "home"), owner)
    bench.git("init", "-q")
    bench.put("a.txt", "one\n")
    bench.git("add", ".")
    bench.git("commit", "-q", "-m", "first")
    return bench


async def look(bench: GitBench) -> None:
    """Call every tool that looks, in every way."""
    await bench.text("git_status")
    await bench.text("git_diff")
    await bench.text("git_diff", staged=True)
    await bench.text("git_diff", path="a.txt")
    await bench.text("git_log")
    await bench.text("git_log", path="a.txt")


def set_traps(bench: GitBench, trap: Trap) -> None:
    """Set everything in a repository's settings that starts a program."""
    for name in HOOKS:
        trap.script(f"hooks/{name}")
    settings = {
        "core.fsmonitor": trap.script("fsmonitor"),
        "core.hooksPath": trap.folder / "hooks",
        "core.pager": trap.script("pager"),
        "pager.log": trap.folder / "pager",
        "pager.diff": trap.folder / "pager",
        "pager.status": trap.folder / "pager",
        "core.editor": trap.script("editor"),
        "core.askPass": trap.script("askpass"),
        "core.sshCommand": trap.script("ssh"),
        "core.alternateRefsCommand": trap.script("alternates"),
        "diff.external": trap.script("external-diff"),
        "diff.evil.command": trap.script("diff-driver"),
        "diff.evil.textconv": trap.script("textconv"),
        "filter.evil.clean": trap.script("filter-clean", then="cat"),
        "filter.evil.smudge": trap.script("filter-smudge", then="cat"),
        "filter.evil.required": "true",
        "filter.pro=cess.process": trap.script("filter-process"),
        "merge.evil.driver": trap.script("merge-driver"),
        "gpg.program": trap.script("gpg"),
        "log.showSignature": "true",
        "commit.gpgSign": "true",
        "credential.helper": f"!{trap.script('credential')}",
        "status.submoduleSummary": "true",
        "diff.submodule": "log",
        "gc.auto": "1",
        "color.ui": "always",
    }
    for key, value in settings.items():
        bench.git("config", key, str(value))
    bench.put(".gitattributes", "*.txt diff=evil merge=evil filter=evil\n*.p filter=pro=cess\n")


async def test_nothing_that_is_set_runs(bench: GitBench, trap: Trap) -> None:
    bench.put("b.p", "x\n")
    bench.git("add", "b.p")
    set_traps(bench, trap)
    bench.put("a.txt", "two\n")
    bench.put("b.p", "y\n")
    await look(bench)
    assert trap.sprung() == []
    for what in ({"add_all": True}, {"paths": ["a.txt"]}, {"paths": ["b.p"]}):
        with pytest.raises(ToolError, match="through the filter"):
            await bench.call("git_commit", message="x", **what)
    bench.put("c", "no filter\n")
    text = await bench.text("git_commit", message="second", paths=["c"])
    assert "not run: pre-commit, prepare-commit-msg, commit-msg, post-commit" in text
    assert "not signed" in text
    await bench.text("git_commit", message="third", staged=True)
    assert trap.sprung() == []
    # The traps are good: git alone would have run into them.
    bench.attempt("-c", "core.hooksPath=/dev/null", "status")
    assert {"fsmonitor", "filter-process"} <= set(trap.sprung())


@pytest.mark.parametrize("key", ["diff.external", "diff.evil.textconv", "core.hooksPath"])
async def test_control(bench: GitBench, trap: Trap, key: str) -> None:
    """Each of these would have been run by git alone."""
    set_traps(bench, trap)
    bench.git("config", "--unset", "core.fsmonitor")
    bench.git("config", "--unset", "commit.gpgSign")
    (bench.folder / ".gitattributes").write_text("*.txt diff=evil\n")
    bench.put("a.txt", "two\n")
    argv = {
        "diff.external": ("diff",),
        "diff.evil.textconv": ("diff", "--no-ext-diff"),
        "core.hooksPath": ("commit", "-q", "-m", "x", "a.txt"),
    }[key]
    bench.attempt(*argv)
    assert trap.sprung()


async def test_hooks_in_their_usual_place(bench: GitBench, trap: Trap) -> None:
    for name in HOOKS:
        shutil.copy(trap.script(f"hooks/{name}"), bench.folder / ".git" / "hooks" / name)
    bench.put("a.txt", "two\n")
    await look(bench)
    await bench.call("git_commit", message="x", add_all=True)
    assert trap.sprung() == []


async def test_repository_below_that_monitors(bench: GitBench, trap: Trap) -> None:
    """A submodule's own settings hold when git looks into it."""
    bench.git("init", "-q", "sub")
    bench.put("sub/f", "x\n")
    bench.git("add", ".", cwd="sub")
    bench.git("commit", "-q", "-m", "x", cwd="sub")
    bench.git("-c", "advice.addEmbeddedRepo=false", "add", "sub")
    bench.git("commit", "-q", "-m", "sub")
    bench.git("config", "core.fsmonitor", str(trap.script("fsmonitor")), cwd="sub")
    bench.git("config", "submodule.sub.ignore", "none")
    bench.put(".gitmodules", '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    bench.put("sub/f", "y\n")
    await look(bench)
    await bench.call("git_commit", message="x", add_all=True)
    bench.put("a.txt", "three\n")
    await bench.call("git_commit", message="x", paths=["a.txt"])
    assert trap.sprung() == []
    bench.git("status")
    assert trap.sprung() == ["fsmonitor"]  # the trap is good


async def test_bare_repository_below_is_not_taken(bench: GitBench, trap: Trap) -> None:
    bench.git("init", "-q", "--bare", "docs")
    bench.git("config", "--file", "docs/config", "core.fsmonitor", str(trap.script("fsmonitor")))
    bench.git("config", "--file", "docs/config", "core.bare", "false")
    bench.git("config", "--file", "docs/config", "core.worktree", str(bench.folder / "docs"))
    inner = GitBench(
        bench.folder / "docs",
        bench.home,
        bench.processes,
        roots=(str(bench.folder / "docs"),),
    )
    assert f"begins at {bench.folder}" in await inner.text("git_status")
    assert trap.sprung() == []


async def test_lazy_fetch_of_a_partial_clone(bench: GitBench, trap: Trap, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(bench.folder, source)
    bench.git("config", "uploadpack.allowFilter", "true", cwd=source)
    clone = tmp_path / "clone"
    bench.git("clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{source}", str(clone))
    bench.git("read-tree", "HEAD", cwd=clone)  # an index of files that are not there
    (clone / "a.txt").write_text("two\n")
    evil = str(trap.script("upload-pack"))
    for key, value in (
        ("remote.origin.uploadpack", evil),
        ("protocol.file.allow", "always"),
        ("protocol.ext.allow", "always"),
    ):
        bench.git("config", key, value, cwd=clone)
    inner = GitBench(clone, bench.home, bench.processes)
    await inner.text("git_status")
    with pytest.raises(ToolError):  # the old contents are not there to be compared with
        await inner.text("git_diff")
    assert trap.sprung() == []
    inner.attempt("diff")
    assert trap.sprung() == ["upload-pack"]  # the trap is good


async def test_program_in_the_project_is_not_git(
    bench: GitBench, trap: Trap, owner: ProcessOwner
) -> None:
    shutil.copy(trap.script("git"), bench.folder / "git")
    path = f".{os.pathsep}{bench.folder}{os.pathsep}{os.pathsep}{os.environ['PATH']}"
    inner = GitBench(bench.folder, bench.home, owner)
    inner.environment["PATH"] = path
    await look(inner)
    assert trap.sprung() == []


async def test_variables_do_not_reach_git(bench: GitBench, trap: Trap, owner: ProcessOwner) -> None:
    evil = str(trap.script("variable"))
    names = ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_SSH_COMMAND", "GIT_ASKPASS")
    inner = GitBench(bench.folder, bench.home, owner)
    inner.environment.update(dict.fromkeys(names, evil))
    inner.environment.update({"GIT_DIR": "/nowhere", "GIT_TRACE": str(trap.marks / "trace")})
    bench.put("a.txt", "two\n")
    await look(inner)
    await inner.call("git_commit", message="x", add_all=True)
    assert trap.sprung() == []


async def test_work_tree_that_is_said_to_be_elsewhere(bench: GitBench, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    bench.git("config", "core.worktree", str(tmp_path / "private"))
    for tool, raw in (("git_status", {}), ("git_commit", {"message": "x", "add_all": True})):
        with pytest.raises(ToolError, match="does not take it for a repository with files there"):
            await bench.call(tool, **raw)


async def test_data_that_lies_elsewhere_is_shown(bench: GitBench, tmp_path: Path) -> None:
    other = tmp_path / "other"
    bench.git("init", "-q", str(other))
    shutil.rmtree(bench.folder / ".git")
    bench.put(".git", f"gitdir: {other}/.git\n")
    (request,) = bench.prepare("git_commit", message="x", add_all=True)[1]
    assert f"data in {os.path.realpath(other)}/.git" in request.title
    assert f"{os.path.realpath(other)}/.git" in request.aliases


async def test_names_that_look_like_options(bench: GitBench, tmp_path: Path) -> None:
    name = f"--output={tmp_path}/written"
    bench.put(name, "x\n")
    bench.put(":(top)magic", "x\n")
    await bench.call("git_commit", message="x", paths=[f"./{name}", ":(top)magic"])
    bench.put(name, "y\n")
    assert "+y" in await bench.text("git_diff", path=name)
    await bench.text("git_log", path=name)
    await bench.call("git_commit", message="--amend", paths=[name])
    assert bench.git("log", "--format=%s", "-1") == "--amend\n"
    assert not (tmp_path / "written").exists()


async def test_control_characters_of_names_and_messages(bench: GitBench) -> None:
    bench.put("e\x1b[31mvil\u202e", "x\n")
    await bench.call("git_commit", message="x\x1b]0;title\x07\u202e", add_all=True)
    bench.put("e\x1b[31mvil\u202e", "\x1b[2Jy\n")
    shown = [await bench.text(tool) for tool in ("git_status", "git_diff", "git_log")]
    assert not any(c in text for text in shown for c in "\x1b\x07")
    assert all("\u202e" not in shown[n] for n in (0, 2))
