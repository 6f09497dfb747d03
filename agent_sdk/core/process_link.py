"""The owner's end of the socket to a supervisor process."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sdk.core import supervisor
from agent_sdk.core.errors import ProcessError

if TYPE_CHECKING and sys.platform == "win32":
    raise ImportError  # Windows has process_windows; this can be imported, but is not used

logger = logging.getLogger("zpi.processes")

SUPERVISOR_MODE = "--zpi-supervisor"
"""First argument by which a frozen program is asked to be the supervisor: it
then calls ``supervisor.main(int(sys.argv[2]))`` before it imports anything."""

_BOOT = "import sys; sys.path.append(sys.argv[1]); import supervisor; supervisor.main(3)"
_FD = 3


def default_supervisor() -> tuple[str, ...]:
    """Return the command that starts the supervisor; a descriptor is appended."""
    if getattr(sys, "frozen", False):
        return (sys.executable, SUPERVISOR_MODE)
    # Not as a script: those are compiled at each start, modules are cached.
    folder = str(Path(supervisor.__file__).parent)
    return (sys.executable, "-I", "-S", "-c", _BOOT, folder)


class Link:
    """One supervisor process and the socket to it.

    Attributes:
        pid: Its process id.
        name: What its tasks' marks have in common.
        ended: Done when the process has ended and been reaped.
        settled: Whether it said before that nothing is left of its tasks.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        on_frame: Callable[["Link", list[bytes]], None],
        on_lost: Callable[["Link"], None],
    ) -> None:
        """Start a supervisor.

        Args:
            command: What to run; the number of the descriptor is appended.
            on_frame: Called with the fields of each frame that it sends.
            on_lost: Called once when it has ended, for whatever reason.

        Raises:
            ProcessError: If it cannot be started.
        """
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._frames = supervisor.Frames()
        self._queue: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._loop = asyncio.get_running_loop()
        self._open = True
        self.settled = False
        self.name = int.from_bytes(os.urandom(5), "big") | 1
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.pid = _start((*command, str(_FD)), theirs)
        except OSError as error:
            self._socket.close()
            raise ProcessError(
                f"Cannot start the process supervisor {command[0]!r}: {error.strerror}."
            ) from error
        finally:
            theirs.close()
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._readable)

    @property
    def open(self) -> bool:
        """Whether the supervisor can still be asked for anything."""
        return self._open

    def mark(self, task: int) -> int:
        """Return the mark of a task: unique on the machine."""
        return self.name << supervisor.MARK_BITS | task % (1 << supervisor.MARK_BITS)

    def send(self, *fields: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send one frame, now or when there is room; never blocks.

        Args:
            fields: What to say; they hold no NUL.
            fds: Descriptors to pass on. They are closed here in any case.
        """
        self._queue.append((supervisor.frame(*fields), fds))
        if self._open:
            self._flush()
        else:
            self._drop_queue()

    def _flush(self) -> None:
        while self._queue:
            data, fds = self._queue[0]
            rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
            extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if fds else []
            try:
                sent = self._socket.sendmsg([data], extra)
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._flush)
                return
            except OSError:
                self._lose()
                return
            for fd in fds:
                os.close(fd)
            if sent < len(data):
                self._queue[0] = (data[sent:], ())
            else:
                self._queue.popleft()
        self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(64 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        for fields in self._frames.feed(data):
            self._on_frame(self, fields)

    def kill(self) -> None:
        """End the supervisor by force; its children must be swept up then."""
        if self._open:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._lose()

    def _lose(self) -> None:
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._drop_queue()
        with suppress(ChildProcessError):  # reaped by someone who waits for any child
            os.waitpid(self.pid, 0)  # it has ended, or is about to: no time passes
        if not self.ended.done():
            self.ended.set_result(None)
        self._on_lost(self)

    def _drop_queue(self) -> None:
        while self._queue:
            for fd in self._queue.popleft()[1]:
                os.close(fd)


def _start(command: tuple[str, ...], theirs: socket.socket) -> int:
    return os.posix_spawn(
        command[0],
        command,
        {},  # nothing of ours: children get their environment with each spawn
        file_actions=[
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), _FD),
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )
