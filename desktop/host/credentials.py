"""The user's keys: encrypted in the database, or in memory, never in clear on disk.

A key belongs to one provider at one origin. It is encrypted with a data key,
which is encrypted with a key that lies in the system's key ring (``vault``,
``data_keys``, ``keystore``). Where there is no key ring, keys are in memory
until the program ends, or the user protects them with a passphrase; where it
is locked or does not answer, new keys are in memory, too, until it does. The
user is told by ``state``.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, assert_never

from agent_sdk.host import Clock, Ids, TaskOwner, ZpiError
from desktop.bridge.messages import KeyStoreInfo
from desktop.host import vault
from desktop.host.data_keys import WRONG_SECONDS, DataKeys, KeyRows
from desktop.host.db.repositories import SealedRow
from desktop.host.keystore import LIMIT_SECONDS, KeyStore, Patience
from desktop.host.passphrase import checked_passphrase, passphrase_bytes

Where: TypeAlias = tuple[str, str]
"""Provider and origin."""

_TRY_AGAIN_SECONDS = 10.0
_QUICK_SECONDS = 0.5


class CredentialRows(KeyRows, Protocol):
    """Where encrypted credentials are kept (``db.repositories.SqlCredentials``)."""

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
        cost: What a try of a passphrase costs that is set from now on.
        wrong_seconds: How long the answer to a wrong one takes besides.
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
        cost: vault.Cost = vault.COST,
        wrong_seconds: float = WRONG_SECONDS,
    ) -> None:
        self._rows = rows
        self._install_id = install_id
        self._clock = clock
        self._on_secret = on_secret
        self._keys = DataKeys(
            rows=rows,
            store=store,
            patience=Patience(limit=limit, freed=self._on_freed),
            install_id=install_id,
            ids=ids,
            cost=cost,
            wrong_seconds=wrong_seconds,
        )
        self._tasks = TaskOwner(name="credentials")
        self._lock = asyncio.Lock()
        self._tried = 0.0
        self._sealed: dict[Where, SealedRow] = {}
        self._memory: dict[Where, str] = {}
        self._concealed: set[str] = set()
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
        self._keys.forget_all()

    def listen(self, changed: Callable[[], None]) -> None:
        """Call back, on the event loop, when keys can be read that could not, or the reverse."""
        self._listeners.append(changed)

    async def state(self) -> KeyStoreInfo:
        """Return how keys are kept."""
        return self.info()

    def info(self) -> KeyStoreInfo:
        """Return how keys are kept."""
        known = self._keys.mode not in ("pending", "locked")
        lost = sorted({where[0] for where in self._sealed if known and self._lost(*where)})
        return KeyStoreInfo(
            mode=self._keys.mode,
            locked_by="passphrase" if self._keys.protected else "keyring",
            replaced=self._keys.replaced,
            text=_told(self._keys),
            unreadable=tuple(lost),
        )

    def source(self, provider: str, origin: str) -> Literal["none", "stored", "session"]:
        """Return where the key for a provider and an origin is."""
        if (provider, origin) in self._memory:
            return "session"
        if (provider, origin) not in self._sealed:
            return "none"
        if self._keys.mode in ("pending", "locked"):
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
        data_key = self._keys.get(row.key_id)
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
            # Nobody but the user opens what a passphrase protects.
            locked = self._keys.mode == "locked" and not self._keys.protected
            if self._keys.mode == "pending" or (locked and due):
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
            await self._store_memory()
        self._changed()

    def _on_freed(self) -> None:
        """The key ring has answered after all: a dialog was closed, for instance."""
        with contextlib.suppress(ZpiError):  # closed meanwhile
            self._tasks.start(self.unlock(), name="unlock")

    async def _open(self) -> None:
        """Get the data keys that are needed, and find out how keys are kept."""
        self._tried = self._clock.monotonic()
        await self._keys.open({row.key_id for row in self._sealed.values()})

    # ------------------------------------------------------------ passphrase

    async def set_passphrase(self, passphrase: str, *, old: str | None = None) -> None:
        """Store what is in memory, encrypted with a passphrase; or replace the old one.

        With a key ring there is none to be replaced any more, and that is no error.

        Raises:
            InvalidInput: If it is too short or long, there is a key ring or a
                passphrase, or there is none to be replaced.
            WrongPassphrase: If the old one is not it; comes late.
            NoMemory: If there is not enough memory for it.
            StorageError: If the database cannot be read or written.
        """
        self.conceal(passphrase)
        self.conceal(old or "")
        made_of = checked_passphrase(passphrase)
        async with self._lock:
            if old is not None:
                await self._keys.unlock(passphrase_bytes(old))
            await self._open()
            await self._store_memory()  # a key ring that keeps nothing is found out now
            if old is None:
                await self._keys.protect(made_of)
            elif self._keys.protected:
                await self._keys.change(made_of)
            await self._store_memory()
        self._changed()

    async def unlock_with(self, passphrase: str) -> None:
        """Open what a passphrase protects, and store what is in memory.

        Raises:
            InvalidInput: If no passphrase protects anything.
            WrongPassphrase: If it is another one; comes late.
            NoMemory: If there is not enough memory for it.
            StorageError: If the database cannot be read or written.
        """
        self.conceal(passphrase)
        async with self._lock:
            await self._keys.unlock(passphrase_bytes(passphrase))
            await self._open()
            await self._store_memory()
        self._changed()

    async def forget_passphrase(self) -> None:
        """Delete the stored keys that a passphrase protects.

        Raises:
            InvalidInput: If none does.
            StorageError: If the database cannot be written.
        """
        async with self._lock:
            key_id = await self._keys.forget()
            self._sealed = {w: row for w, row in self._sealed.items() if row.key_id != key_id}
            await self._open()
            await self._store_memory()
        self._changed()

    # --------------------------------------------------------------- storing

    async def _store_memory(self) -> None:
        """Encrypt and store what is in memory, if that can be done now."""
        if not self._memory:
            return
        key_id = await self._keys.current()
        data_key = self._keys.get(key_id)
        if data_key is None:
            return
        for (provider, origin), key in tuple(self._memory.items()):
            seal = self._sealer(data_key, key)
            row = await self._rows.put(provider, origin, key_id=key_id, seal=seal)
            if self._memory.get((provider, origin)) == key:
                self._sealed[provider, origin] = row
                del self._memory[provider, origin]

    def _sealer(self, data_key: bytes, key: str) -> Callable[[SealedRow], bytes]:
        return lambda row: vault.seal(data_key, key, self._place(row))

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


def _told(keys: DataKeys) -> str:
    """Return how keys are kept, as the user is told."""
    match keys.mode:
        case "pending":
            return "ZPI is asking the system's key ring."
        case "keyring":
            more = " The passphrase is not needed any more." if keys.replaced else ""
            return f"Keys are stored encrypted; what opens them is in {keys.name}.{more}"
        case "passphrase":
            return "Keys are stored encrypted; the passphrase opens them."
        case "session":
            return f"Keys are kept in memory until ZPI ends: {keys.why}."
        case "locked" if keys.protected:
            return (
                "Stored keys cannot be read until their passphrase is entered; "
                "new ones are kept in memory until then."
            )
        case "locked":
            return (
                f"The system's key ring cannot be used now: {keys.why}. Stored keys cannot "
                "be read until it is unlocked; new ones are kept in memory."
            )
        case _:
            assert_never(keys.mode)
