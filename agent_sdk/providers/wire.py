"""HTTP over httpx; loaded with the first request, and the one importer of it.

Every failure leaves here as ``ProviderError`` with a text of our own: the
library's own texts may quote a header, and so the key.
"""

import errno
import os
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Final, cast

import httpcore
import httpx
from typing_extensions import override

from agent_sdk.core.errors import ProviderError
from agent_sdk.providers import failures
from agent_sdk.providers.netstream import NetBackend, NetStream, Traffic
from agent_sdk.providers.trust import nothing_trusted, trusted

_KEEP_IDLE: Final = 55.0
"""Seconds that an idle connection is kept; many servers close theirs after 60."""


class _PoolTransport(httpx.AsyncBaseTransport):
    """httpx over a connection pool with our own network below."""

    def __init__(self, pool: httpcore.AsyncConnectionPool) -> None:
        self._pool = pool

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; raises the exceptions of httpcore."""
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(answer),
            extensions=answer.extensions,
        )

    @override
    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer, without a layer of our own around each piece."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    @override
    def __aiter__(self) -> AsyncIterator[bytes]:
        return cast("AsyncIterable[bytes]", self._answer.stream).__aiter__()

    @override
    async def aclose(self) -> None:
        """End the exchange."""
        await self._answer.aclose()


class Wire:
    """One HTTP client; see ``transport.Transport`` for what it promises."""

    def __init__(
        self,
        *,
        connect_timeout: float,
        environ: Mapping[str, str],
        proxy_for: Callable[[str], str],
    ) -> None:
        """Create a client; certificates are loaded with the first https address.

        Args:
            connect_timeout: Seconds for a connection and its encryption, each.
            environ: For ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``.
            proxy_for: Returns the address of the proxy for a URL; empty for none.
        """
        self._environ = environ
        self._proxy_for = proxy_for
        self._traffic = Traffic()
        self._clients: dict[tuple[bool, str], httpx.AsyncClient] = {}
        self._timeout = httpx.Timeout(None, connect=connect_timeout)
        self._connect_timeout = connect_timeout

    async def open(self, url: str, headers: Mapping[str, str], body: bytes) -> "HttpReply":
        """Post the body; see ``transport.Transport.open``."""
        client, request = self._prepare(url, headers, body)
        traffic = self._traffic
        before = (traffic.opened, traffic.received)
        try:
            response = await client.send(request, stream=True)
        except (httpcore.ReadError, httpcore.WriteError, httpcore.RemoteProtocolError) as error:
            if (traffic.opened, traffic.received) != before:
                raise self._failure(error, url, before) from None
            # The server had closed the kept connection: nothing was answered, nothing was done.
            before = (traffic.opened, traffic.received)
            try:
                response = await client.send(request, stream=True)
            except _LIBRARY as again:
                raise self._failure(again, url, before) from None
        except _LIBRARY as error:
            raise self._failure(error, url, before) from None
        return HttpReply(response, url)

    def _prepare(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[httpx.AsyncClient, httpx.Request]:
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                raise ProviderError(
                    f"The value for the header {name!r} has characters that cannot be sent.",
                    kind="invalid_request",
                    hint="Check the key for line breaks and typographic characters.",
                )
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, ValueError):
            parsed = httpx.URL("")
        port_fits = parsed.port is None or 0 < parsed.port < 65536
        if parsed.scheme not in {"http", "https"} or not parsed.host or not port_fits:
            raise ProviderError(
                f"The address {failures.address_of(url)!r} cannot be used.",
                kind="invalid_request",
                hint="Set a base URL such as https://api.example.com/v1.",
            )
        client = self._client(encrypted=parsed.scheme == "https", proxy=self._proxy_for(url))
        request = client.build_request("POST", parsed, headers=dict(headers), content=body)
        return client, request

    def _client(self, *, encrypted: bool, proxy: str) -> httpx.AsyncClient:
        client = self._clients.get((encrypted, proxy))
        if client is None:
            context = trusted(self._environ) if encrypted else nothing_trusted()
            pool = httpcore.AsyncConnectionPool(
                ssl_context=context,
                proxy=self._proxy(proxy) if proxy else None,
                keepalive_expiry=_KEEP_IDLE,
                network_backend=NetBackend(self._traffic),
            )
            client = httpx.AsyncClient(
                transport=_PoolTransport(pool),
                trust_env=False,
                follow_redirects=False,
                timeout=self._timeout,
                headers={"accept-encoding": "identity"},
            )
            self._clients[encrypted, proxy] = client
        return client

    def _proxy(self, proxy: str) -> httpcore.Proxy:
        try:
            address = httpx.URL(proxy)
        except httpx.InvalidURL:
            address = httpx.URL("")
        if address.scheme not in {"http", "https"} or not address.host:
            raise ProviderError(
                "The proxy in the environment cannot be used: it is no http or https address.",
                kind="network",
                hint="Correct HTTPS_PROXY, or unset ZPI_USE_PROXY.",
            )
        return httpcore.Proxy(
            httpcore.URL(
                scheme=address.raw_scheme, host=address.raw_host, port=address.port, target=b"/"
            ),
            auth=(address.username, address.password) if address.username else None,
            ssl_context=trusted(self._environ) if address.scheme == "https" else None,
        )

    def _failure(self, error: Exception, url: str, before: tuple[int, int]) -> ProviderError:
        traffic = self._traffic
        answered = traffic.received != before[1]
        match error:
            case httpcore.ConnectTimeout():
                return failures.not_connected(url, self._connect_timeout)
            case httpcore.ConnectError():
                return connect_failure(url, error.args[0] if error.args else ())
            case httpcore.ProxyError():
                return failures.unreachable(url, "the proxy refused", hint="Check HTTPS_PROXY.")
            case httpcore.RemoteProtocolError() if answered:
                return failures.malformed(url, "an answer that is no HTTP")
            case httpcore.LocalProtocolError() | httpcore.UnsupportedProtocol():
                return ProviderError(
                    f"The request to {failures.address_of(url)} cannot be sent as HTTP.",
                    kind="invalid_request",
                )
            case _:
                return failures.broken(url, "before it answered")

    async def aclose(self) -> None:
        """Close all connections."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()


_LIBRARY: Final = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    httpcore.ConnectionNotAvailable,
    httpx.HTTPError,
)


class HttpReply:
    """The answer to one request; see ``transport.Reply``."""

    def __init__(self, response: httpx.Response, url: str) -> None:
        self._response = response
        self._url = url
        self._headers = {k.lower(): v for k, v in response.headers.items()}

    @property
    def status(self) -> int:
        """HTTP status."""
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers; names in lower case."""
        return self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """Read the body as it comes; see ``transport.Reply.chunks``."""
        try:
            async for chunk in cast("AsyncIterable[bytes]", self._response.stream):
                yield chunk
        except _LIBRARY:
            raise failures.broken(self._url, "in the middle of the answer") from None

    def abort(self) -> None:
        """Cut the connection."""
        stream = self._response.extensions.get("network_stream")
        if isinstance(stream, NetStream):
            stream.abort()

    async def aclose(self) -> None:
        """End the exchange."""
        await self._response.aclose()


def connect_failure(url: str, causes: object) -> ProviderError:
    """Return the error for a failed connection, by what the system said of each address."""
    errors = causes if isinstance(causes, list) else []
    match errors:
        case [ssl.SSLCertVerificationError() as error]:
            return failures.unreachable(
                url,
                f"its certificate is not trusted ({error.verify_message})",
                hint="If it is your own server or proxy, name its authority in SSL_CERT_FILE.",
                retryable=False,
            )
        case [ssl.SSLError() as error]:
            return failures.unreachable(url, f"encryption failed ({error.reason})", retryable=False)
        case [socket.gaierror() as error]:
            return failures.unreachable(
                url,
                "no address is known for this name",
                retryable=error.errno == socket.EAI_AGAIN,
            )
        case [UnicodeError()]:
            return failures.unreachable(url, "this is no possible host name", retryable=False)
        case _:
            return _refused(url, [e.errno for e in errors if isinstance(e, OSError)])


def _refused(url: str, numbers: list[int | None]) -> ProviderError:
    reasons = sorted({os.strerror(n).lower() if n else "no answer" for n in numbers})
    refused = bool(numbers) and set(numbers) == {errno.ECONNREFUSED}
    return failures.unreachable(
        url,
        ", ".join(reasons) or "the connection was cut",
        hint="Is the server running? Check the base URL." if refused else "",
    )
