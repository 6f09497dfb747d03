"""The network below the HTTP library: asyncio sockets, and chunks joined.

A streamed answer comes as thousands of tiny chunks, each of which costs a pass
through several layers of iterators of the HTTP library. ``ChunkJoiner`` makes
one chunk of all that a read brings. The library's stock backend would also
load a second event-loop library, whose reads cost more than all that we do
with a delta.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Iterable
from typing import Any, Final, Literal

import httpcore
from typing_extensions import override

_HEAD_LIMIT: Final = 128 * 1024
_BUFFER_LIMIT: Final = 1024 * 1024
_PATIENCE: Final = 3.0
"""Seconds for one address of a host that has more, such as one of a network that is not there."""

_CHUNK_HEAD: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n")
_CHUNK_HEAD_LIMIT: Final = 1024
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)


class ChunkJoiner:
    """Rewrites chunked bodies so that each read brings one chunk; pure.

    What it returns means the same as what it was given. It only understands
    plain chunked bodies; anything else, and anything malformed, goes through
    unchanged for the HTTP parser to judge.
    """

    def __init__(self) -> None:
        self._state: Literal["pass", "head", "size", "data", "end"] = "pass"
        self._kept = b""  # what came of the head, or of a chunk's size line
        self._left = 0  # how much of the current chunk's data is still to come

    def expect_response(self) -> None:
        """Say that a request is being sent: the next bytes begin a response."""
        self._state = "head"
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        """Take bytes as received; return bytes for the parser, perhaps none yet."""
        if self._state == "pass":
            return data
        if self._state == "head":
            return self._on_head(data)
        return self._on_body(data)

    def _on_head(self, data: bytes) -> bytes:
        before = len(self._kept)
        head = self._kept + data
        end = head.find(b"\r\n\r\n", max(0, before - 3))
        if end < 0:
            self._kept = head
            if len(head) > _HEAD_LIMIT:
                self._state = "pass"
            return data
        self._kept = b""
        at = end + 4 - before
        if head[8:10] == b" 1" and head.startswith(b"HTTP/1."):  # another head follows
            return data[:at] + (self._on_head(data[at:]) if data[at:] else b"")
        if not _CHUNKED.search(head, 0, end + 2):
            self._state = "pass"
            return data
        self._state = "size"
        return data[:at] + self._on_body(data[at:])

    def _on_body(self, data: bytes) -> bytes:
        if self._kept:
            data = self._kept + data
            self._kept = b""
        parts: list[bytes] = []
        at = self._collect(data, parts)
        rest = data[at:]
        if rest and self._state != "pass":
            rest = self._keep(rest)
        joined = b"".join(parts)
        return b"%x\r\n%b\r\n%b" % (len(joined), joined, rest) if joined else rest

    def _collect(self, data: bytes, parts: list[bytes]) -> int:
        """Add the data of the chunks to the parts; return where it could not go on."""
        at, size = 0, len(data)
        while at < size:
            if self._state == "data":
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                if self._left:
                    break
                self._state = "end"
            elif self._state == "end":
                if not data.startswith(b"\r\n", at):
                    break
                at += 2
                self._state = "size"
            else:
                head = _CHUNK_HEAD.match(data, at)
                if head is None:
                    break
                length = int(head[1], 16)
                if not length:  # the last chunk, and what may follow it
                    self._state = "pass"
                    break
                at = head.end()
                end = at + length
                if data.startswith(b"\r\n", end):  # the whole chunk is here: nearly always
                    parts.append(data[at:end])
                    at = end + 2
                else:
                    self._left = length
                    self._state = "data"
        return at

    def _keep(self, rest: bytes) -> bytes:
        """Keep the beginning of a size line or of a line end; let anything else pass."""
        if self._state == "end":
            incomplete = rest == b"\r"
        else:
            incomplete = b"\n" not in rest and len(rest) < _CHUNK_HEAD_LIMIT
        if incomplete:
            self._kept = rest
            return b""
        self._state = "pass"
        return rest


class _Socket(asyncio.Protocol):
    """Collects what arrives and lets one reader wait for it."""

    def __init__(self, traffic: "Traffic") -> None:
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()
        self._received: list[bytes] = []
        self._size = 0
        self._ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._full = False
        self._paused = False
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.attach(transport)

    def attach(self, transport: asyncio.BaseTransport | None) -> None:
        """Take the transport; after TLS has begun nobody else says which it is."""
        if isinstance(transport, asyncio.Transport):
            self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._traffic.received += len(data)
        self._received.append(data)
        self._size += len(data)
        if self._size > _BUFFER_LIMIT and not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()
        _wake(self._reader)

    @override
    def eof_received(self) -> None:
        self._ended = True
        _wake(self._reader)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._error = exc
        self._full = False
        _wake(self._reader)
        _wake(self._writer)

    @override
    def pause_writing(self) -> None:
        self._full = True

    @override
    def resume_writing(self) -> None:
        self._full = False
        _wake(self._writer)

    @property
    def stale(self) -> bool:
        """Whether something came, or the end, while nothing was asked."""
        return self._ended or bool(self._received)

    async def read(self) -> bytes:
        """Return all that has arrived, waiting for something; ``b""`` at the end."""
        while not self._received:
            if self._error is not None:
                raise httpcore.ReadError("connection lost") from self._error
            if self._ended:
                return b""
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        received = self._received
        data = received[0] if len(received) == 1 else b"".join(received)
        received.clear()
        self._size = 0
        if self._paused and self.transport is not None and not self._ended:
            self.transport.resume_reading()
        self._paused = False
        return data

    async def write(self, data: bytes) -> None:
        """Send; returns when the operating system has taken most of it."""
        if self._ended or self.transport is None:
            raise httpcore.WriteError("connection lost") from self._error
        self.transport.write(data)
        while self._full:
            self._writer = self._loop.create_future()
            try:
                await self._writer
            finally:
                self._writer = None
        if self._error is not None:
            raise httpcore.WriteError("connection lost") from self._error

    def abort(self) -> None:
        """Close without ceremony."""
        if self.transport is not None:
            self.transport.abort()


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class Traffic:
    """Counts what happened on all connections.

    Attributes:
        opened: Connections made.
        received: Bytes received.
    """

    def __init__(self) -> None:
        self.opened = 0
        self.received = 0


class NetStream(httpcore.AsyncNetworkStream):
    """One connection, as httpcore wants it."""

    def __init__(self, connection: _Socket, traffic: Traffic) -> None:
        self._socket = connection
        self._traffic = traffic
        self._joiner = ChunkJoiner()

    @override
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has arrived; may be more than asked for, which saves copies."""
        while True:
            data = await self._socket.read()
            if not data:
                return data
            data = self._joiner.feed(data)
            if data:
                return data

    @override
    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send a part of a request."""
        if buffer:
            self._joiner.expect_response()
            await self._socket.write(buffer)

    @override
    async def aclose(self) -> None:
        """Close at once."""
        self._socket.abort()

    def abort(self) -> None:
        """Close at once; a pending read fails."""
        self._socket.abort()

    @override
    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Encrypt the connection."""
        loop = asyncio.get_running_loop()
        secured = _Socket(self._traffic)
        plain = self._socket.transport
        if plain is None:
            raise httpcore.ConnectError("not connected")
        try:
            async with asyncio.timeout(timeout):
                transport = await loop.start_tls(
                    plain, secured, ssl_context, server_hostname=server_hostname
                )
        except TimeoutError as error:
            self._socket.abort()
            raise httpcore.ConnectTimeout("TLS handshake") from error
        except OSError as error:  # ssl.SSLError is one
            self._socket.abort()
            raise httpcore.ConnectError([error]) from error
        secured.attach(transport)
        return NetStream(secured, self._traffic)

    @override
    def get_extra_info(self, info: str) -> Any:
        """Return a fact about the connection, or None."""
        if info == "is_readable":
            return self._socket.stale
        names = {"client_addr": "sockname", "server_addr": "peername"}
        transport = self._socket.transport
        return transport and transport.get_extra_info(names.get(info, info))


async def _resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, best first."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: not a possible host name
        raise httpcore.ConnectError([error]) from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class NetBackend(httpcore.AsyncNetworkBackend):
    """Makes connections."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of the host that answers.

        Raises:
            httpcore.ConnectError: If none does; its argument is a list of what
                the system said, one error for each address.
            httpcore.ConnectTimeout: If that takes too long.
        """
        try:
            async with asyncio.timeout(timeout):
                addresses = await _resolve(host, port)
                return await self._first(addresses, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("connect") from error

    async def _first(self, addresses: list[str], port: int) -> NetStream:
        """Try one address after the other: a dead one must not use up all the time."""
        loop = asyncio.get_running_loop()
        traffic, failed = self._traffic, list[OSError]()
        for address in addresses:
            patience = None if address == addresses[-1] else _PATIENCE
            try:
                async with asyncio.timeout(patience):
                    _, connection = await loop.create_connection(
                        lambda: _Socket(traffic), address, port
                    )
            except OSError as error:  # TimeoutError is one
                failed.append(error)
            else:
                traffic.opened += 1
                return NetStream(connection, traffic)
        raise httpcore.ConnectError(failed)

    @override
    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
