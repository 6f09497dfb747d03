"""A mock of the three wire APIs on 127.0.0.1, played from one script.

In a test::

    async with MockServer(script) as server:
        ... server.url, server.requests ...

On its own: ``python -m agent_sdk.testing.mock_server --port 0 --script s.json``
prints the port it listens on, and with ``--log FILE`` writes each request as a
line of JSON. The server keeps no state between requests: which turn is due is
read from the request itself, so a request that is sent again gets the same
answer, and a script holds for all three APIs.
"""

import argparse
import asyncio
import contextlib
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.fsio import replace_file
from agent_sdk.core.ids import Clock, SystemClock
from agent_sdk.providers.messages import Json
from agent_sdk.testing.faults import FAULTS, Fault, disturbed, error_body, what_is_sent
from agent_sdk.testing.mock_http import (
    BadRequest,
    HttpRequest,
    answer_head,
    chunk,
    read_request,
    write_json,
)
from agent_sdk.testing.mock_render import render, render_whole
from agent_sdk.testing.mock_wire import (
    PATHS,
    Asked,
    MockCall,
    MockTurn,
    WireApi,
    filled,
    understand,
)

_FLOOD_PAUSE = 0.02


class MockRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Turns for conversations whose last user text contains a text.

    The first turn answers the user text itself, the next one the results of
    its calls, and so on; the last one is repeated.
    """

    when: str
    turns: tuple[MockTurn, ...]


class MockScript(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the mocked model says.

    Attributes:
        queue: Turns for the first requests, whatever they ask; used up.
        rules: Tried in order.
        turns: If no rule fits: one for each answer of the conversation.
        models: Ids that ``GET /v1/models`` lists.
        key: If set, requests without it are refused with 401.
    """

    queue: tuple[MockTurn, ...] = ()
    rules: tuple[MockRule, ...] = ()
    turns: tuple[MockTurn, ...] = ()
    models: tuple[str, ...] = ("mock",)
    key: str = ""


class MockRequest(Struct, kw_only=True):
    """A request that the server got, and what became of it.

    Attributes:
        number: Counted from 1.
        connection: Number of the connection it came by, counted from 1.
        method: HTTP method.
        path: Path with query.
        headers: Headers, names in lower case.
        body: The body, parsed; an empty object if there was none.
        arrived: When it was complete, on a monotonic clock, in seconds.
        api: Wire API; empty for other paths.
        asked: What it asks, in one shape for all APIs.
        status: HTTP status of the answer; 0 if there was none.
        fault: Name of the fault that happened to it.
        first_sent: When the first event was sent, as ``arrived``.
        finished: When the answer was sent whole; None if it never was.
    """

    number: int
    connection: int
    method: str
    path: str
    headers: dict[str, str]
    body: Json
    arrived: float
    api: WireApi | None = None
    asked: Asked | None = None
    status: int = 0
    fault: str = ""
    first_sent: float | None = None
    finished: float | None = None


class MockServer:
    """The server; use it as an async context manager.

    Attributes:
        requests: Everything that was asked, in order of arrival.
        connections: How many connections were opened.
    """

    def __init__(
        self,
        script: MockScript | None = None,
        *,
        port: int = 0,
        clock: Clock | None = None,
        faults: Mapping[str, Fault] | None = None,
    ) -> None:
        """Create a server; it listens from the beginning of its ``async with``.

        Args:
            script: What the model says; nothing by default.
            port: Where to listen; 0 takes a free port.
            clock: For delays, pacing and the times in ``requests``.
            faults: Faults that turns may name; those of ``faults.FAULTS`` by default.
        """
        self.requests: list[MockRequest] = []
        self.connections = 0
        self._script = script or MockScript()
        self._queue = deque(self._script.queue)
        self._wanted_port = port
        self._clock = clock or SystemClock()
        self._faults = FAULTS if faults is None else faults
        self._owner = TaskOwner(name="mock-server")
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    @property
    def url(self) -> str:
        """Base URL, without version."""
        return f"http://127.0.0.1:{self._port}"

    def push(self, *turns: MockTurn) -> None:
        """Add turns that answer the next requests, before rules and turns."""
        self._queue.extend(turns)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._on_connection, "127.0.0.1", self._wanted_port
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening and drop all connections; may be called twice."""
        if self._server is not None:
            self._server.close()
        await self._owner.aclose()

    # ------------------------------------------------------------ connections

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        work = self._serve(reader, writer, self.connections)
        self._owner.start(work, name=f"connection-{self.connections}")

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> None:
        try:
            while (request := await read_request(reader)) is not None:
                if not await self._answer(request, writer, connection):
                    break
        except BadRequest as error:
            await write_json(writer, 400, {"error": {"message": str(error)}})
        except ConnectionError:
            pass  # the client has gone: that is its right
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(
        self, request: HttpRequest, writer: asyncio.StreamWriter, connection: int
    ) -> bool:
        """Answer one request; return whether the connection stays open."""
        noted = MockRequest(
            number=len(self.requests) + 1,
            connection=connection,
            method=request.method,
            path=request.path,
            headers=request.headers,
            body=request.body,
            arrived=self._clock.monotonic(),
        )
        self.requests.append(noted)
        path = request.path.partition("?")[0]
        api = PATHS.get(path)
        if api is not None and request.method == "POST":
            noted.api = api
            noted.asked = understand(api, request.body)
            return await self._play(noted, writer)
        if path == "/v1/models" and request.method == "GET":
            listed = [{"id": m, "object": "model"} for m in self._script.models]
            noted.status = 200
            await write_json(writer, 200, {"object": "list", "data": listed})
            return True
        noted.status = 404
        await write_json(writer, 404, {"error": {"message": f"There is no {path!r} here."}})
        return True

    # ---------------------------------------------------------------- answers

    def _turn_for(self, asked: Asked) -> MockTurn | None:
        if self._queue:
            return self._queue.popleft()
        for rule in self._script.rules:
            if rule.when in asked.last_user and rule.turns:
                return rule.turns[min(asked.turn_since_user, len(rule.turns) - 1)]
        if asked.turn < len(self._script.turns):
            return self._script.turns[asked.turn]
        return None

    async def _play(self, noted: MockRequest, writer: asyncio.StreamWriter) -> bool:
        api, asked = noted.api, noted.asked
        if api is None or asked is None:
            raise BadRequest("the request is for no wire API")
        if self._script.key and not _holds_key(noted.headers, self._script.key):
            return await self._refuse(noted, writer, FAULTS["unauthorized"])
        turn = self._turn_for(asked)
        if turn is None:
            said = f"Nothing is scripted for turn {asked.turn + 1} (last user text: {asked.last_user[:80]!r})."
            noted.status = 400
            await write_json(writer, 400, error_body(api, ("invalid_request_error", said)))
            return True
        if turn.fault and turn.fault not in self._faults:
            raise BadRequest(f"no fault is called {turn.fault!r}")
        turn = filled(turn, asked, noted.number)
        if turn.delay:
            await self._clock.sleep(turn.delay)
        if turn.fault:
            fault = self._faults[turn.fault]
            noted.fault = fault.name
            if fault.error is not None or fault.body is not None or fault.refuse:
                return await self._refuse(noted, writer, fault)
            return await self._stream_fault(noted, writer, (disturbed(turn, fault), fault))
        if not asked.stream:
            noted.status = 200
            whole = render_whole(api, turn, asked, number=noted.number)
            await write_json(writer, 200, whole)
            noted.finished = self._clock.monotonic()
            return True
        return await self._stream(noted, writer, turn)

    async def _stream(
        self, noted: MockRequest, writer: asyncio.StreamWriter, turn: MockTurn
    ) -> bool:
        if noted.api is None or noted.asked is None:
            return False
        noted.status = 200
        writer.write(answer_head(200, {"content-type": "text/event-stream"}, framed=True))
        noted.first_sent = due = self._clock.monotonic()
        held = bytearray()
        for event in render(noted.api, turn, noted.asked, number=noted.number):
            if turn.rate and event.kind == "delta":
                due += 1 / turn.rate
                wait = due - self._clock.monotonic()
                if wait > 0:
                    writer.write(chunk(bytes(held)))
                    held.clear()
                    await writer.drain()
                    await self._clock.sleep(wait)
            held += event.raw
        writer.write(chunk(bytes(held)) + b"0\r\n\r\n")
        await writer.drain()
        noted.finished = self._clock.monotonic()
        return True

    # ----------------------------------------------------------------- faults

    async def _refuse(self, noted: MockRequest, writer: asyncio.StreamWriter, fault: Fault) -> bool:
        if fault.refuse:
            _reset(writer)
            return False
        noted.status = fault.status
        headers = {"request-id": f"req_mock_{noted.number}", **fault.headers}
        if fault.error is not None and noted.api is not None:
            body = error_body(noted.api, fault.error)
            await write_json(writer, fault.status, body, headers=headers)
        else:
            body_bytes = fault.body or b""
            headers["content-length"] = str(len(body_bytes))
            writer.write(answer_head(fault.status, headers, framed=False) + body_bytes)
            await writer.drain()
        return True

    async def _stream_fault(
        self, noted: MockRequest, writer: asyncio.StreamWriter, what: tuple[MockTurn, Fault]
    ) -> bool:
        turn, fault = what
        if noted.api is None or noted.asked is None:
            return False
        noted.status = fault.status
        if fault.status:
            headers = {"content-type": "text/event-stream", **fault.headers}
            writer.write(answer_head(fault.status, headers, framed=fault.framed))
        framed = fault.framed and bool(fault.status)
        noted.first_sent = self._clock.monotonic()
        if fault.status:
            events = render(noted.api, turn, noted.asked, number=noted.number)
            sent = what_is_sent(events, fault)
        else:
            sent = [fault.raw]
        for piece in sent:
            writer.write(chunk(piece) if framed else piece)
            await writer.drain()
        return await self._then(writer, fault, framed=framed)

    async def _then(self, writer: asyncio.StreamWriter, fault: Fault, *, framed: bool) -> bool:
        match fault.then:
            case "finish":
                if framed:
                    writer.write(b"0\r\n\r\n")
                    await writer.drain()
                return framed
            case "close":
                return False
            case "reset":
                _reset(writer)
                return False
            case "stall":
                await asyncio.Event().wait()  # until the client goes or the server closes
                return False
            case "flood":
                while True:
                    writer.write(chunk(b": still here\n\n"))
                    await writer.drain()
                    await self._clock.sleep(_FLOOD_PAUSE)


def _holds_key(headers: dict[str, str], key: str) -> bool:
    return key in {headers.get("x-api-key"), headers.get("authorization", "")[len("Bearer ") :]}


def _reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with a RST instead of a FIN."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def load_script(path: Path) -> MockScript:
    """Read a script from a JSON file; unknown names are refused."""
    return msgspec.json.decode(path.read_bytes(), type=MockScript)


async def _run(args: argparse.Namespace) -> None:
    script = load_script(args.script) if args.script else MockScript()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGINT"):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises instead
            loop.add_signal_handler(getattr(signal, name), stopped.set)
    async with MockServer(script, port=args.port) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        await stopped.wait()
        if args.log:
            lines = (msgspec.json.encode(r) + b"\n" for r in server.requests)
            replace_file(args.log, b"".join(lines))


def main(argv: list[str] | None = None) -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description="Mock of three model APIs, for tests.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--script", type=Path, help="JSON file with the answers")
    parser.add_argument("--log", type=Path, help="where the requests are written at the end")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(parser.parse_args(argv)))


__all__ = [
    "MockCall",
    "MockRequest",
    "MockRule",
    "MockScript",
    "MockServer",
    "MockTurn",
    "load_script",
    "main",
]

if __name__ == "__main__":
    main()
