"""Keeps tests off every network but the machine's own loopback.

Applies to the test's process; children get no keys and the address of a mock.
"""

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import pytest


class RealNetwork(RuntimeError):
    """A test tried to reach another machine.

    Not an ``OSError``, so that nobody takes it for a connection that failed.
    """


class NetworkGuard:
    """Refuses addresses that are not loopback and remembers who asked.

    Attributes:
        attempts: What was tried since the last test; the test must fail for
            it even where the code under test swallowed the error.
    """

    def __init__(self) -> None:
        self.attempts: list[str] = []

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put the guard before every way out of the process."""
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, self._checked_connect(getattr(socket.socket, name)))
        patch.setattr(socket.socket, "sendto", self._checked_sendto(socket.socket.sendto))
        patch.setattr(socket, "getaddrinfo", self._checked_lookup(socket.getaddrinfo))

    def check(self, host: object) -> None:
        """Raise ``RealNetwork`` unless the host is this machine."""
        if not is_loopback(host):
            self.attempts.append(f"{host!r}")
            raise RealNetwork(f"Tests must not reach {host!r}; use a server on 127.0.0.1.")

    def _checked_connect(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def connect(sock: socket.socket, address: Any) -> Any:
            if isinstance(address, tuple):
                self.check(address[0])
            return original(sock, address)

        return connect

    def _checked_sendto(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def sendto(sock: socket.socket, data: Any, *rest: Any) -> Any:
            if isinstance(rest[-1], tuple):
                self.check(rest[-1][0])
            return original(sock, data, *rest)

        return sendto

    def _checked_lookup(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def getaddrinfo(host: Any, *rest: Any, **options: Any) -> Any:
            name = host.decode() if isinstance(host, bytes) else host
            if isinstance(name, str) and name.endswith(".invalid"):  # reserved: never resolves
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            self.check(name)
            return original(host, *rest, **options)

        return getaddrinfo


def is_loopback(host: object) -> bool:
    """Whether a host, as given to the socket functions, is this machine."""
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False
