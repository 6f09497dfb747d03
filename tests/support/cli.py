"""Runs the real program ``zpi`` as a user does: a process, a home, a folder, words.

Nothing of the machine's own settings reaches it, and it is never left running.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_sdk.testing.mock_server import MockServer
from agent_sdk.testing.mock_wire import WireApi
from tests.support.repository import ROOT

TIMEOUT = 40.0
"""Seconds after which a program that has not ended fails the test."""

# What a child needs of the machine to start at all, and for measuring coverage.
_FROM_MACHINE = ("PATH", "SYSTEMROOT", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


def program() -> list[str]:
    """Return how the program is started: its script, or else its module."""
    script = Path(sys.executable).with_name("zpi.exe" if os.name == "nt" else "zpi")
    return [str(script)] if script.exists() else module_program()


def module_program() -> list[str]:
    """Return how the program is started without its script."""
    return [sys.executable, "-P", "-m", "agent_sdk.cli"]


@dataclass(frozen=True)
class Finished:
    """How a run of the program went.

    Attributes:
        code: Exit code; negative if a signal ended it.
        out: What it wrote to standard output.
        err: What it wrote to standard error.
        seconds: How long it took.
    """

    code: int
    out: bytes
    err: bytes
    seconds: float

    @property
    def text(self) -> str:
        """Standard output."""
        return self.out.decode()

    @property
    def complaint(self) -> str:
        """Standard error."""
        return self.err.decode()

    @property
    def error_line(self) -> str:
        """The one line of error that standard error must hold."""
        lines = [line for line in self.complaint.splitlines() if line.startswith("Error: ")]
        assert len(lines) == 1, self.complaint
        return lines[0]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Standard output as one JSON object a line; each must be one."""
        assert self.out.endswith(b"\n")
        found = [json.loads(line) for line in self.out.splitlines()]
        assert all(isinstance(message, dict) for message in found)
        return found

    @property
    def result(self) -> dict[str, Any]:
        """The message that closes a run in ``json`` and ``stream-json``."""
        last = self.messages[-1]
        assert last["type"] == "result"
        return last


class Running:
    """The program while it runs; see ``Cli.start``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._begun = time.monotonic()

    def send(self, number: int) -> None:
        """Send the program, and nothing that it started, a signal."""
        self.process.send_signal(number)

    async def finish(self, stdin: bytes | None = None, *, timeout: float = TIMEOUT) -> Finished:
        """Wait for its end; a program that takes too long, or breaks down, fails the test."""
        async with asyncio.timeout(timeout):
            out, err = await self.process.communicate(stdin)
        assert self.process.returncode is not None
        done = Finished(
            self.process.returncode, out or b"", err or b"", time.monotonic() - self._begun
        )
        assert "Traceback" not in done.complaint, done.complaint
        assert "Exception ignored" not in done.complaint, done.complaint
        return done


class Cli:
    """A user with a home of their own.

    Args:
        root: Folder for everything; the home is made in it.
        project: Folder to work in; one with a space and Chinese characters
            in its name is made if none is given.
    """

    def __init__(self, root: Path, *, project: Path | None = None) -> None:
        self.home = root / "home"
        self.home.mkdir()
        self.project = project or root / "我的 project"
        self.project.mkdir(exist_ok=True)
        self.variables: dict[str, str] = {}

    @property
    def agent_dir(self) -> Path:
        """Where sessions and settings are."""
        return self.home / ".zpi" / "agent"

    @property
    def sessions(self) -> list[Path]:
        """The session files."""
        return sorted((self.agent_dir / "sessions").glob("*/*.jsonl"))

    @property
    def session(self) -> Path:
        """The only session file."""
        (only,) = self.sessions
        return only

    def use(
        self, server: MockServer, api: WireApi = "openai-completions", *, key: str = ""
    ) -> None:
        """Let the environment name the server."""
        self.variables |= {
            "ZPI_API_TYPE": api,
            "ZPI_BASE_URL": f"{server.url}/v1",
            "ZPI_MODEL": "mock",
            "ZPI_API_KEY": key or "sk-test-0001",
        }

    def write_settings(self, name: str, data: bytes | str) -> Path:
        """Write a file of the user's ZPI folder."""
        self.agent_dir.mkdir(parents=True, exist_ok=True)
        path = self.agent_dir / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def environment(self, more: Mapping[str, str] = {}) -> dict[str, str]:
        """Return the environment that the program is started with."""
        return {
            **{name: os.environ[name] for name in _FROM_MACHINE if name in os.environ},
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            **self.variables,
            **more,
        }

    @asynccontextmanager
    async def start(self, *words: str, **options: Any) -> AsyncIterator[Running]:
        """Start the program; it is killed if it still runs at the end of the block.

        Args:
            words: The command line.
            options: ``env`` adds variables, ``before`` goes before the
                program's name, ``argv`` replaces it; the rest is for
                ``asyncio.create_subprocess_exec``.
        """
        env = self.environment(options.pop("env", {}))
        command = [*options.pop("before", ()), *(options.pop("argv", None) or program()), *words]
        streams: dict[str, Any] = {
            "stdin": asyncio.subprocess.DEVNULL,
            "stdout": asyncio.subprocess.PIPE,
            "stderr": asyncio.subprocess.PIPE,
            "cwd": self.project,
            "start_new_session": True,
        }
        process = await asyncio.create_subprocess_exec(*command, env=env, **(streams | options))
        try:
            yield Running(process)
        finally:
            await end(process)

    async def run(
        self, *words: str, stdin: bytes | None = None, timeout: float = TIMEOUT, **options: Any
    ) -> Finished:
        """Run the program to its end; arguments as for ``start``."""
        if stdin is not None:
            options["stdin"] = asyncio.subprocess.PIPE
        async with self.start(*words, **options) as running:
            return await running.finish(stdin, timeout=timeout)


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a process with its group, and wait for it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:  # pipes that nobody read to their end
        transport.close()
