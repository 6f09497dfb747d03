"""The user's keys: encrypted in the database, or in memory, never in clear on disk.

A key belongs to one provider at one origin. It is encrypted with a data key,
which is encrypted with a key that lies in the system's key ring (``vault``,
``keystore``). Where there is no key ring, keys are in memory until the program
ends; where it is locked or does not answer, new keys are, too, until it does.
The user is told by ``state``.

A data key is never replaced by itself: if its entry in the key ring is gone,
what it encrypted stays, cannot be read, and is to be entered again.
"""

import asyncio
import base64
import binascii
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, assert_never

from msgspec import Struct

from agent_sdk.host import Clock, Ids, TaskOwner, ZpiError
from desktop.bridge.messages import KeyStoreInfo
from desktop.host import vault
from desktop.host.db.repositories import SealedRow, WrappedKey
from desktop.host.keystore import (
    LIMIT_SECONDS,
    KeyStore,
    KeyStoreError,
    NoKeyStore,
    Patience,
)

logger = logging.getLogger("zpi.credentials")

Mode: TypeAlias = Literal["keyring", "session", "pending", "locked"]
Where: TypeAlias = tuple[str, str]
"""Provider and origin."""

_TRY_AGAIN_SECONDS = 10.0
_QUICK_SECONDS = 0.5


class CredentialRows(Protocol):
    """Where encrypted credentials are kept (``db.repositories.SqlCredentials``)."""

    async def keys(self) -> Sequence[WrappedKey]:
        """Return the data keys, oldest first."""
        ...

    async def add_key(self, key: WrappedKey) -> None:
        """Store another data key."""
        ...

    async def rows(self) -> Sequence[SealedRow]:
        """Return all credentials."""
        ...

    async def put(
        self, provider: str, origin: str, *, key_id: str, seal: Callable[[SealedRow], bytes]
    ) -> SealedRow:
        """Add or replace a credential, and return it."""
        ...

    async def remove(self, provider: str, *, origin: str | None = None) -> None:
        """Delete the provider's credential of that origin, or all of them."""
        ...


class _Draft(Struct, frozen=True):
    """A data key that is not in use yet; kept, so that trying again makes no other."""

    key_id: str
    data_key: bytes
    wrapping_key: bytes


class CredentialVault:
    """Keeps keys (``ports.Vault``).

    Args:
        rows: Where encrypted credentials are kept.
        store: The system's key ring.
        install_id: Id of this installation.
        ids: Source of ids.
        clock: Source of time.
        on_secret: Called with each key that comes into memory, so that it is
            taken out of logs.
        limit: Seconds to wait for the key ring.
    """

    def __init__(
        self,
        *,
        rows: CredentialRows,
        store: KeyStore,
        install_id: str,
        ids: Ids,
        clock: Clock,
        on_secret: Callable[[str], None],
        limit: float = LIMIT_SECONDS,
    ) -> None:
        self._rows = rows
        self._store = store
        self._install_id = install_id
        self._ids = ids
        self._clock = clock
        self._on_secret = on_secret
        self._patience = Patience(limit=limit, freed=self._on_freed)
        self._tasks = TaskOwner(name="credentials")
        self._lock = asyncio.Lock()
        self._mode: Mode = "pending"
        self._why = ""
        self._name = ""
        self._tried = 0.0
        self._sealed: dict[Where, SealedRow] = {}
        self._data_keys: dict[str, bytes] = {}
        self._current = ""
        self._memory: dict[Where, str] = {}
        self._concealed: set[str] = set()
        self._draft: _Draft | None = None
        self._listeners: list[Callable[[], None]] = []

    # ----------------------------------------------------------------- state

    async def start(self) -> None:
        """Load what is stored and begin to open it; waits for that half a second at most.

        Raises:
            StorageError: If the database cannot be read.
        """
        self._sealed = {(row.provider, row.origin): row for row in await self._rows.rows()}
        opening = self._tasks.start(self.unlock(), name="unlock")
        if self._sealed:
            await asyncio.wait({opening}, timeout=_QUICK_SECONDS)

    async def aclose(self) -> None:
        """Forget all keys; may be called twice."""
        await self._tasks.aclose()
        self._memory.clear()
        self._concealed.clear()
        self._data_keys.clear()
        self._draft = None

    def listen(self, changed: Callable[[], None]) -> None:
        """Call back, on the event loop, when keys can be read that could not, or the reverse."""
        self._listeners.append(changed)

    async def state(self) -> KeyStoreInfo:
        """Return how keys are kept."""
        return self.info()

    def info(self) -> KeyStoreInfo:
        """Return how keys are kept."""
        match self._mode:
            case "pending":
                text = "ZPI is asking the system's key ring."
            case "keyring":
                text = f"Keys are stored encrypted; what opens them is in {self._name}."
            case "session":
                text = f"Keys are kept in memory until ZPI ends: {self._why}."
            case "locked":
                text = (
                    f"The system's key ring cannot be used now: {self._why}. Stored keys cannot "
                    "be read until it is unlocked; new ones are kept in memory."
                )
            case _:
                assert_never(self._mode)
        lost = sorted(
            {provider for provider, origin in self._sealed if self._lost(provider, origin)}
        )
        told = tuple(lost) if self._mode in ("keyring", "session") else ()
        return KeyStoreInfo(mode=self._mode, text=text, unreadable=told)

    def source(self, provider: str, origin: str) -> Literal["none", "stored", "session"]:
        """Return where the key for a provider and an origin is."""
        if (provider, origin) in self._memory:
            return "session"
        if (provider, origin) not in self._sealed:
            return "none"
        if self._mode in ("pending", "locked"):
            return "stored"
        return "none" if self._lost(provider, origin) else "stored"

    def _lost(self, provider: str, origin: str) -> bool:
        return (provider, origin) not in self._memory and self.lookup(provider, origin) is None

    # ------------------------------------------------------------------ keys

    def lookup(self, provider: str, origin: str) -> str | None:
        """Return a key, at once; None if there is none that can be read now."""
        kept = self._memory.get((provider, origin))
        row = self._sealed.get((provider, origin))
        if kept is not None or row is None:
            return kept
        data_key = self._data_keys.get(row.key_id)
        if data_key is None:
            return None
        try:
            secret = vault.unseal(data_key, row.sealed, self._place(row))
        except vault.Unreadable:
            return None
        self.conceal(secret)
        return secret

    def conceal(self, secret: str) -> None:
        """Have a key taken out of logs from now on."""
        if secret not in self._concealed:
            self._concealed.add(secret)
            self._on_secret(secret)

    async def get(self, provider: str, origin: str) -> str | None:
        """Return a key; None if there is none, or the key ring does not answer."""
        found = self.lookup(provider, origin)
        if found is None and (provider, origin) in self._sealed:
            due = self._clock.monotonic() - self._tried > _TRY_AGAIN_SECONDS
            if self._mode == "pending" or (self._mode == "locked" and due):
                await self.unlock()
                found = self.lookup(provider, origin)
        return found

    async def put(self, provider: str, origin: str, key: str) -> None:
        """Keep a key: encrypted if the key ring lets it, and in memory otherwise.

        Raises:
            StorageError: If the database cannot be written; the key is in
                memory then.
        """
        self.conceal(key)
        where = (provider, origin)
        async with self._lock:
            self._memory[where] = key
            old = self._sealed.pop(where, None)
            await self._open()
            await self._store_memory()
            if old is not None and where not in self._sealed:
                # The old one must not come back with the next start.
                await self._rows.remove(provider, origin=origin)
        self._changed()

    async def remove(self, provider: str, *, origin: str | None = None) -> None:
        """Forget the provider's key of that origin, or all of them; at once.

        Raises:
            StorageError: If the database cannot be written.
        """
        for kept in (self._memory, self._sealed):
            for where in [w for w in kept if w[0] == provider and origin in (None, w[1])]:
                del kept[where]
        async with self._lock:
            await self._rows.remove(provider, origin=origin)
        self._changed()

    # --------------------------------------------------------------- opening

    async def unlock(self) -> None:
        """Try to open what is stored, and store what is in memory for want of a key ring.

        Raises:
            StorageError: If the database cannot be read or written.
        """
        async with self._lock:
            await self._open()
            if self._memory:
                await self._store_memory()
        self._changed()

    def _on_freed(self) -> None:
        """The key ring has answered after all: a dialog was closed, for instance."""
        with contextlib.suppress(ZpiError):  # closed meanwhile
            self._tasks.start(self.unlock(), name="unlock")

    async def _open(self) -> None:
        """Get the data keys that are needed, and find out how keys are kept."""
        self._tried = self._clock.monotonic()
        keys = await self._rows.keys()
        used = {row.key_id for row in self._sealed.values()}
        needed = [k for k in keys if k is keys[-1] or k.key_id in used]
        wanted = [k for k in needed if k.key_id not in self._data_keys]

        def ask() -> tuple[str, Mapping[str, str | None]]:
            name = self._store.name()
            return name, {key.key_id: self._store.get(_entry(key.key_id)) for key in wanted}

        try:
            self._name, found = await self._patience.call(ask)
        except KeyStoreError as error:
            self._refused(error)
            return
        self._mode, self._why = "keyring", ""
        for key in wanted:
            data_key = _unwrapped(key, found[key.key_id], self._install_id)
            if data_key is not None:
                self._data_keys[key.key_id] = data_key
        if keys and keys[-1].key_id in self._data_keys:
            self._current = keys[-1].key_id

    def _refused(self, error: KeyStoreError) -> None:
        self._mode = "session" if isinstance(error, NoKeyStore) else "locked"
        self._why = str(error)
        logger.info("the key ring cannot be used: %s", error)

    # --------------------------------------------------------------- storing

    async def _store_memory(self) -> None:
        """Encrypt and store what is in memory, if the key ring lets it."""
        if self._mode != "keyring":
            return
        try:
            key_id = self._current or await self._new_data_key()
        except KeyStoreError as error:
            self._refused(error)
            return
        data_key = self._data_keys[key_id]
        for (provider, origin), key in tuple(self._memory.items()):
            row = await self._rows.put(
                provider,
                origin,
                key_id=key_id,
                seal=self._sealer(data_key, key),
            )
            if self._memory.get((provider, origin)) == key:
                self._sealed[provider, origin] = row
                del self._memory[provider, origin]

    def _sealer(self, data_key: bytes, key: str) -> Callable[[SealedRow], bytes]:
        return lambda row: vault.seal(data_key, key, self._place(row))

    async def _new_data_key(self) -> str:
        """Make a data key, and put what opens it into the key ring; return its id.

        Raises:
            KeyStoreError: If the key ring does not keep it.
        """
        if self._draft is None:
            self._draft = _Draft(self._ids.new(), vault.new_key(), vault.new_key())
        draft = self._draft
        text = base64.b64encode(draft.wrapping_key).decode()

        def keep() -> str | None:
            self._store.set(_entry(draft.key_id), text)
            return self._store.get(_entry(draft.key_id))

        if await self._patience.call(keep) != text:
            raise NoKeyStore("the system's key ring does not keep what is put into it")
        wrapped = vault.wrap(
            draft.wrapping_key, draft.data_key, install_id=self._install_id, key_id=draft.key_id
        )
        await self._rows.add_key(WrappedKey(draft.key_id, wrapped))
        self._data_keys[draft.key_id] = draft.data_key
        self._current = draft.key_id
        self._draft = None
        return draft.key_id

    def _place(self, row: SealedRow) -> vault.Place:
        return vault.Place(
            install_id=self._install_id,
            key_id=row.key_id,
            provider=row.provider,
            origin=row.origin,
            row_id=row.row_id,
            counter=row.counter,
        )

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()


def _entry(key_id: str) -> str:
    return f"kek-{key_id}"


def _unwrapped(key: WrappedKey, wrapping_key: str | None, install_id: str) -> bytes | None:
    """Return the data key; None if what the key ring gave does not open it."""
    if wrapping_key is None:
        return None
    try:
        raw = base64.b64decode(wrapping_key, validate=True)
        return vault.unwrap(raw, key.wrapped, install_id=install_id, key_id=key.key_id)
    except (binascii.Error, ValueError, vault.Unreadable):
        return None
