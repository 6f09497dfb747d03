"""What a provider needs of the network: post a body, read the answer's bytes.

``Transport`` is the seam; ``HttpTransport`` the real one. This module is
light: the HTTP library is loaded with the first request (see ``wire``).
"""

import ipaddress
import sys
from collections.abc import AsyncIterator, Mapping
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final, Protocol, cast
from urllib.parse import urlsplit

from msgspec import Struct

if TYPE_CHECKING:
    from agent_sdk.providers.wire import Wire

MAX_STREAM_BYTES: Final = 256 * 1024 * 1024
"""Most bytes of one answer; more than any model says."""

MAX_ERROR_BODY_BYTES: Final = 64 * 1024
"""How much of an error's body is read."""


class Limits(Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds.

    Attributes:
        connect: For the connection, with its encryption.
        first_event: From the request to the first event of the answer.
        first_event_local: The same for servers on this machine or network,
            which may have to load a model and read a long prompt slowly.
        idle: Between two events of the answer. What servers send only to keep
            the connection open does not count as an event.
        thinking: Replaces ``first_event`` and ``idle`` where it is longer and
            reasoning was asked for, which many servers do in silence.
        waiting: How often ``StreamWaiting`` comes, for local servers.
    """

    connect: float = 15.0
    first_event: float = 60.0
    first_event_local: float = 600.0
    idle: float = 90.0
    thinking: float = 300.0
    waiting: float = 1.0


class Reply(Protocol):
    """The head of an answer, and the way to its body. One reader at a time."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers; names in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Read the body as it comes, each piece as large as what has arrived.

        Raises:
            ProviderError: Of kind ``network``, if the connection broke. A body
                without a length that is cut off just ends.
        """
        ...

    def abort(self) -> None:
        """Cut the connection now; whoever is reading gets ``ProviderError``."""
        ...

    async def aclose(self) -> None:
        """End the exchange; may be called twice.

        The connection is kept for the next request if the body was read to
        its end, and is closed otherwise.
        """
        ...


class Transport(Protocol):
    """Sends requests to one provider, one at a time."""

    async def open(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Post the body and return when the head of the answer is there.

        Redirects are not followed, whatever the status. Cancelling it closes
        the connection.

        Raises:
            ProviderError: If there is no answer (kinds ``network``, ``timeout``,
                ``protocol``, ``invalid_request``). Its text holds no header.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections; may be called twice."""
        ...


class HttpTransport:
    """HTTP/1.1 with kept connections; verifies certificates, follows nothing."""

    def __init__(
        self, *, environ: Mapping[str, str], trust_env: bool = False, limits: Limits | None = None
    ) -> None:
        """Create a transport; nothing is loaded or opened yet.

        Args:
            environ: Where ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` are looked up
                and, if ``trust_env``, the proxy variables.
            trust_env: Whether ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY``
                and ``NO_PROXY`` are followed. Off unless the user asked for
                it: whoever sets them reads and gets everything.
            limits: Times to wait; ``connect`` is used here.
        """
        self._environ = environ
        self._trust_env = trust_env
        self._limits = limits or Limits()
        self._wire: Wire | None = None

    async def open(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Post the body; see ``Transport.open``."""
        if self._wire is None:
            self._wire = _wire_class()(
                connect_timeout=self._limits.connect,
                environ=self._environ,
                proxy_for=self._proxy_for,
            )
        return await self._wire.open(url, headers, body)

    def _proxy_for(self, url: str) -> str:
        return proxy_for(url, self._environ) if self._trust_env else ""

    async def aclose(self) -> None:
        """Close all connections."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.aclose()


def _wire_class() -> "type[Wire]":
    """Load httpx, but not its command line.

    httpx imports its command line wherever click, rich and pygments are
    installed, which takes longer than all the rest; without them it goes on.
    """
    modules = cast("dict[str, object]", sys.modules)
    command_line = "httpx._main"
    keep_out = "httpx" not in modules and command_line not in modules
    if keep_out:
        modules[command_line] = None
    from agent_sdk.providers.wire import Wire  # noqa: PLC0415 - start-up cost of httpx

    if keep_out:
        del modules[command_line]
    return Wire


def stop_searches() -> None:
    """Let the HTTP library not look for what is not installed; for whole programs only.

    Its core tries to import sniffio several times a request; where that is not
    installed, each time is a search through all folders of the path. What this
    changes holds for the whole process, which is why no provider does it.
    """
    modules = cast("dict[str, object]", sys.modules)
    if "sniffio" not in modules and PathFinder.find_spec("sniffio") is None:
        modules["sniffio"] = None


_LOCAL_DOMAINS: Final = (".localhost", ".local", ".lan", ".internal", ".home.arpa")
_CARRIER_NAT: Final = ipaddress.ip_network("100.64.0.0/10")


def is_local(url: str) -> bool:
    """Whether the address is on this machine or a private network.

    Only the address is looked at, nothing is resolved: it decides how long to
    wait, not what is allowed.
    """
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(_LOCAL_DOMAINS))
    return address.is_private or address.is_link_local or address in _CARRIER_NAT


def proxy_for(url: str, environ: Mapping[str, str]) -> str:
    """Return the proxy that the environment names for an address, or ''.

    Args:
        url: The address to reach.
        environ: The environment; names in lower case are preferred.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if is_local(url) and host in {"localhost", "127.0.0.1", "::1"}:
        return ""
    for rule in _variable(environ, "no_proxy").split(","):
        name = rule.strip().lower().lstrip("*").lstrip(".")
        if rule.strip() == "*" or (name and (host == name or host.endswith("." + name))):
            return ""
    proxy = _variable(environ, f"{parts.scheme}_proxy") or _variable(environ, "all_proxy")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()
