"""The transport against real sockets of this machine that behave badly."""

import asyncio
import logging
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import ProviderError
from agent_sdk.providers.anthropic import AnthropicAdapter
from agent_sdk.providers.base import ModelRequest, StreamDone
from agent_sdk.providers.http_provider import HttpProvider
from agent_sdk.providers.models import Model
from agent_sdk.providers.transport import HttpTransport, Limits, is_local, proxy_for
from tests.support.streams import recorded

TEXT = recorded("anthropic")["text"]
KEY = "sk-canary-0123456789"
TLS = Path(__file__).parents[3] / "data" / "tls" / "server.pem"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def take_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request; empty when the client closes instead."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    length = int(lengths[0].split(b":")[1]) if lengths else 0
    return head + await reader.readexactly(length)


@asynccontextmanager
async def serving(handler: Handler, *, tls: bool = False) -> AsyncIterator[int]:
    """Serve on 127.0.0.1; yields the port."""
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS)

    running = set[asyncio.Task[None] | None]()

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.add(asyncio.current_task())
        try:
            await handler(reader, writer)
        except ConnectionError:
            return
        finally:
            writer.close()

    server = await asyncio.start_server(closing, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        tasks = [task for task in running if task]
        if tasks:
            await asyncio.wait(tasks, timeout=5)


def scripted(*answers: bytes) -> Handler:
    """Answer the requests of each connection in turn, then close."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            if not await take_request(reader):
                return
            writer.write(answer)
            await writer.drain()

    return handler


@asynccontextmanager
async def transport(**options: object) -> AsyncIterator[HttpTransport]:
    environ = options.pop("environ", {})
    made = HttpTransport(environ=environ, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        await made.aclose()


async def fetch(
    made: HttpTransport, port: int, *, body: bytes = b"{}", origin: str = "http://127.0.0.1"
) -> tuple[int, bytes]:
    """Post and read everything."""
    url = f"{origin}:{port}/v1/messages"
    reply = await made.open(url, {"x-api-key": KEY}, body)
    try:
        return reply.status, b"".join([c async for c in reply.chunks()])
    finally:
        await reply.aclose()


async def failing(
    made: HttpTransport, port: int, *, origin: str = "http://127.0.0.1"
) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await fetch(made, port, origin=origin)
    error = caught.value
    assert KEY not in repr(error) + str(error) + repr(error.__context__) + repr(error.__cause__)
    return error


async def test_requests_share_a_connection_and_say_what_they_must() -> None:
    requests, connections = [], []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while request := await take_request(reader):
            requests.append(request)
            writer.write(CHUNKED + chunk(b"a") + chunk(b"b") + LAST)

    async with serving(handler) as port, transport() as made:
        for _ in range(3):
            assert await fetch(made, port, body=b"[1]") == (200, b"ab")
    assert len(connections) == 1
    head, _, body = requests[2].partition(b"\r\n\r\n")
    assert body == b"[1]"
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"post /v1/messages http/1.1"
    assert b"accept-encoding: identity" in lines
    assert f"x-api-key: {KEY}".encode() in lines


async def test_a_body_larger_than_every_buffer_arrives() -> None:
    body = bytes(range(256)) * 20_000
    async with serving(scripted(CHUNKED + LAST)) as port, transport() as made:
        assert await fetch(made, port, body=body) == (200, b"")
    answer = b"x" * 3_000_000
    async with serving(scripted(CHUNKED + chunk(answer) + LAST)) as port, transport() as made:
        reply = await made.open(f"http://127.0.0.1:{port}/", {}, b"")
        await asyncio.sleep(0.05)  # more has come by now than is kept
        assert b"".join([c async for c in reply.chunks()]) == answer
        await reply.aclose()


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_kept_connection_that_died_is_replaced_without_a_word(how: str) -> None:
    served = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await take_request(reader):
            return
        served.append(1)
        writer.write(CHUNKED + chunk(b"x") + LAST)
        await writer.drain()
        if len(served) == 1:  # take the next request, and die of it
            await take_request(reader)
            if how == "rst":
                reset(writer)

    async with serving(handler) as port, transport() as made:
        assert await fetch(made, port) == (200, b"x")
        assert await fetch(made, port) == (200, b"x")
    assert len(served) == 2


def reset(writer: asyncio.StreamWriter) -> None:
    linger = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


async def test_a_fresh_connection_that_dies_is_a_failure() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)

    async with serving(handler) as port, transport() as made:
        error = await failing(made, port)
    assert (error.kind, error.retryable) == ("network", True)
    assert f"127.0.0.1:{port} broke before it answered" in error.message


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"\r\ndata: half", b"data: half"),  # ended by closing: looks whole
        (OK + b"Content-Length: 99\r\n\r\ndata: half", None),
        (CHUNKED + chunk(b"data: half"), None),
        (CHUNKED + b"a\r\ndata:", None),
        (CHUNKED + chunk(b"data: half") + b"nonsense\r\n", None),
    ],
)
async def test_an_answer_cut_in_the_middle(answer: bytes, body: bytes | None) -> None:
    async with serving(scripted(answer)) as port, transport() as made:
        if body is not None:
            assert await fetch(made, port) == (200, body)
            return
        error = await failing(made, port)
    assert (error.kind, error.retryable) == ("network", True)
    assert "in the middle of the answer" in error.message


async def test_a_reset_in_the_middle() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        writer.write(CHUNKED + chunk(b"data: 1\n\n"))
        await writer.drain()
        reset(writer)

    async with serving(handler) as port, transport() as made:
        assert (await failing(made, port)).kind == "network"


@pytest.mark.parametrize(
    "answer",
    [
        b"220 smtp.example ESMTP\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        OK + b"X: " + b"y" * 300_000 + b"\r\n\r\n",
        OK + b"".join(b"X-%d: y\r\n" % i for i in range(100_000)) + b"\r\n",
        OK + b"Content-Length: x\r\n\r\n",
    ],
    ids=["smtp", "no status", "long header", "many headers", "bad length"],
)
async def test_what_is_no_http(answer: bytes) -> None:
    async with serving(scripted(answer)) as port, transport() as made:
        error = await failing(made, port)
    assert error.kind == "protocol"


async def test_redirects_are_not_followed() -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("followed")

    async with serving(other) as target:
        answer = (
            f"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:{target}/\r\nContent-Length: 0\r\n\r\n"
        )
        async with serving(scripted(answer.encode())) as port, transport() as made:
            assert await fetch(made, port) == (307, b"")


async def test_an_early_refusal_of_a_large_body_is_read() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        await writer.drain()
        while await reader.read(65536):
            pass

    async with serving(handler) as port, transport() as made:
        assert await fetch(made, port, body=b"x" * 5_000_000) == (413, b"big")


async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with transport() as made:
        error = await failing(made, port)
        assert (error.kind, error.retryable) == ("network", True)
        assert f"127.0.0.1:{port}: connection refused" in error.message
        with pytest.raises(ProviderError, match=f"localhost:{port}: connection refused"):
            await made.open(f"http://localhost:{port}/", {}, b"")


@pytest.mark.parametrize(
    ("url", "kind", "text"),
    [
        ("http://no-such-host.invalid/v1", "network", "no-such-host.invalid:80"),
        ("ftp://127.0.0.1/", "invalid_request", "127.0.0.1"),
        ("127.0.0.1/v1", "invalid_request", "cannot be used"),
        ("", "invalid_request", "cannot be used"),
        ("http://", "invalid_request", "cannot be used"),
        ("http://127.0.0.1:99999/", "invalid_request", "cannot be used"),
        ("http://a\nb/", "invalid_request", "cannot be used"),
    ],
)
async def test_addresses_that_lead_nowhere(url: str, kind: str, text: str) -> None:
    async with transport() as made:
        with pytest.raises(ProviderError) as caught:
            await made.open(url, {"x-api-key": KEY}, b"")
    assert (caught.value.kind, caught.value.retryable) == (kind, False)
    assert text in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("key", [KEY + "\n", KEY + "\r\nX: y", "“" + KEY + "”", KEY + "\x00"])
async def test_a_key_that_fits_no_header_is_refused_without_showing_it(key: str) -> None:
    async with transport() as made:
        with pytest.raises(ProviderError) as caught:
            await made.open("http://127.0.0.1:9/", {"x-api-key": key}, b"")
    assert KEY not in str(caught.value)
    assert "'x-api-key'" in caught.value.message


async def test_a_connection_that_is_not_made_in_time() -> None:
    with socket.socket() as full:  # nobody accepts, and there is room for nobody
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        blockers = [socket.socket() for _ in range(8)]
        try:
            for each in blockers:
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
            async with transport(limits=Limits(connect=0.2)) as made:
                error = await failing(made, port)
        finally:
            for each in blockers:
                each.close()
    if sys.platform == "linux":
        assert (error.kind, error.retryable) == ("timeout", True)
        assert "within 0.2 seconds" in error.message


@pytest.mark.parametrize("when", ["before", "within"])
async def test_a_cancel_and_an_abort_close_the_connection(when: str) -> None:
    gone = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        if when == "within":
            writer.write(CHUNKED + chunk(b"data: 1\n\n"))
        assert await reader.read() == b""
        gone.set()

    async with (
        serving(handler) as port,
        transport() as made,
        TaskOwner(name="test") as owner,
    ):
        task = owner.start(fetch(made, port), name="fetch")
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), 5)

    if when == "within":
        gone.clear()
        async with serving(handler) as port, transport() as made:
            reply = await made.open(f"http://127.0.0.1:{port}/", {}, b"")
            chunks = reply.chunks()
            assert await anext(chunks) == b"data: 1\n\n"
            reply.abort()
            with pytest.raises(ProviderError, match="in the middle"):
                await anext(chunks)
            await reply.aclose()
            await reply.aclose()
            await asyncio.wait_for(gone.wait(), 5)


async def test_an_unread_answer_is_not_left_for_the_next_request() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = 0
        while await take_request(reader):
            number += 1
            writer.write(CHUNKED + chunk(b"answer %d" % number) + LAST)

    async with serving(handler) as port, transport() as made:
        reply = await made.open(f"http://127.0.0.1:{port}/", {}, b"")
        await reply.aclose()
        assert await fetch(made, port) == (200, b"answer 1")


@pytest.mark.parametrize(("ends", "connections"), [("late", 1), ("never", 3)])
async def test_a_whole_answer_leaves_its_connection_to_the_next(
    ends: str, connections: int
) -> None:
    made = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.append(writer)
        while await take_request(reader):
            writer.write(CHUNKED + chunk(TEXT))  # the last event, but not the end of the body
            if ends == "late":
                await asyncio.sleep(0.01)
                writer.write(LAST)

    async with serving(handler) as port:
        provider = HttpProvider(adapter=AnthropicAdapter(), credential=lambda: KEY)
        model = Model(
            id="m", provider="p", api="anthropic-messages", base_url=f"http://127.0.0.1:{port}"
        )
        for _ in range(3):
            events = [e async for e in provider.stream(ModelRequest(model=model, messages=()))]
            assert isinstance(events[-1], StreamDone)
        await provider.aclose()
    assert len(made) == connections


# ------------------------------------------------------------------ TLS


async def test_a_certificate_that_nobody_vouches_for() -> None:
    async with serving(scripted(CHUNKED + LAST), tls=True) as port, transport() as made:
        error = await failing(made, port, origin="https://localhost")
    assert (error.kind, error.retryable) == ("network", False)
    assert "certificate is not trusted" in error.message
    assert "SSL_CERT_FILE" in error.hint


async def test_a_certificate_that_the_user_trusts() -> None:
    environ = {"SSL_CERT_FILE": str(TLS)}
    answers = [CHUNKED + chunk(b"safe") + LAST] * 2
    async with (
        serving(scripted(*answers), tls=True) as port,
        transport(environ=environ) as made,
    ):
        assert await fetch(made, port, origin="https://localhost") == (200, b"safe")
        assert await fetch(made, port, origin="https://localhost") == (200, b"safe")
        error = await failing(made, port, origin="https://127.0.0.1")
    assert "certificate is not trusted" in error.message  # it is for another name


async def test_plain_http_where_tls_is_expected() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(5)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving(handler) as port, transport() as made:
        error = await failing(made, port, origin="https://127.0.0.1")
    assert (error.kind, error.retryable) == ("network", False)
    assert "encryption failed" in error.message


@pytest.mark.parametrize(
    ("name", "make", "text"),
    [
        ("SSL_CERT_FILE", "nothing", "does not exist"),
        ("SSL_CERT_DIR", "nothing", "does not exist"),
        ("SSL_CERT_FILE", "nonsense", "cannot be read as certificates"),
    ],
)
async def test_authorities_that_cannot_be_read(
    tmp_path: Path, name: str, make: str, text: str
) -> None:
    path = tmp_path / "authorities"
    if make == "nonsense":
        path.write_text("no certificate")
    async with transport(environ={name: str(path)}) as made:
        with pytest.raises(ProviderError) as caught:
            await made.open("https://127.0.0.1:9/", {}, b"")
        assert f"{name} names {str(path)!r}, which {text}" in caught.value.message
        with pytest.raises(ProviderError, match="refused"):  # not needed for http
            await made.open("http://127.0.0.1:9/", {}, b"")


# ---------------------------------------------------------------- proxies


async def test_a_proxy_is_used_only_if_the_user_wants_it() -> None:
    asked = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await take_request(reader)).split(b"\r\n")[0])
        writer.write(CHUNKED + chunk(b"by proxy") + LAST)

    async with serving(handler) as port:
        environ = {"HTTP_PROXY": f"http://127.0.0.1:{port}"}
        async with transport(environ=environ, trust_env=True) as made:
            reply = await made.open("http://api.example.invalid/v1", {}, b"{}")
            assert [c async for c in reply.chunks()] == [b"by proxy"]
            await reply.aclose()
        async with transport(environ=environ) as made:
            with pytest.raises(ProviderError, match="no address is known"):
                await made.open("http://api.example.invalid/v1", {}, b"{}")
    assert asked == [b"POST http://api.example.invalid/v1 HTTP/1.1"]


async def test_a_proxy_that_refuses_or_cannot_be_used() -> None:
    refusal = b"HTTP/1.1 407 Login\r\nContent-Length: 0\r\n\r\n"
    async with serving(scripted(refusal)) as port:
        environ = {"https_proxy": f"127.0.0.1:{port}"}
        async with transport(environ=environ, trust_env=True) as made:
            with pytest.raises(ProviderError, match="the proxy refused"):
                await made.open("https://api.example.invalid/v1", {}, b"{}")
    async with transport(environ={"all_proxy": "socks5://127.0.0.1:1"}, trust_env=True) as made:
        with pytest.raises(ProviderError, match="no http or https address"):
            await made.open("http://api.example.invalid/v1", {}, b"{}")


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://a.b/", {}, ""),
        ("https://a.b/", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.b/", {"HTTP_PROXY": "http://p:1"}, ""),
        ("https://a.b/", {"ALL_PROXY": "p:1"}, "http://p:1"),
        ("https://a.b/", {"https_proxy": "http://x", "HTTPS_PROXY": "http://y"}, "http://x"),
        ("https://a.b/", {"HTTPS_PROXY": "http://p", "NO_PROXY": "c.d, a.b"}, ""),
        ("https://x.a.b/", {"HTTPS_PROXY": "http://p", "NO_PROXY": ".a.b"}, ""),
        ("https://xa.b/", {"HTTPS_PROXY": "http://p", "NO_PROXY": "a.b"}, "http://p"),
        ("https://a.b/", {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, ""),
        ("http://127.0.0.1:1/", {"HTTP_PROXY": "http://p"}, ""),
        ("http://localhost/", {"HTTP_PROXY": "http://p"}, ""),
    ],
)
def test_proxy_for(url: str, environ: dict[str, str], proxy: str) -> None:
    assert proxy_for(url, environ) == proxy


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:11434/v1", True),
        ("http://127.3.2.1/", True),
        ("http://[::1]:1/", True),
        ("http://10.1.2.3/", True),
        ("http://192.168.0.9/", True),
        ("http://172.16.0.1/", True),
        ("http://100.64.1.1/", True),
        ("http://[fd00::1]/", True),
        ("http://[fe80::1%25eth0]/", True),
        ("http://gpu-box:8000/", True),
        ("http://box.local/", True),
        ("https://api.example.com/", False),
        ("http://8.8.8.8/", False),
        ("http://[2001:4860:4860::8888]/", False),
        ("nonsense", False),
    ],
)
def test_is_local(url: str, local: bool) -> None:
    assert is_local(url) == local


async def test_the_log_of_the_libraries_holds_no_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(scripted(CHUNKED + LAST)) as port, transport() as made:
        await fetch(made, port)
    assert caplog.records
    assert KEY not in caplog.text


def test_loading_the_http_library_leaves_the_program_as_it_was() -> None:
    code = (
        "import sys; from agent_sdk.providers import transport; transport._wire_class()\n"
        "assert 'httpx' in sys.modules\n"
        "print([name for name, module in sys.modules.items() if module is None])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
