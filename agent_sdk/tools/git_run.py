"""Running git on a repository that nobody vouches for.

A repository can tell git to run programs: hooks, a file-system monitor, filters
and converters for files, a pager, an editor, signing, helpers for passwords and
transport. None of that may happen because somebody looked at a folder or made
a commit in it, so all of it is switched off in every call, on the level of the
command, which wins over what the repository says. The user's own settings are
read, and those that only say how files are stored are handed on; what would
start a program is not, whoever set it.

What cannot be switched off in git before 2.32 is why that is the least.
"""

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.environment import search_path
from agent_sdk.core.errors import ProcessError, ToolError
from agent_sdk.core.process import Child, ExitStatus, ProcessOwner, SpawnSpec, WorkingFolderError
from agent_sdk.tools.git_parse import Setting, filter_names, parse_config
from agent_sdk.tools.path_text import visible

READ_SECONDS = 30.0
WRITE_SECONDS = 120.0
OUTPUT_LIMIT = 8 * 1024 * 1024
"""Most bytes of git's output that are taken; then it is stopped."""

LEAST_VERSION = (2, 32)

_ERROR_LIMIT = 8 * 1024
_FIXED = ("/usr/bin/git", "/usr/local/bin/git", "/opt/homebrew/bin/git", "/bin/git")

_PASSED = (
    *("HOME", "XDG_CONFIG_HOME", "PATH", "TMPDIR", "TZ", "USER", "LOGNAME"),
    *("USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "PROGRAMDATA", "SYSTEMROOT"),
    *("TEMP", "TMP", "COMSPEC", "PATHEXT"),
)

_FORCED: Mapping[str, str] = {
    "LANG": "C",
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_LITERAL_PATHSPECS": "1",
    # A partial clone would fetch what it lacks, by a command that its own
    # settings name: no fetching, and no protocol to do it by.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_ONLY_OURS: Mapping[str, str] = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}

PINS: tuple[tuple[str, str], ...] = (
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("core.sshCommand", "false"),
    ("core.editor", "false"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("diff.submodule", "short"),
    ("diff.ignoreSubmodules", "dirty"),
    ("diff.noprefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("core.quotePath", "false"),
    ("i18n.commitEncoding", "UTF-8"),
    ("i18n.logOutputEncoding", "UTF-8"),
)
"""Settings of every call; the first ones are those that would start programs."""

_CARRIED = (
    *("core.autocrlf", "core.eol", "core.safecrlf", "core.excludesfile"),
    *("core.attributesfile", "core.longpaths", "core.symlinks"),
)
"""Settings of the user that say how files are stored, and start nothing."""


class GitOutput(Struct, frozen=True):
    """What a call of git came to.

    Attributes:
        code: Its exit code.
        out: What it wrote, at most ``OUTPUT_LIMIT`` bytes.
        error: What it complained of.
        cut: Whether it was stopped because it wrote more.
    """

    code: int
    out: bytes
    error: str
    cut: bool = False


class Git:
    """Runs git, with nothing of what a repository could make it run."""

    def __init__(self, *, processes: ProcessOwner, environment: Mapping[str, str]) -> None:
        """Make it.

        Args:
            processes: Starts the program; closed by whoever made it.
            environment: Without secrets, see ``child_environment``.
        """
        self._processes = processes
        self._environment = environment
        self._checked: set[str] = set()

    async def settings(self, root: str) -> tuple[Setting, ...]:
        """Return the configuration that holds in a repository, the user's own first.

        Raises:
            ToolError: If there is no git, or it is too old.
        """
        argv = ("config", "--list", "-z", "--show-scope", "--includes")
        done = await self._run(root, argv, environment=self._base(root), config=())
        return parse_config(done.out) if done.code == 0 else ()

    async def run(
        self,
        root: str,
        argv: Sequence[str],
        *,
        settings: Sequence[Setting],
        extra: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        seconds: float = READ_SECONDS,
    ) -> GitOutput:
        """Run a command in the root of a repository.

        Args:
            root: Its real path.
            argv: The command with its arguments.
            settings: What ``settings`` returned.
            extra: Further variables.
            stdin: What the command reads.
            seconds: Time after which it is stopped.

        Raises:
            ToolError: If it cannot be run, or takes too long.
        """
        environment = {**self._base(root), **_ONLY_OURS, **(extra or {})}
        return await self._run(
            root,
            argv,
            environment=environment,
            config=_carried(settings),
            stdin=stdin,
            seconds=seconds,
        )

    def _base(self, root: str) -> dict[str, str]:
        passed = {name: self._environment[name] for name in _PASSED if name in self._environment}
        passed["PATH"] = os.pathsep.join(search_path(self._environment, outside=[root]))
        return {**passed, **_FORCED, "GIT_CEILING_DIRECTORIES": os.path.split(root)[0]}

    async def _run(
        self,
        root: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        config: Sequence[tuple[str, str]],
        stdin: bytes | None = None,
        seconds: float = READ_SECONDS,
    ) -> GitOutput:
        program = find_git(self._environment, outside=root)
        if program not in self._checked:
            version = await self._start((program, "--version"), root, environment, seconds=seconds)
            _check_version(version.out.decode(errors="replace"))
            self._checked.add(program)
        # By both ways: arguments reach every version, and variables any name.
        pins = [part for key, value in PINS for part in ("-c", f"{key}={value}")]
        full = {**environment, **_as_variables((*PINS, *config))}
        command = (program, "--no-pager", *pins, *argv)
        return await self._start(command, root, full, stdin=stdin, seconds=seconds)

    async def _start(
        self,
        command: tuple[str, ...],
        root: str,
        environment: Mapping[str, str],
        *,
        stdin: bytes | None = None,
        seconds: float,
    ) -> GitOutput:
        spec = SpawnSpec(
            argv=command,
            cwd=root,
            env=environment,
            stdin="null" if stdin is None else "pipe",
            merge_stderr=False,
        )
        output, error = _Taken(OUTPUT_LIMIT), _Taken(_ERROR_LIMIT)
        try:
            child = await self._processes.spawn(spec, on_output=output.feed, on_stderr=error.feed)
            status = await _finish(child, stdin, output.full, seconds=seconds)
        except WorkingFolderError as failure:
            raise ToolError(f"The folder '{visible(root)}' cannot be entered.") from failure
        except ProcessError as failure:
            raise ToolError(f"git was lost: {failure.message}", hint=failure.hint) from failure
        if status is None:
            raise ToolError(
                f"git did not answer within {seconds:g} seconds and was stopped.",
                hint="Ask for less, a single path for instance.",
            )
        said = error.data.decode("utf-8", "replace").strip()
        return GitOutput(_code(status), bytes(output.data), said, cut=output.full.is_set())


class _Taken:
    """Takes output up to a limit, and tells when there was more."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self.full = asyncio.Event()
        self._limit = limit

    def feed(self, data: bytes) -> None:
        room = self._limit - len(self.data)
        self.data += data[:room]
        if len(data) > room:
            self.full.set()


async def _finish(
    child: Child, stdin: bytes | None, full: asyncio.Event, *, seconds: float
) -> ExitStatus | None:
    """Wait for the child's end, or end it; None if its time ran out."""
    try:
        async with asyncio.timeout(seconds):
            if stdin is not None:
                await _hand_over(child, stdin)
            return await _until(child, full)
    except TimeoutError:
        await child.kill_tree()
        return None
    except asyncio.CancelledError:
        await child.kill_tree()
        raise


async def _hand_over(child: Child, data: bytes) -> None:
    try:
        await child.write(data)
    except ProcessError:  # it ended without reading it; its exit code says why
        return
    finally:
        child.close_stdin()


async def _until(child: Child, full: asyncio.Event) -> ExitStatus:
    """Wait for the child, and end it when it writes more than is taken."""
    async with TaskOwner(name="git") as tasks:
        ended = tasks.start(child.wait(), name="wait")
        watch = tasks.start(full.wait(), name="limit")
        await asyncio.wait((ended, watch), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            await child.kill_tree()
        return await ended


def find_git(environment: Mapping[str, str], *, outside: str) -> str:
    """Return the absolute path of git.

    Args:
        environment: With the ``PATH`` to look in.
        outside: Folder in which no program is looked up.

    Raises:
        ToolError: If there is none.
    """
    name = "git.exe" if sys.platform == "win32" else "git"
    places = [Path(folder, name) for folder in search_path(environment, outside=[outside])]
    if sys.platform == "win32":
        roots = (environment.get(key, "") for key in ("PROGRAMFILES", "PROGRAMW6432"))
        places += [Path(root, "Git", "cmd", name) for root in roots if root]
    else:
        places += map(Path, _FIXED)
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return str(place)
    raise ToolError("git is not installed, or not in PATH.", hint="Install git.")


def _check_version(text: str) -> None:
    found = re.search(r"(\d+)\.(\d+)", text)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < LEAST_VERSION:
        raise ToolError(
            f"This git ({visible(text.strip()) or 'of unknown version'}) is too old to be used"
            " safely on a repository of somebody else's.",
            hint="Install git 2.32 or newer, or use git in bash.",
        )


def _carried(settings: Sequence[Setting]) -> tuple[tuple[str, str], ...]:
    """Return what is handed on of the user's settings, and the filters switched off."""
    inner = {s.key for s in settings if s.scope == "repository"}
    outer = [s for s in settings if s.scope == "outer"]
    kept = [
        (s.key, s.value)
        for s in outer
        if s.key == "safe.directory" or (s.key in _CARRIED and s.key not in inner)
    ]
    off = [
        (f"filter.{name}.{what}", value)
        for name in filter_names(settings)
        for what, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    ]
    return (*kept, *off)


def _as_variables(config: Sequence[tuple[str, str]]) -> dict[str, str]:
    variables = {"GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def _code(status: ExitStatus) -> int:
    return -1 if status.code is None else status.code
