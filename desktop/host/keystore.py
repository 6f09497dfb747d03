"""The system's key ring, and how it is called without waiting for it for ever.

Only key rings of the operating system are used: macOS Keychain, Windows
Credential Manager, Secret Service, KWallet. ``keyring`` would also take
plug-ins, keep secrets in a plain file, or in none; so its choice is not asked
for, and what the user configured for it counts only as far as it names one of
these. All of it may hang (a dialog that nobody sees), hence ``Patience``.
"""

import asyncio
import configparser
import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

T = TypeVar("T")

SERVICE = "zpi"
LIMIT_SECONDS = 4.0

_BACKENDS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "darwin": (("keyring.backends.macOS", "Keyring", "the macOS Keychain"),),
    "win32": (("keyring.backends.Windows", "WinVaultKeyring", "Windows Credential Manager"),),
}
_OTHER_BACKENDS = (
    ("keyring.backends.SecretService", "Keyring", "the Secret Service key ring"),
    ("keyring.backends.kwallet", "DBusKeyring", "KWallet"),
    ("keyring.backends.kwallet", "DBusKeyringKWallet4", "KWallet"),
)
_LEAST_PRIORITY = 1


class KeyStoreError(Exception):
    """The key store cannot be used; the text says why, and holds no secret."""


class NoKeyStore(KeyStoreError):
    """There is none that could be used."""


class KeyStoreLocked(KeyStoreError):
    """There is one, but it is locked or does not answer."""


class KeyStore(Protocol):
    """Keeps a few short secrets. Every method may block for long.

    All raise ``NoKeyStore`` or ``KeyStoreLocked``.
    """

    def name(self) -> str:
        """Return what the user knows it by; finds out whether there is one."""
        ...

    def get(self, entry: str) -> str | None:
        """Return the secret of that name, if there is one."""
        ...

    def set(self, entry: str, secret: str) -> None:
        """Keep a secret. Whether it is really kept is for the caller to see."""
        ...


class SystemKeyRing:
    """The operating system's key ring.

    Args:
        environ: May name a backend in ``PYTHON_KEYRING_BACKEND``.
        platform: As ``sys.platform``.
    """

    def __init__(self, *, environ: Mapping[str, str], platform: str = sys.platform) -> None:
        self._environ = environ
        self._platform = platform
        self._found: tuple[KeyringBackend, str] | None = None

    def name(self) -> str:
        """Return what the user knows it by."""
        return self._backend()[1]

    def get(self, entry: str) -> str | None:
        """Return the secret of that name, if there is one."""
        backend, _ = self._backend()
        return _guarded(lambda: backend.get_password(SERVICE, entry))

    def set(self, entry: str, secret: str) -> None:
        """Keep a secret."""
        backend, _ = self._backend()
        _guarded(lambda: backend.set_password(SERVICE, entry, secret))

    def _backend(self) -> "tuple[KeyringBackend, str]":
        if self._found is None:
            self._found = self._find()
        return self._found

    def _find(self) -> "tuple[KeyringBackend, str]":
        """Return the best key ring of this system that works here.

        Raises:
            NoKeyStore: If none does.
        """
        allowed = _BACKENDS.get(self._platform, _OTHER_BACKENDS)
        wanted = configured_backend(self._environ)
        if wanted:
            allowed = tuple(one for one in allowed if f"{one[0]}.{one[1]}" == wanted)
            if not allowed:
                raise NoKeyStore(f"the key ring that is configured, {wanted!r}, is not a safe one")
        found = [one for one in map(_usable, allowed) if one]
        if not found:
            raise NoKeyStore("this system has no key ring that works")
        _, backend, title = max(found, key=lambda one: one[0])
        return backend, title


def _usable(one: tuple[str, str, str]) -> "tuple[float, KeyringBackend, str] | None":
    """Return a backend with its priority, if it works here."""
    module, name, title = one

    def make() -> "tuple[float, KeyringBackend]":
        kind = getattr(importlib.import_module(module), name)
        return float(kind.priority), kind()

    outcome = _outcome(make)
    if outcome.exception() is not None:
        return None  # whatever it raises, it is not usable here
    priority, backend = outcome.result()
    return (priority, backend, title) if priority >= _LEAST_PRIORITY else None


def configured_backend(environ: Mapping[str, str]) -> str:
    """Return the backend that the user configured for ``keyring``; empty if none.

    Nothing of it is loaded.
    """
    named = environ.get("PYTHON_KEYRING_BACKEND", "").strip()
    if named:
        return named
    root = importlib.import_module("keyring.util.platform_").config_root()
    config = configparser.RawConfigParser()
    try:
        config.read(Path(root) / "keyringrc.cfg", encoding="utf-8")
        return config.get("backend", "default-keyring", fallback="").strip()
    except (configparser.Error, OSError, UnicodeDecodeError):
        return ""


def _guarded(work: Callable[[], T]) -> T:
    """Do the work; its failures become ours. Their texts are not passed on."""
    outcome = _outcome(work)
    error = outcome.exception()
    if error is None:
        return outcome.result()
    # Loaded with the backend, on this thread only: it takes long.
    errors = importlib.import_module("keyring.errors")
    if isinstance(error, errors.NoKeyringError):
        raise NoKeyStore("this system has no key ring that works") from None
    raise KeyStoreLocked(f"it is locked or out of order ({type(error).__name__})") from error


class Patience:
    """Calls what may hang: on a thread, one call at a time, for so long and no longer.

    A call that was given up goes on; while it does, no other is made. A thread
    that hangs does not keep the program from ending.

    Args:
        limit: Seconds to wait for a call.
        freed: Called on the event loop when a call that was given up has ended.
    """

    def __init__(self, *, limit: float, freed: Callable[[], None]) -> None:
        self._limit = limit
        self._freed = freed
        self._busy = False

    async def call(self, work: Callable[[], T]) -> T:
        """Return the work's result, or raise its error.

        Raises:
            KeyStoreLocked: If it takes too long, or an earlier call still does.
        """
        if self._busy:
            raise KeyStoreLocked("it does not answer")
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        given_up = False

        def settle(outcome: Future[T]) -> None:
            self._busy = False
            if given_up or result.cancelled():
                self._freed()
                return
            error = outcome.exception()
            if error is None:
                result.set_result(outcome.result())
            else:
                result.set_exception(error)

        def run() -> None:
            outcome = _outcome(work)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(settle, outcome)

        self._busy = True
        threading.Thread(target=run, name="zpi-keystore", daemon=True).start()
        try:
            done, _ = await asyncio.wait({result}, timeout=self._limit)
        except asyncio.CancelledError:
            given_up = True
            raise
        if not done:
            given_up = True
            raise KeyStoreLocked(f"it has not answered for {self._limit:g} seconds")
        return result.result()


def _outcome(work: Callable[[], T]) -> "Future[T]":
    """Do the work; return its result or its error."""
    outcome: Future[T] = Future()
    try:
        outcome.set_result(work())
    except Exception as error:  # noqa: BLE001 - backends raise what their bus raises
        outcome.set_exception(error)
    return outcome
