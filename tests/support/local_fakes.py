"""A stand-in for the embedded model's child process, and for the server in it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from agent_sdk.core.errors import ProcessError
from agent_sdk.core.process import ExitStatus, OutputSink, SpawnSpec


def turn(text: str) -> list[bytes]:
    """The events with which the server answers with a constrained turn."""
    body = msgspec.json.encode({"name": "answer", "arguments": {"text": text}}).decode()
    return [
        event({"id": "r", "choices": [{"delta": {"content": body}}]}),
        event({"id": "r", "choices": [{"delta": {}, "finish_reason": "stop"}]}),
        b"data: [DONE]\n\n",
    ]


def event(value: object) -> bytes:
    """One event of the stream."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


class FakeServer:
    """Answers each request with the next of its scripts; a None in it cuts the connection."""

    def __init__(self, *scripts: Sequence[bytes | None]) -> None:
        self.scripts = list(scripts)
        self.requests: list[bytes] = []
        self.gone = asyncio.Event()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server:
            self._server.close()
            await self._server.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        self.requests.append(head + await reader.readexactly(length))
        script = self.scripts.pop(0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for part in script:
            if part is None:
                writer.transport.abort()
                return
            writer.write(part)
        if script and script[-1] == b"data: [DONE]\n\n":
            writer.close()
        await reader.read()  # until the other side closes
        self.gone.set()
        writer.close()


class FakeChild:
    """A child that says its lines and notes what it is told."""

    def __init__(self, *lines: bytes, status: ExitStatus | None = None) -> None:
        self.said = lines
        self.status = status or ExitStatus(0)
        self.told: list[bytes] = []
        self.running = True
        self.killed = False
        self.pid = 4711

    async def lines(self) -> AsyncIterator[bytes]:
        for line in self.said:
            yield line

    async def write(self, data: bytes) -> None:
        if not self.running:
            raise ProcessError("The child process no longer reads its input.")
        self.told.append(data)

    async def wait(self) -> ExitStatus:
        return self.status

    async def kill_tree(self, *, grace: float = 1.0) -> None:
        self.running = False
        self.killed = True


class FakeProcesses:
    """Starts the children that it was given, one after the other."""

    def __init__(self, *children: FakeChild | Callable[[], FakeChild]) -> None:
        self.waiting = list(children)
        self.children: list[FakeChild] = []
        self.specs: list[SpawnSpec] = []
        self.errors = b""

    async def spawn(
        self,
        spec: SpawnSpec,
        *,
        on_output: OutputSink | None = None,
        on_stderr: OutputSink | None = None,
    ) -> FakeChild:
        if not self.waiting:
            raise ProcessError("Cannot start it: no such program.")
        made = self.waiting.pop(0)
        child = made if isinstance(made, FakeChild) else made()
        if on_stderr and self.errors:
            on_stderr(self.errors)
        self.specs.append(spec)
        self.children.append(child)
        return child
