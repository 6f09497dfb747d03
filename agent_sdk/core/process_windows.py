"""Children on Windows: asyncio's own subprocesses, each in a group of its own.

A tree is ended from its root with ``taskkill /T``. Windows keeps no link from
a process to descendants whose parent has ended, so what outlives its parent is
out of reach; POSIX systems are stricter.
"""

import asyncio
import ntpath
import os
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import ProcessError
from agent_sdk.core.process_lines import Lines
from agent_sdk.core.process_types import (
    DRAIN,
    QUIET,
    READ_SIZE,
    TERM_GRACE,
    ExitStatus,
    OutputSink,
    SpawnSpec,
    WorkingFolderError,
    check_spec,
)

_CREATE_NEW_PROCESS_GROUP = 0x00000200
_CREATE_NO_WINDOW = 0x08000000


class WindowsChild:
    """A child and what it has started; see ``process_posix.PosixChild``."""

    def __init__(
        self, process: asyncio.subprocess.Process, *, owner: "WindowsProcessOwner", task: int
    ) -> None:
        self.task = task
        self.output_held = False
        self._process = process
        self._owner = owner
        self._lines: Lines | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._last_read = 0.0
        self._flowing = asyncio.Event()
        self._flowing.set()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the child itself has not exited, as far as is known."""
        return self._process.returncode is None

    async def wait(self) -> ExitStatus:
        """Wait until the child has exited and its output has been delivered.

        What the child has started may go on, and may hold the output open:
        it is then read for at most half a second more.
        """
        code = await self._process.wait()
        loop = asyncio.get_running_loop()
        exited = loop.time()
        while any(not reader.done() for reader in self._readers):
            last = max(exited, self._last_read)
            pause = min(last + QUIET, exited + DRAIN) - loop.time()
            if pause <= 0:
                self.output_held = self._lines is None
                break
            await asyncio.wait(self._readers, timeout=pause)
        return ExitStatus(code=code)

    def lines(self) -> AsyncIterator[bytes]:
        r"""Yield the output line by line, without ``\n``; for one reader.

        Raises:
            ProcessError: If the child was spawned with ``on_output``, or a
                line is longer than 8 MiB.
        """
        if self._lines is None:
            raise ProcessError("The child's output goes to a callback; it has no lines.")
        return self._lines.read()

    async def write(self, data: bytes) -> None:
        """Write to the child's input; waits while it does not read.

        Raises:
            ProcessError: If it has no input, closed it, or has ended.
        """
        stdin = self._process.stdin
        if stdin is None:
            raise ProcessError("The child was started without an input to write to.")
        try:
            stdin.write(data)
            await stdin.drain()
        except (OSError, RuntimeError) as error:
            raise ProcessError("The child process no longer reads its input.") from error

    def close_stdin(self) -> None:
        """End the child's input; doing it again changes nothing."""
        if self._process.stdin:
            self._process.stdin.close()

    async def kill_tree(self, *, grace: float = TERM_GRACE) -> None:
        """End the child and everything below it, and wait for that.

        Args:
            grace: Has no meaning here: there is no signal to ask with.

        Raises:
            ProcessError: If the child cannot be ended.
        """
        await self._owner.kill(self)

    # ---- what the owner calls

    def read_into(
        self, owner: TaskOwner, on_output: OutputSink | None, on_stderr: OutputSink | None
    ) -> None:
        """Start reading the output."""
        if on_output is None:
            self._lines = Lines()
            self._lines.pause, self._lines.resume = self._flowing.clear, self._flowing.set
            on_output = self._lines.feed
        streams = ((self._process.stdout, on_output), (self._process.stderr, on_stderr))
        for number, (stream, sink) in enumerate(streams, 1):
            if stream and sink:
                work = self._read(stream, sink)
                self._readers.append(owner.start(work, name=f"output {number} of {self.pid}"))

    async def _read(self, stream: asyncio.StreamReader, sink: OutputSink) -> None:
        loop = asyncio.get_running_loop()
        while data := await stream.read(READ_SIZE):
            self._last_read = loop.time()
            sink(data)
            await self._flowing.wait()
        if self._lines and stream is self._process.stdout:
            self._lines.end()


class WindowsProcessOwner:
    """Owns all children of one session or program; for one event loop."""

    def __init__(self) -> None:
        self._tasks = TaskOwner(name="processes")
        self._children: dict[int, WindowsChild] = {}
        self._count = 0
        self._closed = False

    def warm_up(self) -> None:
        """Prepare for the first child: nothing to do on this platform."""

    async def spawn(
        self,
        spec: SpawnSpec,
        *,
        on_output: OutputSink | None = None,
        on_stderr: OutputSink | None = None,
    ) -> WindowsChild:
        """Start a child in a process group of its own.

        Args:
            spec: What to start.
            on_output: Gets the output as it comes. Without it the output is
                kept for ``Child.lines``, and the child waits when it is full.
            on_stderr: Gets the errors, unless they are merged.

        Raises:
            WorkingFolderError: If the folder cannot be entered.
            ProcessError: If the program cannot be started.
        """
        if self._closed:
            raise ProcessError("The process owner is closed; it starts no more children.")
        check_spec(spec, isabs=ntpath.isabs)
        _check_folder(spec.cwd)
        self._count += 1
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        separate = pipe if on_stderr else null
        try:
            process = await asyncio.create_subprocess_exec(
                *spec.argv,
                cwd=spec.cwd,
                env={**spec.env, "ZPI_TASK_ID": f"{os.getpid()}-{self._count}"},
                stdin=pipe if spec.stdin == "pipe" else null,
                stdout=pipe,
                stderr=asyncio.subprocess.STDOUT if spec.merge_stderr else separate,
                creationflags=_CREATE_NEW_PROCESS_GROUP | _CREATE_NO_WINDOW,
            )
        except OSError as error:
            raise ProcessError(f"Cannot start {spec.argv[0]!r}: {error.strerror}.") from error
        child = WindowsChild(process, owner=self, task=self._count)
        self._children[child.task] = child
        child.read_into(self._tasks, on_output, on_stderr)
        return child

    async def kill(self, child: WindowsChild) -> None:
        """See ``Child.kill_tree``."""
        root = os.environ.get("SYSTEMROOT", r"C:\Windows")
        killer = await asyncio.create_subprocess_exec(
            ntpath.join(root, "System32", "taskkill.exe"),
            *("/F", "/T", "/PID", str(child.pid)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            creationflags=_CREATE_NO_WINDOW,
        )
        await killer.wait()
        try:
            async with asyncio.timeout(2):
                await child.wait()
        except TimeoutError as error:
            raise ProcessError(f"Process {child.pid} could not be ended.") from error
        self._children.pop(child.task, None)

    async def aclose(self, *, grace: float = TERM_GRACE) -> None:
        """End all children with everything below them.

        Args:
            grace: Has no meaning here: there is no signal to ask with.
        """
        self._closed = True
        for child in tuple(self._children.values()):
            await self.kill(child)
        await self._tasks.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def _check_folder(cwd: str) -> None:
    if not os.path.isdir(cwd):
        raise WorkingFolderError(
            f"Cannot enter the folder {cwd!r}: it is not there.",
            hint="Check that it still exists.",
        )
