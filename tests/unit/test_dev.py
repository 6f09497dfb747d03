"""dev.py: what it understands, what it installs, and when it does nothing."""

import contextlib
import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dev


class System:
    """A machine on which every step of a set-up is recorded and none is taken.

    Attributes:
        steps: The commands, without the folder of their program.
        fails: Words; a command with one of them fails.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[list[str]] = []
        self.fails: set[str] = set()

    def run(self, command: list[str], **_options: object) -> int:
        self.steps.append([Path(command[0]).name, *command[1:]])
        if self.fails & set(command):
            return 1
        if "venv" in command:
            dev.venv_program(self.folder, "python").parent.mkdir(parents=True, exist_ok=True)
            dev.venv_program(self.folder, "python").touch()
            text = f"version = {platform.python_version()}\n"
            (self.folder / "pyvenv.cfg").write_text(text, encoding="utf-8")
        return 0


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    fake = System(tmp_path / "venv")
    monkeypatch.setattr(dev, "_run", fake.run)
    monkeypatch.setattr(dev, "SYSTEM_NEEDS", ())
    return fake


def set_up(system: System, *, fresh: bool = False, retry_model: bool = False) -> list[list[str]]:
    """Do the set-up; return the steps that it took."""
    system.steps.clear()
    dev.ensure_environment(system.folder, assume_yes=False, fresh=fresh, retry_model=retry_model)
    return list(system.steps)


# ----------------------------------------------------------- command line


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("setup", dev.Call("setup")),
        ("setup --fresh --yes", dev.Call("setup", yes=True, fresh=True)),
        ("--yes run -p hi", dev.Call("run", yes=True, rest=("-p", "hi"))),
        ("run --yes -p hi", dev.Call("run", yes=True, rest=("-p", "hi"))),
        ("run -p --yes", dev.Call("run", rest=("-p", "--yes"))),
        ("run -- --yes", dev.Call("run", rest=("--yes",))),
        ("run", dev.Call("run")),
        ("run --help", dev.Call("run", rest=("--help",))),
        ("test", dev.Call("test")),
        ("test -- -k one", dev.Call("test", rest=("-k", "one"))),
        ("bench --quick", dev.Call("bench", rest=("--quick",))),
        ("shots", dev.Call("shots")),
        ("shots my/pictures", dev.Call("shots", rest=("my/pictures",))),
    ],
)
def test_command_line(line: str, call: dev.Call) -> None:
    assert dev.parse(line.split()) == call


@pytest.mark.parametrize(
    "line", ["", "walk", "--loud run", "test -k one", "setup now", "setup -- now", "shots a b"]
)
def test_bad_command_line(line: str) -> None:
    with pytest.raises(dev.Failed, match=r"\w"):
        dev.parse(line.split())


def test_run_without_a_display_names_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    assert dev.run(Path("unused"), []) == 2
    assert dev.ASK in capsys.readouterr().err


@pytest.mark.parametrize(("words", "program"), [([], "zpi-desktop"), (["-p", "hi"], "zpi")])
def test_run_opens_the_window_or_runs_the_command_line(
    words: list[str], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":9")
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, command: started.append(command))
    with contextlib.suppress(OSError):  # nothing replaces this process, so it goes on
        dev.run(Path("/venv"), words)
    assert started == [[str(dev.venv_program(Path("/venv"), program)), *words]]


@pytest.mark.parametrize(
    ("words", "target"),
    [([], dev.ROOT / "build" / "shots"), (["pictures"], Path.cwd() / "pictures")],
)
def test_pictures_go_where_the_caller_says(
    words: list[str], target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        started.append(command)
        assert options["cwd"] == dev.ROOT
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(subprocess, "run", run)
    assert dev.shots(Path("/venv"), words) == 3
    python = str(dev.venv_program(Path("/venv"), "python"))
    assert started == [[python, "-m", "tests.gui.shots", str(target)]]


def test_help_needs_no_set_up(capsys: pytest.CaptureFixture[str], system: System) -> None:
    assert dev.main(["--help"]) == 0
    assert "dev.py run" in capsys.readouterr().out
    assert system.steps == []


# -------------------------------------------------------- system packages


def need(name: str, present: Callable[[], bool], *, required: bool = True) -> dev.Need:
    return dev.Need(
        name, f"{name}-package", present, "" if required else "the embedded model may not run"
    )


def appears_after(system: System, word: str) -> bool:
    return any(word in step for step in system.steps)


@pytest.fixture
def debian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "has_apt", lambda: True)


def as_user(monkeypatch: pytest.MonkeyPatch, uid: int, *, sudo: bool = True) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid, raising=False)
    monkeypatch.setattr(dev, "has_program", lambda name: name != "sudo" or sudo)


@pytest.mark.usefixtures("debian")
def test_root_installs_what_is_missing(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, 0)
    there = need("git", lambda: True)
    missing = need("bash", functools.partial(appears_after, system, "bash-package"))
    dev.ensure_system([there, missing], assume_yes=False)
    assert system.steps == [
        ["apt-get", "update"],
        ["apt-get", "install", "-y", "--no-install-recommends", "bash-package"],
    ]


@pytest.mark.usefixtures("debian")
@pytest.mark.parametrize(
    ("answer", "assume_yes", "installed"),
    [("y\n", False, True), ("n\n", False, False), ("\n", False, False), ("", True, True)],
)
def test_user_is_asked(
    answer: str,
    assume_yes: bool,
    installed: bool,
    system: System,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    as_user(monkeypatch, 1000)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: answer, raising=False)
    missing = need("bash", functools.partial(appears_after, system, "bash-package"))
    if installed:
        dev.ensure_system([missing], assume_yes=assume_yes)
        assert [step[0] for step in system.steps] == ["sudo", "sudo"]
    else:
        with pytest.raises(dev.Failed, match="sudo apt-get update && sudo apt-get install -y"):
            dev.ensure_system([missing], assume_yes=assume_yes)
        assert system.steps == []
    shown = "sudo apt-get install" in capsys.readouterr().err
    assert shown is not assume_yes


@pytest.mark.usefixtures("debian")
def test_without_terminal_nothing_is_installed(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 1000)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(dev.Failed, match="Run this line"):
        dev.ensure_system([need("git", lambda: False)], assume_yes=False)
    assert system.steps == []


@pytest.mark.usefixtures("debian")
def test_without_sudo_the_line_is_for_root(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, 1000, sudo=False)
    with pytest.raises(dev.Failed, match=r"as root.*\n\n  apt-get update"):
        dev.ensure_system([need("git", lambda: False)], assume_yes=True)
    assert system.steps == []


@pytest.mark.usefixtures("debian")
def test_failing_apt_is_said(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, 0)
    system.fails = {"update"}
    with pytest.raises(dev.Failed, match="'apt-get update' failed"):
        dev.ensure_system([need("git", lambda: False)], assume_yes=False)


def test_elsewhere_required_things_are_named(
    system: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "has_apt", lambda: False)
    optional = need("libgomp", lambda: False, required=False)
    dev.ensure_system([optional], assume_yes=False)
    assert "Going on without libgomp" in capsys.readouterr().err
    with pytest.raises(dev.Failed, match=r"git, libgomp"):
        dev.ensure_system([need("git", lambda: False), optional], assume_yes=False)
    assert system.steps == []


# ------------------------------------------------------ virtual environment


def test_first_set_up_then_nothing(system: System) -> None:
    steps = [" ".join(step) for step in set_up(system)]
    assert [step for step in steps if "-m venv" in step] == steps[:1]
    weights = [step for step in steps if "local-weights.txt" in step]
    assert len(weights) == 1
    assert "--no-deps" in weights[0]
    assert any("--editable" in step for step in steps)
    assert set_up(system) == []


def test_change_of_a_pin_renews_in_place(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(system)
    monkeypatch.setattr(dev, "digest", lambda: "another")
    steps = set_up(system)
    assert steps
    assert not any("venv" in step for step in steps)


def test_other_python_or_moved_folder_starts_from_nothing(system: System) -> None:
    set_up(system)
    stamp = system.folder / dev.STAMP
    good = json.loads(stamp.read_text(encoding="utf-8"))
    stamp.write_text(json.dumps(good | {"folder": "/elsewhere"}), encoding="utf-8")
    assert any("venv" in step for step in set_up(system))

    stamp.write_text(json.dumps(good | {"python": "CPython 3.9.1"}), encoding="utf-8")
    (system.folder / "pyvenv.cfg").write_text("version = 3.9.1\n", encoding="utf-8")
    assert any("venv" in step for step in set_up(system))


def test_fresh_starts_from_nothing(system: System) -> None:
    set_up(system)
    assert any("venv" in step for step in set_up(system, fresh=True))


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_broken_stamp_is_no_stamp(system: System, text: str) -> None:
    set_up(system)
    (system.folder / dev.STAMP).write_text(text, encoding="utf-8")
    assert set_up(system) != []
    assert set_up(system) == []


def test_failed_set_up_is_done_again(system: System) -> None:
    system.fails = {"--editable"}
    with pytest.raises(dev.Failed, match="ZPI itself"):
        set_up(system)
    system.fails = set()
    assert set_up(system) != []


def test_without_the_model_everything_else_works(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    system.fails = {"import xllamacpp"}
    set_up(system)
    assert "Going on without the embedded model" in capsys.readouterr().err
    assert set_up(system) == []
    assert "does not load" in capsys.readouterr().err  # said each time, in one line
    system.fails = set()
    assert set_up(system, retry_model=True) != []
    assert set_up(system) == []
    assert capsys.readouterr().err.count("does not load") == 0


def test_foreign_folder_is_left_alone(system: System) -> None:
    system.folder.mkdir()
    (system.folder / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(dev.Failed, match="not a virtual environment"):
        set_up(system)
    assert system.steps == []


def test_digest_sees_every_requirement_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (*dev.REQUIRED, dev.LOCAL_MODEL, dev.LOCAL_WEIGHTS)
    for name in (*names, "pyproject.toml"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    monkeypatch.setattr(dev, "REQUIREMENTS", tmp_path)
    seen = {dev.digest()}
    for name in (*names, "pyproject.toml"):
        (tmp_path / name).write_text(name + "!", encoding="utf-8")
        seen.add(dev.digest())
    assert len(seen) == len(names) + 2  # nothing changed, each file changed


def test_folder_can_be_chosen() -> None:
    assert dev.venv_folder({}) == dev.ROOT / ".venv"
    assert dev.venv_folder({"ZPI_DEV_VENV": "other"}) == dev.ROOT / "other"


# ------------------------------------------------------------------- checks


def test_checks_come_cheap_ones_first() -> None:
    names = [check.name for check in dev.checks((), cpus=2)]
    assert names[0] == "format"
    assert names[-1] == "tests"
    assert {"lint", "import contracts", "types", "types on win32", "types on darwin"} < set(names)


@pytest.mark.parametrize(
    ("arguments", "cpus", "parallel"),
    [((), 2, "2"), ((), 64, "4"), ((), 1, None), (("-n0",), 2, None), (("--pdb",), 2, None)],
)
def test_tests_share_the_cores(arguments: tuple[str, ...], cpus: int, parallel: str | None) -> None:
    command = dev.checks(arguments, cpus=cpus)[-1].command
    assert command[-len(arguments) :] == arguments or not arguments
    assert (command[command.index("-n") + 1] if "-n" in command else None) == parallel
