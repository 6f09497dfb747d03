"""Children on POSIX systems, started through a supervisor process.

Nothing here waits in a thread: the supervisor's socket and the children's
pipes are watched by the event loop, and all state changes in its callbacks.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import ProcessError
from agent_sdk.core.process_io import InputPipe, OutputPipe
from agent_sdk.core.process_lines import Lines
from agent_sdk.core.process_link import Link, default_supervisor
from agent_sdk.core.process_types import (
    DRAIN,
    QUIET,
    TERM_GRACE,
    ExitStatus,
    OutputSink,
    SpawnSpec,
    WorkingFolderError,
    check_spec,
)
from agent_sdk.core.supervisor import KILL_PATIENCE, sweep

if TYPE_CHECKING and sys.platform == "win32":
    raise ImportError  # Windows has process_windows; this can be imported, but is not used


logger = logging.getLogger("zpi.processes")

_NULL_FLAGS = os.O_RDWR | os.O_CLOEXEC

_START_TIMEOUT = 30.0
"""Seconds that entering a folder and loading a program may take, on a slow mount say."""

_SWEEP_GRACE = 0.6
"""Seconds between asking and forcing when the supervisor is dead: enough for
another owner below ours, whose own supervisor then ends what only it knows."""

_ANSWER_TIMEOUT = 1.0
"""Seconds beyond its own limits after which a silent supervisor is given up."""


class PosixChild:
    """A child and all that it has started; made by ``ProcessOwner.spawn``.

    Attributes:
        task: The owner's number of the child.
        output_held: Set when the child has exited while something that it
            started still held its output open; the rest is read and dropped.
    """

    def __init__(self, owner: "PosixProcessOwner", *, link: Link, task: int) -> None:
        self.task = task
        self.output_held = False
        self._owner = owner
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._pid = 0
        self._started: asyncio.Future[ProcessError | None] = self._loop.create_future()
        self._status: ExitStatus | None = None
        self._exited_at = 0.0
        self._ended: asyncio.Future[ExitStatus | ProcessError] = self._loop.create_future()
        self._pipes: list[OutputPipe] = []
        self._input: InputPipe | None = None
        self._lines: Lines | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """Process id, also of its session and process group."""
        return self._pid

    @property
    def link(self) -> Link:
        """The supervisor that started it."""
        return self._link

    @property
    def running(self) -> bool:
        """Whether the child itself has not exited, as far as is known."""
        return self._status is None and not self._ended.done()

    async def wait(self) -> ExitStatus:
        """Wait until the child has exited and its output has been delivered.

        What the child has started may go on, and may hold the output open:
        it is then read for at most half a second more.

        Raises:
            ProcessError: If the child was lost together with its supervisor.
        """
        result = await asyncio.shield(self._ended)
        if isinstance(result, ProcessError):
            raise result
        return result

    def lines(self) -> AsyncIterator[bytes]:
        r"""Yield the output line by line, without ``\n``; for one reader.

        The child has to wait when it writes faster than its lines are read.

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
        if self._input is None:
            raise ProcessError("The child was started without an input to write to.")
        await self._input.write(data)

    def close_stdin(self) -> None:
        """End the child's input; doing it again changes nothing."""
        if self._input:
            self._input.close()

    async def kill_tree(self, *, grace: float = TERM_GRACE) -> None:
        """End the child and everything it has started, and wait for that.

        The request is made at once: being cancelled while waiting does not
        withdraw it.

        Args:
            grace: Seconds between asking (SIGTERM) and forcing (SIGKILL).

        Raises:
            ProcessError: If processes remain that cannot be killed.
        """
        await self._owner.kill(self, grace=grace)

    # ---- what the owner calls

    def open_pipes(
        self, spec: SpawnSpec, on_output: OutputSink | None, on_stderr: OutputSink | None
    ) -> tuple[int, int, int]:
        """Make the pipes; return the child's ends, which are the caller's to close."""
        if spec.stdin == "pipe":
            stdin, ours = os.pipe()
            self._input = InputPipe(ours)
        else:
            stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        if on_output is None:
            self._lines = Lines()
            on_output = self._lines.feed
        stdout = self._open_output(on_output)
        if self._lines:
            self._lines.pause, self._lines.resume = self._pipes[0].pause, self._pipes[0].resume
        if spec.merge_stderr:
            stderr = os.dup(stdout)
        elif on_stderr:
            stderr = self._open_output(on_stderr)
        else:
            stderr = os.open(os.devnull, _NULL_FLAGS)
        return stdin, stdout, stderr

    def _open_output(self, sink: OutputSink) -> int:
        ours, theirs = os.pipe()
        self._pipes.append(OutputPipe(ours, sink=sink, on_end=self._on_pipe_end))
        return theirs

    async def wait_started(self) -> None:
        """Wait until the child runs.

        Raises:
            ProcessError: If it could not be started.
        """
        error = await asyncio.shield(self._started)
        if error is not None:
            raise error

    async def wait_ended(self) -> None:
        """Wait as ``wait`` does, whatever the outcome."""
        await asyncio.shield(self._ended)

    def on_started(self, pid: int) -> None:
        """Note that the child runs."""
        self._pid = pid
        if not self._started.done():
            self._started.set_result(None)

    def on_exit(self, status: ExitStatus) -> None:
        """Note how the child ended; its output may not be complete yet."""
        self._status = status
        self._exited_at = self._loop.time()
        self.close_stdin()
        self._settle()

    def on_lost(self, error: ProcessError) -> None:
        """Note that the child is gone, and nothing is known of how it ended."""
        if not self._started.done():
            self._started.set_result(error)
        if not self._ended.done():
            self._ended.set_result(self._status or error)
        self.close()

    def close(self) -> None:
        """Let go of the pipes."""
        if self._timer:
            self._timer.cancel()
        self.close_stdin()
        for pipe in self._pipes:
            pipe.close()
        if self._lines:
            self._lines.end()

    def _on_pipe_end(self) -> None:
        if self._lines and not self._pipes[0].open:
            self._lines.end()
        self._settle()
        self._release()

    def _release(self) -> None:
        if self._ended.done() and not any(pipe.open for pipe in self._pipes):
            self._owner.release(self)

    def _settle(self) -> None:
        """End the waiting when all output is in, or enough time has passed."""
        if self._status is None or self._ended.done():
            return
        left = [pipe for pipe in self._pipes if pipe.open]
        now = self._loop.time()
        last = max([self._exited_at, *(pipe.last_read for pipe in left)])
        pause = min(last + QUIET, self._exited_at + DRAIN) - now
        if left and pause > 0:
            if self._timer:
                self._timer.cancel()
            self._timer = self._loop.call_later(pause, self._settle)
            return
        if left and self._lines is None:
            # Closing our end would end a server at its next line of log.
            self.output_held = True
            for pipe in left:
                self._link.send(b"drain", fds=(pipe.detach(),))
        self._ended.set_result(self._status)
        self._release()


class PosixProcessOwner:
    """Owns all children of one session or program; for one event loop.

    Its supervisor process starts with the first child, or at ``warm_up``.
    """

    def __init__(self, *, supervisor: Sequence[str] | None = None) -> None:
        """Make an owner; nothing is started yet.

        Args:
            supervisor: Command that runs ``supervisor.main`` with the
                descriptor that is appended to it; found by itself if omitted.
        """
        self._command = tuple(supervisor or default_supervisor())
        self._link: Link | None = None
        self._count = 0
        self._children: dict[int, PosixChild] = {}
        self._kills: dict[int, list[asyncio.Future[int]]] = {}
        self._sweeps = TaskOwner(name="processes")
        self._closed = False

    @property
    def supervisor_pid(self) -> int | None:
        """Process id of the supervisor, while there is one."""
        return self._link.pid if self._link else None

    def warm_up(self) -> None:
        """Start the supervisor now, so that the first child need not wait for it.

        Raises:
            ProcessError: If it cannot be started, or the owner is closed.
        """
        self._connect()

    async def spawn(
        self,
        spec: SpawnSpec,
        *,
        on_output: OutputSink | None = None,
        on_stderr: OutputSink | None = None,
    ) -> PosixChild:
        """Start a child in a session of its own.

        Args:
            spec: What to start.
            on_output: Gets the output as it comes. Without it the output is
                kept for ``Child.lines``, and the child waits when it is full.
            on_stderr: Gets the errors, unless they are merged.

        Raises:
            WorkingFolderError: If the folder cannot be entered.
            ProcessError: If the program cannot be started.
        """
        check_spec(spec, isabs=os.path.isabs)
        link = self._connect()
        self._count += 1
        child = PosixChild(self, link=link, task=self._count)
        try:
            fds = child.open_pipes(spec, on_output, on_stderr)
        except OSError as error:
            child.close()
            raise ProcessError(f"Cannot start {spec.argv[0]!r}: {error.strerror}.") from error
        self._children[child.task] = child
        link.send(b"spawn", b"%d" % child.task, *_request(spec, link.mark(child.task)), fds=fds)
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                await child.wait_started()
        except TimeoutError:
            link.kill()
            raise ProcessError(f"Cannot start {spec.argv[0]!r}: the start hangs.") from None
        except ProcessError as error:
            raise _explained(error, spec) from error.__cause__
        except asyncio.CancelledError:
            self._ask_kill(child, TERM_GRACE)
            child.close()
            raise
        return child

    async def kill(self, child: PosixChild, *, grace: float) -> None:
        """See ``Child.kill_tree``."""
        link = child.link
        survivors = 0
        if link.open:
            answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._kills.setdefault(child.task, []).append(answer)
            self._ask_kill(child, grace)
            try:
                async with asyncio.timeout(grace + KILL_PATIENCE + _ANSWER_TIMEOUT):
                    survivors = await answer
            except TimeoutError:
                link.kill()
        if not link.open:
            await self._sweeps.drain()
        if survivors:
            raise ProcessError(
                f"{survivors} processes of child {child.pid} could not be ended.",
                hint="They may be waiting for a device or belong to another user.",
            )
        await child.wait_ended()

    async def aclose(self, *, grace: float = TERM_GRACE) -> None:
        """End all children with everything they started, then the supervisor.

        Args:
            grace: Seconds between asking (SIGTERM) and forcing (SIGKILL).
        """
        self._closed = True
        link = self._link
        if link:
            link.send(b"close", b"%d" % int(grace * 1000))
            try:
                async with asyncio.timeout(grace + KILL_PATIENCE + _ANSWER_TIMEOUT):
                    await asyncio.shield(link.ended)
            except TimeoutError:
                link.kill()
        await self._sweeps.drain()
        for child in tuple(self._children.values()):
            child.on_lost(ProcessError("The owner of the child process was closed."))
        self._children.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def release(self, child: PosixChild) -> None:
        """Forget a child of which nothing more can come."""
        self._children.pop(child.task, None)

    def _connect(self) -> Link:
        if self._closed:
            raise ProcessError("The process owner is closed; it starts no more children.")
        if self._link is None:
            self._link = Link(self._command, on_frame=self._on_frame, on_lost=self._on_lost)
        return self._link

    def _ask_kill(self, child: PosixChild, grace: float) -> None:
        child.link.send(b"kill", b"%d" % child.task, b"%d" % int(grace * 1000))

    def _on_frame(self, link: Link, fields: list[bytes]) -> None:
        kind, value = fields[0], fields[1]
        if kind == b"killed":
            for answer in self._kills.pop(int(value), ()):
                if not answer.done():
                    answer.set_result(int(fields[2]))
        elif kind == b"closed":
            link.settled = int(value) == 0
            if not link.settled:
                logger.warning("%d child processes could not be ended", int(value))
        elif kind == b"crashed":
            logger.error("the process supervisor failed: %s", value.decode(errors="replace"))
        elif child := self._children.get(int(value)):
            self._on_child_frame(child, kind, fields)

    def _on_child_frame(self, child: PosixChild, kind: bytes, fields: list[bytes]) -> None:
        if kind == b"started":
            child.on_started(int(fields[2]))
        elif kind == b"exit":
            child.on_exit(ExitStatus.of(int(fields[2])))
        else:
            child.on_lost(_start_error(fields[2], int(fields[3])))
            self.release(child)

    def _on_lost(self, link: Link) -> None:
        self._link = None
        lost = [child for child in self._children.values() if child.link is link]
        if lost or self._kills or not link.settled:
            sweep(link.name, _first_pids(lost), signal.SIGTERM)
            self._sweeps.start(self._sweep(link, lost), name="sweep")

    async def _sweep(self, link: Link, lost: list[PosixChild]) -> None:
        """End what a dead supervisor has left; it was asked to end already."""
        loop = asyncio.get_running_loop()
        force_at = loop.time() + _SWEEP_GRACE
        pids = _first_pids(lost)
        while (left := sweep(link.name, pids, 0)) and loop.time() < force_at + KILL_PATIENCE:
            if loop.time() >= force_at:
                sweep(link.name, pids, signal.SIGKILL)
            await _pause()
        if left:
            logger.warning("%d processes of a dead supervisor could not be ended", left)
        for child in lost:
            child.on_lost(ProcessError("The process supervisor died, and the child with it."))
            self.release(child)
        for answer in [a for answers in self._kills.values() for a in answers if not a.done()]:
            answer.set_result(left)
        self._kills.clear()


async def _pause() -> None:
    await asyncio.sleep(0.01)  # other processes send no event


def _first_pids(children: Iterable[PosixChild]) -> set[int]:
    return {child.pid for child in children if child.running and child.pid}


def _request(spec: SpawnSpec, mark: int) -> list[bytes]:
    argv = [os.fsencode(word) for word in spec.argv]
    pairs = [os.fsencode(f"{name}={value}") for name, value in spec.env.items()]
    return [b"%d" % mark, os.fsencode(spec.cwd), b"%d" % len(argv), *argv, *pairs]


def _start_error(stage: bytes, code: int) -> ProcessError:
    text = os.strerror(code)
    return WorkingFolderError(text) if stage == b"folder" else ProcessError(text)


def _explained(error: ProcessError, spec: SpawnSpec) -> ProcessError:
    if isinstance(error, WorkingFolderError):
        return WorkingFolderError(
            f"Cannot enter the folder {spec.cwd!r}: {error.message}.",
            hint="Check that it still exists.",
        )
    return ProcessError(f"Cannot start {spec.argv[0]!r}: {error.message}")
