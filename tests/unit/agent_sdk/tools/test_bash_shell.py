"""Which shell is taken, and which rules *always* may store (X-P09, X-A01, X-A02)."""

import os
from pathlib import Path

import pytest

from agent_sdk.core.errors import ToolError
from agent_sdk.tools import shell
from agent_sdk.tools.shell import always_rules, find_shell


def patterns(command: str) -> list[str]:
    rules = always_rules(command)
    assert all((rule.permission, rule.action) == ("bash", "allow") for rule in rules)
    return [rule.pattern for rule in rules]


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("git status", "git status *"),
        ("git status --short", "git status *"),
        ("git push origin main", "git push origin main *"),
        ("git commit -m 'a message'", "git commit *"),
        ('git commit -m "a; message"', "git commit *"),
        ("npm run test:unit -- --watch", "npm run test:unit *"),
        ("pytest -q tests", "pytest *"),
        ("make", "make *"),
        ("ls  -la   src", "ls *"),
        ("cargo build --release", "cargo build *"),
    ],
)
def test_a_simple_command_gives_a_prefix_too(command: str, prefix: str) -> None:
    assert patterns(command) == [command, prefix]


@pytest.mark.parametrize(
    "command",
    [
        # more than one command, or one that the shell works on first
        *("git status; rm x", "git status && rm x", "git status | sh", "git status & rm x"),
        *("git status\nrm x", "git status\rrm x", "git $(rm x)", "git `rm x`", "git $IFS", "a$b"),
        *('git commit -m "$(rm x)"', 'git log "`rm x`"', "git log > x", "git log < x", "cat <<E"),
        *("A=b git status", "git {a,b}", "git stat\\us", "(git status)", "! git status", "ls ~"),
        *("git status # comment", "git 'status", 'git "status', "ls [ab]", "git\u00a0status"),
        *("git\u2003status x", "git status \u202e", "git\tstatus", "'git' status", "x=1"),
        *("echo a'b\nc'd", "git status" + " x" * 80),
        # programs that run what they are given
        *("bash x.sh", "sh -c ls", "python x.py", "python3.11 -m pytest", "node x.js", "perl x"),
        *("env ls", "env A=b ls", "xargs ls", "find . -delete", "find . -exec ls", "sudo ls"),
        *("timeout 5 ls", "nohup ls", "ssh host ls", "docker run x", "npx x", "awk x", "sed x"),
        *("eval ls", "exec ls", "command ls", "source x", ". x", "export A", "cd x", "time ls"),
        *("./gradlew test", "/usr/bin/git status", "../x", "vim x", "tar xf x", "fd x", "man ls"),
        # git before its subcommand
        *("git", "git -c core.pager=x log", "git --git-dir=x log", "git -C x status"),
        # and what loses something
        *("rm x", "mv a b", "cp a b", "dd if=a", "chmod x y", "curl x", "kill 1", "tee x"),
    ],
)
def test_anything_else_gives_the_exact_command_only(command: str) -> None:
    assert patterns(command) == [command]


@pytest.mark.parametrize("command", ["rm *", "ls ?.py", "git log -- *.py", "echo '*'"])
def test_a_command_that_a_rule_cannot_quote_gives_none(command: str) -> None:
    assert patterns(command) == []


def test_shell_is_an_absolute_path() -> None:
    found = find_shell({}, project="/")
    assert os.path.isabs(found.path)
    assert found.options == ("-c",)


def plant(folder: Path) -> Path:
    folder.mkdir()
    program = folder / "bash"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_no_shell_is_taken_from_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "_FIXED", ())
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    plant(project / "bin")
    monkeypatch.chdir(project / "bin")
    path = f"{project}/bin:.::"
    assert find_shell({"PATH": path}, project=str(project)).path == "/bin/sh"
    wanted = plant(elsewhere)
    path = f"{path}:{elsewhere}"
    assert find_shell({"PATH": path}, project=str(project)).path == str(wanted)


def test_no_shell_at_all_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ToolError, match="No shell"):
        find_shell({}, project="/x")
