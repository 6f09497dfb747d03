"""``python -m desktop.host``: the host, as a process that speaks frames on its standard streams.

Exit codes: 0 the window closed it, or has gone; 3 another host has the data
folder; 4 the window speaks another version; 5 the data cannot be used.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NoReturn

import agent_sdk
from agent_sdk.host import (
    ModelRegistry,
    ProcessOwner,
    RandomIds,
    Redactor,
    StderrSink,
    SystemClock,
    TaskOwner,
    ZpiError,
    agent_dir,
    attach_logging,
    harden_process,
    load_registry,
    secret_variables,
)
from desktop.bridge.frames import AnswerFrame, Hello, StateFrame, encode
from desktop.bridge.messages import ErrorInfo, HostState
from desktop.bridge.protocol import Failed
from desktop.host.channel import Channel, Outbox, StdioChannel
from desktop.host.composition import (
    PartSnapshots,
    Services,
    Surroundings,
    Window,
    build_host,
    local_models,
)
from desktop.host.errors import HostOccupied, error_info
from desktop.host.owner import acquire
from desktop.host.server import NO_COMMAND, Server, VersionMismatch
from desktop.paths import DataPaths, data_dir

OCCUPIED = 3
OTHER_VERSION = 4
UNUSABLE = 5

_HARD_END = 4.5
"""Seconds after which a host that was told to end does so, whatever hangs."""

logger = logging.getLogger("zpi.host.main")


def look_around() -> tuple[Surroundings, Redactor]:
    """Return what the host works with; takes the keys out of its environment.

    Raises:
        ValueError: If there is no data folder.
        ZpiError: If a file that says where things are cannot be used.
    """
    paths = DataPaths(data_dir(os.environ))
    user_dir = agent_dir(os.environ)
    registry, problems = known_models(user_dir)
    secrets = harden_process(secret_variables(registry))
    redactor = Redactor(secrets.values())
    sink = StderrSink(stream=sys.stderr, redactor=redactor)
    attach_logging(sink=sink, redactor=redactor, logger=logging.getLogger())
    ids = RandomIds()
    around = Surroundings(
        paths=paths,
        environ=dict(os.environ),
        secrets=secrets,
        user_dir=Path(user_dir),
        registry=registry,
        problems=problems,
        epoch=ids.new(),
        ids=ids,
        clock=SystemClock(),
    )
    return around, redactor


def known_models(user_dir: Path) -> tuple[ModelRegistry, tuple[ErrorInfo, ...]]:
    """Return the table of models; without the user's file if that cannot be used."""
    try:
        return load_registry(user_dir), ()
    except ZpiError as error:
        return load_registry(None), (error_info(error),)


class Program:
    """One life of the host.

    Args:
        around: What it works with.
        redactor: Takes secrets out of what is said.
        channel: The window's end.
        hard_end: Called when it begins to end, with the exit code.
    """

    def __init__(
        self,
        *,
        around: Surroundings,
        redactor: Redactor,
        channel: Channel,
        hard_end: Callable[[int], None],
    ) -> None:
        self._hard_end = hard_end
        self._around = around
        self._redactor = redactor
        self._snapshots = PartSnapshots()
        outbox = Outbox(snapshots=self._snapshots, ids=around.ids, clock=around.clock)
        hello = Hello(version=agent_sdk.__version__, epoch=around.epoch)
        self._server = Server(channel=channel, outbox=outbox, hello=hello)
        self._notices: list[ErrorInfo] = []

    async def run(self) -> int:
        """Serve the window until it goes; return the exit code."""
        async with TaskOwner(name="host") as tasks:
            serving = tasks.start(self._server.serve(), name="serve")
            async with AsyncExitStack() as stack:
                # Ends first: commands and what is queued; then runs, sessions, database, lock.
                building = tasks.start(self._build(stack), name="build")
                await asyncio.wait((building, serving), return_when=asyncio.FIRST_COMPLETED)
                code = await self._serve(building, serving)
                building.cancel()
                await asyncio.wait((building,))
                self._hard_end(code)
            await self._server.aclose()
        return code

    async def _serve(self, building: "asyncio.Task[None]", serving: "asyncio.Task[None]") -> int:
        try:
            if building.done():
                building.result()
            await serving
        except HostOccupied as error:
            return self._complain(error, OCCUPIED)
        except ZpiError as error:
            return self._complain(error, UNUSABLE)
        except VersionMismatch:
            return OTHER_VERSION
        return 0

    def _complain(self, error: ZpiError, code: int) -> int:
        logger.error("%s", error)
        self._server.send(AnswerFrame(id=NO_COMMAND, answer=Failed(error=error_info(error))))
        self._server.close()
        return code

    async def _build(self, stack: AsyncExitStack) -> None:
        around = self._around
        ownership = await acquire(around.paths, clock=around.clock, waiting=self._tell_waiting)
        stack.callback(ownership.release)
        from desktop.host.storage import (  # noqa: PLC0415 - loads sqlalchemy
            open_database,
            provider_service,
        )

        database = await open_database(around.paths.database, ids=around.ids, clock=around.clock)
        stack.push_async_callback(database.aclose)
        processes = ProcessOwner()
        stack.push_async_callback(processes.aclose)
        local = local_models(around, processes)
        models = provider_service(
            around, database=database, local=local, on_secret=self._redactor.add
        )
        stack.push_async_callback(models.aclose)
        window = Window(
            send=self._server.send,
            shut_down=self._server.close,
            snapshots=self._snapshots,
            notices=tuple(self._notices),
        )
        services = Services(database=database, models=models, local=local, processes=processes)
        host = await build_host(around, services, window, stack=stack)
        self._server.use(host)

    def _tell_waiting(self) -> None:
        text = "Another ZPI is still using the data folder; waiting for it to end."
        notice = ErrorInfo(code="host_waiting", text=text)
        logger.warning("%s", text)
        state = HostState(notices=(notice,), data_dir=str(self._around.paths.data))
        self._server.send(StateFrame(version=0, state=state))


def end_hard(code: int) -> None:
    """End the process in a few seconds, whatever then still hangs.

    Children do not outlive that: their supervisor ends with the process.
    """
    timer = threading.Timer(_HARD_END, os._exit, args=(code or UNUSABLE,))
    timer.daemon = True
    timer.start()


async def serve_stdio(around: Surroundings, redactor: Redactor) -> int:
    """Serve the window at the other end of the standard streams; return the exit code."""
    # What prints by mistake must not get between the frames.
    private = os.dup(1)
    os.dup2(2, 1)
    channel = StdioChannel(reading=0, writing=private)
    program = Program(around=around, redactor=redactor, channel=channel, hard_end=end_hard)
    return await program.run()


def main() -> int:
    """Run the host; return the exit code."""
    # Long sessions are many objects that live long: looking for cycles in them is in vain.
    gc.set_threshold(100_000, 20, 100)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the window's affair
    try:
        around, redactor = look_around()
    except (ValueError, ZpiError) as error:
        complain_at_once(error if isinstance(error, ZpiError) else ZpiError(str(error)))
        return UNUSABLE
    return asyncio.run(serve_stdio(around, redactor))


def complain_at_once(error: ZpiError) -> None:
    """Tell the window, and whoever reads the log, that the host cannot even begin."""
    sys.stderr.write(f"Error: {error}\n")
    answer = AnswerFrame(id=NO_COMMAND, answer=Failed(error=error_info(error)))
    sys.stdout.buffer.write(encode(Hello(version=agent_sdk.__version__)) + encode(answer))
    sys.stdout.buffer.flush()


def run() -> NoReturn:
    """Entry point of the program ``zpi-host``."""
    code = main()
    sys.stderr.flush()
    # A thread that reads a pipe for ever must not keep the interpreter from ending.
    os._exit(code)


if __name__ == "__main__":
    run()
