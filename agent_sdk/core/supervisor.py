"""The process between ZPI and its children; it outlives neither.

It is started once, as a process of its own, by ``core.process_posix``, and
then starts every child: a spawn costs no interpreter start and never forks the
large process. As the children's reaper it inherits their orphans, so a daemon
that has double-forked is still below it. When the owner closes the socket, or
dies in any way, the supervisor ends everything and then itself.

A process belongs to a task if it carries the task's mark, is in the session of
the task's first process, or descends from one that does. The mark is a number,
set as the soft limit of RLIMIT_LOCKS (which the kernel has ignored since
2.4.25) and as ``ZPI_TASK_ID`` in the environment: the first is inherited even
through ``env -i`` and ``setsid``, the second is there for other systems.

Frames on the socket: four bytes of length, then fields joined by NUL.

    spawn id mark cwd argc argv… NAME=VALUE…   with descriptors 0, 1 and 2
    kill id grace_ms                           ends the tree of a task
    drain                                      with one descriptor, to be emptied
    close grace_ms                             ends everything, then itself

    started id pid · failed id stage errno · exit id status
    killed id survivors · closed survivors · crashed text

This file runs as a script of its own and must start fast: it imports nothing
of ZPI, and the C halves of ``socket`` and ``signal`` (10 ms less).
"""

import _socket
import errno
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Iterator
else:
    import _signal
if TYPE_CHECKING and sys.platform == "win32":
    raise ImportError  # it can be imported there, but is not used

MARK_VARIABLE = "ZPI_TASK_ID"
MARK_BITS = 20
"""Low bits of a mark that count the tasks; the rest names the supervisor."""

SHUTDOWN_GRACE_MS = 300
"""Between TERM and KILL when the owner has gone."""

KILL_PATIENCE = 1.0
"""Seconds of KILL after which a process is taken as stuck in the kernel."""

_RLIMIT_LOCKS = 10
_LINUX = sys.platform == "linux"
_MAX_FDS = 3
_FORGET_AT = 64
_CHUNK = 64 * 1024


def frame(*fields: bytes) -> bytes:
    """Return one frame of the fields."""
    body = b"\0".join(fields)
    return len(body).to_bytes(4, "big") + body


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[list[bytes]]:
        """Return the fields of the frames that have become whole."""
        self._buffer += data
        whole = []
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                break
            whole.append(bytes(self._buffer[4:end]).split(b"\0"))
            del self._buffer[:end]
        return whole


class Proc:
    """One line of the process table."""

    __slots__ = ("pgid", "pid", "ppid", "sid", "start", "state")

    def __init__(self, pid: int, *, ppid: int, pgid: int, sid: int, start: int, state: bytes):
        self.pid = pid
        self.ppid = ppid
        self.pgid = pgid
        self.sid = sid
        self.start = start
        self.state = state

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from a later process of the same number."""
        return self.pid, self.start

    @property
    def dead(self) -> bool:
        """Whether it has ended and only waits to be reaped."""
        return self.state in (b"Z", b"X")


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = b""
        while chunk := os.read(fd, _CHUNK):
            data += chunk
        return data
    except OSError:  # it ended while we read
        return b""
    finally:
        os.close(fd)


def _proc(pid: int) -> Proc | None:
    stat = _read(f"/proc/{pid}/stat")
    # The name is in brackets and may hold brackets and spaces itself.
    fields = stat[stat.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    ppid, pgid, sid = map(int, fields[1:4])
    return Proc(pid, ppid=ppid, pgid=pgid, sid=sid, start=int(fields[19]), state=fields[0])


def scan() -> "Iterator[Proc]":
    """Yield the process table, newest first; nothing where there is no ``/proc``."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for pid in sorted((int(name) for name in names if name.isdigit()), reverse=True):
        if proc := _proc(pid):
            yield proc


def mark_of(pid: int) -> int:
    """Return the mark that a process carries; 0 for none."""
    for line in _read(f"/proc/{pid}/limits").splitlines():
        if line.startswith(b"Max file locks"):
            soft = line[len(b"Max file locks") :].split()[0]
            if soft.isdigit() and int(soft) >> MARK_BITS:
                return int(soft)
    prefix = MARK_VARIABLE.encode() + b"="
    for pair in _read(f"/proc/{pid}/environ").split(b"\0"):
        if pair.startswith(prefix):
            try:
                return int(pair[len(prefix) :], 16)
            except ValueError:
                return 0
    return 0


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def descendants(root: int, *, thorough: bool) -> list[Proc]:
    """Return what lives below a process, parents before their children.

    Args:
        root: The process; it is not part of the result.
        thorough: Read the whole table. Otherwise the kernel's lists of
            children are followed, which is faster but may miss a process
            while others end.
    """
    below: dict[int, list[Proc]] = {}
    if thorough:
        for proc in scan():
            below.setdefault(proc.ppid, []).append(proc)
    found: list[Proc] = []
    queue = [root]
    for pid in queue:
        if not thorough:
            below[pid] = [known for child in _children(pid) if (known := _proc(child))]
        for proc in below.get(pid, ()):
            queue.append(proc.pid)
            if not proc.dead:
                found.append(proc)
    return found


def signal_process(pid: int, number: int) -> None:
    """Send a signal, if the process is still there and ours to signal."""
    try:
        os.kill(pid, number)
    except OSError:
        return


def signal_group(pgid: int, number: int) -> bool:
    """Send a signal to a process group; return whether there was one."""
    try:
        os.killpg(pgid, number)
    except OSError:
        return False
    return True


def sweep(name: int, pids: set[int], number: int) -> int:
    """Signal what a dead supervisor has left behind; return how many there were.

    Args:
        name: The part of the marks that names the supervisor.
        pids: First processes of its tasks that had not ended.
        number: The signal; 0 only counts.
    """
    for pid in pids:
        signal_group(pid, number)
    table = []
    lost: set[int] = set()
    for proc in scan():
        if proc.dead or proc.pid == os.getpid():
            continue
        table.append(proc)
        # At once, the newest first: a chain of processes that each start the
        # next one would be gone by the end of the table.
        if proc.sid in pids or mark_of(proc.pid) >> MARK_BITS == name:
            signal_process(proc.pid, number)
            lost.add(proc.pid)
    more = lost
    while more := {proc.pid for proc in table if proc.ppid in more} - lost:
        lost |= more
        for pid in more:
            signal_process(pid, number)
    return len(lost)


class Kill:
    """A tree that is being ended; ``task`` is empty for everything."""

    __slots__ = ("asked", "force_at", "give_up_at", "task")

    def __init__(self, task: bytes, grace: float) -> None:
        now = time.monotonic()
        self.task = task
        self.force_at = now + grace
        self.give_up_at = self.force_at + KILL_PATIENCE
        self.asked: set[tuple[int, int]] = set()


class Supervisor:
    """Starts, reaps and ends processes on behalf of the other end of a socket."""

    def __init__(self, fd: int) -> None:
        self._socket = _socket.socket(fileno=fd)
        self._socket.setblocking(False)
        self._frames = Frames()
        self._fds: list[int] = []
        self._outgoing = bytearray()
        self._blocked = False
        self._tasks: dict[bytes, tuple[int, int]] = {}  # mark and first process
        self._running: dict[int, bytes] = {}
        self._forget_at = _FORGET_AT
        self._kills: list[Kill] = []
        self._remembered: dict[tuple[int, int], bytes] = {}
        self._drains: set[int] = set()
        self._closing = False
        self._orphaned = False
        self._alarm, wake = os.pipe()
        os.set_blocking(self._alarm, False)
        os.set_blocking(wake, False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.signal(_signal.SIGTERM, lambda *_: self._close(SHUTDOWN_GRACE_MS))
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)
        _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._alarm, select.POLLIN)
        self._poll.register(fd, select.POLLIN)
        self._defaults = _signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP}

    def run(self) -> None:
        """Serve until everything has been ended, come what may."""
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be left alone
            self._send(b"crashed", f"{type(error).__name__}: {error}".encode())
            until = time.monotonic() + KILL_PATIENCE
            while (left := self._members(b"", thorough=True)) and time.monotonic() < until:
                self._destroy(b"", left)

    def _run(self) -> None:
        pause = None
        while not (self._closing and not self._kills):
            for fd, event in self._poll.poll(pause):
                if fd == self._alarm:
                    os.read(fd, _CHUNK)  # signals that have come; what they mean is looked up
                elif fd in self._drains:
                    self._drain(fd)
                else:
                    self._serve(event)
            self._reap()
            pause = self._step_kills()
        self._flush()

    def _serve(self, event: int) -> None:
        if event & select.POLLOUT:
            self._flush()
        if not event & ~select.POLLOUT:
            return
        try:
            data, extra, _, _ = self._socket.recvmsg(
                _CHUNK, _socket.CMSG_SPACE(4 * _MAX_FDS), getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
            )
        except BlockingIOError:
            return
        except OSError:
            data, extra = b"", []
        for _, _, raw in extra:
            for at in range(0, len(raw) - len(raw) % 4, 4):
                fd = int.from_bytes(raw[at : at + 4], sys.byteorder)
                os.set_inheritable(fd, False)
                self._fds.append(fd)
        if not data:
            self._lose_owner()
            return
        for fields in self._frames.feed(data):
            self._handle(fields)

    def _handle(self, fields: list[bytes]) -> None:
        if (kind := fields[0]) == b"spawn":
            self._spawn(fields)
        elif kind == b"kill":
            self._kills.append(Kill(fields[1], int(fields[2]) / 1000))
        elif kind == b"drain":
            fd = self._fds.pop(0)
            os.set_blocking(fd, False)
            self._drains.add(fd)
            self._poll.register(fd, select.POLLIN)
        elif kind == b"close":
            self._close(int(fields[1]))
        else:
            raise ValueError(f"no such request: {kind!r}")

    def _close(self, grace_ms: int) -> None:
        if not self._closing:
            self._closing = True
            self._kills.append(Kill(b"", grace_ms / 1000))

    def _lose_owner(self) -> None:
        if not self._orphaned:
            self._orphaned = True
            self._poll.unregister(self._socket.fileno())
            self._close(SHUTDOWN_GRACE_MS)

    def _send(self, *fields: bytes) -> None:
        self._outgoing += frame(*fields)
        self._flush()

    def _flush(self) -> None:
        if self._orphaned:
            self._outgoing.clear()
            return
        try:
            if self._outgoing:
                del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError:
            self._lose_owner()
            return
        if self._blocked != bool(self._outgoing):
            self._blocked = bool(self._outgoing)
            wanted = select.POLLIN | (select.POLLOUT if self._blocked else 0)
            self._poll.register(self._socket.fileno(), wanted)

    def _drain(self, fd: int) -> None:
        try:
            if os.read(fd, _CHUNK):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._poll.unregister(fd)
        self._drains.discard(fd)
        os.close(fd)

    def _spawn(self, fields: list[bytes]) -> None:
        _, task, mark, cwd, count, *rest = fields
        argv, pairs = rest[: int(count)], rest[int(count) :]
        fds, self._fds = self._fds[:3], self._fds[3:]
        stage = b"folder"
        try:
            if self._closing:
                raise OSError(errno.ECANCELED, "closing")
            os.chdir(cwd)
            stage = b"program"
            pid = self._start(argv, pairs, mark=int(mark), fds=fds)
        except OSError as error:
            self._send(b"failed", task, stage, b"%d" % (error.errno or 0))
        else:
            self._tasks[task] = (int(mark), pid)
            self._running[pid] = task
            self._send(b"started", task, b"%d" % pid)
        finally:
            for fd in fds:
                os.close(fd)
            os.chdir("/")

    def _start(self, argv: list[bytes], pairs: list[bytes], *, mark: int, fds: list[int]) -> int:
        env = dict(pair.split(b"=", 1) for pair in pairs)
        env[MARK_VARIABLE.encode()] = b"%x" % mark
        actions = [(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate(fds)]
        before = _limit_locks(mark)
        try:  # a session of its own: no terminal to read from, a group to signal
            return os.posix_spawn(
                *(argv[0], argv, env),
                file_actions=actions,
                setsid=True,
                setsigmask=[],
                setsigdef=self._defaults,
            )
        finally:
            _limit_locks(before)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # nothing is left of any task
                self._tasks.clear()
                return
            if pid == 0:
                break
            if pid in self._running:
                name = self._running.pop(pid)
                self._send(b"exit", name, b"%d" % os.waitstatus_to_exitcode(status))
        if len(self._tasks) > self._forget_at:
            self._forget()

    def _forget(self) -> None:
        """Drop the tasks of which nothing lives any more."""
        if _LINUX:
            below = descendants(os.getpid(), thorough=True)
            self._attribute(below)
            living: set[bytes | None] = {self._remembered.get(proc.key) for proc in below}
            if not self._kills:
                self._remembered.clear()
        else:
            living = {name for name, (_, pid) in self._tasks.items() if signal_group(pid, 0)}
        living.update(self._running.values())
        self._tasks = {name: task for name, task in self._tasks.items() if name in living}
        self._forget_at = 2 * len(self._tasks) + _FORGET_AT

    def _step_kills(self) -> float | None:
        """Go one step with each tree; return milliseconds until the next."""
        if not self._kills:
            return None
        now = time.monotonic()
        for kill in tuple(self._kills):
            alive = self._members(kill.task) or self._members(kill.task, thorough=True)
            if alive and now >= kill.force_at:
                # One that loses its parent can slip through a quick look.
                alive = self._destroy(kill.task, alive) or self._members(kill.task, thorough=True)
            elif alive:
                self._ask(kill, alive)
            if not alive or now >= kill.give_up_at:
                self._kills.remove(kill)
                self._report(kill, len(alive))
        if not self._kills:
            self._remembered.clear()
            return None
        forced = any(now >= kill.force_at for kill in self._kills)
        return 5 if forced else 20

    def _ask(self, kill: Kill, alive: list[Proc]) -> None:
        for proc in alive:
            if proc.key not in kill.asked:
                kill.asked.add(proc.key)
                signal_process(proc.pid, _signal.SIGTERM)
                signal_process(proc.pid, _signal.SIGCONT)  # a stopped one could not hear it

    def _destroy(self, task: bytes, alive: list[Proc]) -> list[Proc]:
        # Without a pause in between: a chain of processes that each start the
        # next one is caught only by being faster. A group is killed at once.
        for _ in range(50):
            for group in {proc.pgid for proc in alive} - {os.getpgrp()}:
                signal_group(group, _signal.SIGKILL)
            for proc in alive:
                signal_process(proc.pid, _signal.SIGKILL)
            alive = self._members(task)
            if not alive:
                break
        return alive

    def _report(self, kill: Kill, survivors: int) -> None:
        self._reap()  # the exit comes before the end of the tree
        if not kill.task:
            self._send(b"closed", b"%d" % survivors)
            return
        if kill.task not in self._running.values():
            self._tasks.pop(kill.task, None)
        self._send(b"killed", kill.task, b"%d" % survivors)

    def _members(self, task: bytes, *, thorough: bool = False) -> list[Proc]:
        if not _LINUX:
            return self._groups(task)
        below = descendants(os.getpid(), thorough=thorough)
        if not task:
            return below
        self._attribute(below)
        return [proc for proc in below if self._remembered.get(proc.key) == task]

    def _attribute(self, below: list[Proc]) -> None:
        """Remember for each process which task it belongs to."""
        marks = {mark: name for name, (mark, _) in self._tasks.items()}
        sessions = {pid: name for name, (_, pid) in self._tasks.items()}
        only = next(iter(self._tasks)) if len(self._tasks) == 1 else None
        owners: dict[int, bytes | None] = {os.getpid(): only}
        for proc in below:
            name = (
                self._remembered.get(proc.key)
                or marks.get(mark_of(proc.pid))
                or sessions.get(proc.sid)
                or owners.get(proc.ppid)
            )
            owners[proc.pid] = name
            if name is not None:
                self._remembered[proc.key] = name

    def _groups(self, task: bytes) -> list[Proc]:
        """Without a process table: the groups of the tasks that still exist."""
        pids = [pid for name, (_, pid) in self._tasks.items() if not task or name == task]
        return [
            Proc(pid, ppid=0, pgid=pid, sid=pid, start=0, state=b"R")
            for pid in pids
            if signal_group(pid, 0)
        ]


def _limit_locks(mark: int) -> int:
    """Set the soft limit; return the one before, which may be another owner's mark."""
    before = 0
    if sys.platform == "linux":
        import resource  # noqa: PLC0415 - not on every system

        before, hard = resource.getrlimit(_RLIMIT_LOCKS)
        if hard == resource.RLIM_INFINITY:  # otherwise the variable has to do
            resource.setrlimit(_RLIMIT_LOCKS, (mark, hard))
    return before


def _become_reaper() -> None:
    """Inherit orphans, and keep children from reading or tracing this process."""
    if not _LINUX:
        return
    import ctypes  # noqa: PLC0415 - 4 ms, and of no use elsewhere

    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def _close_strays(keep: int) -> None:
    try:
        fds = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        fds = list(range(1024))
    for fd in fds:
        if fd > 2 and fd != keep:
            try:
                os.close(fd)
            except OSError:  # the one that listed the folder
                continue


def main(fd: int) -> None:
    """Run the supervisor on an inherited socket; does not return.

    Args:
        fd: One end of a connected pair of stream sockets.
    """
    _close_strays(fd)
    os.set_inheritable(fd, False)
    os.chdir("/")
    _become_reaper()
    Supervisor(fd).run()
    os._exit(0)
