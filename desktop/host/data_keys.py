"""The keys that credentials are encrypted with, and what opens them.

A data key is opened by a key in the system's key ring or, where there is no
ring and the user wants it, by a passphrase. At most one is opened by a
passphrase, and it is the newest. As soon as it is open and there is a ring,
what opens it goes there, and the passphrase is not needed any more.

A data key is never replaced by itself: if its entry in the ring is gone, what
it encrypted stays, cannot be read, and is to be entered again.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agent_sdk.host import Ids, InvalidInput
from desktop.host import vault
from desktop.host.db.repositories import WrappedKey
from desktop.host.errors import WrongPassphrase
from desktop.host.keystore import KeyStore, KeyStoreError, NoKeyStore, Patience
from desktop.host.passphrase import derived_key

logger = logging.getLogger("zpi.credentials")

Mode: TypeAlias = Literal["keyring", "passphrase", "session", "pending", "locked"]

WRONG_SECONDS = 1.0
"""How long the answer to a wrong passphrase takes besides."""


class KeyRows(Protocol):
    """Where encrypted data keys are kept (``db.repositories.SqlCredentials``)."""

    async def keys(self) -> Sequence[WrappedKey]:
        """Return the data keys, oldest first."""
        ...

    async def add_key(self, key: WrappedKey) -> None:
        """Store another data key."""
        ...

    async def replace_key(self, key: WrappedKey) -> None:
        """Store the data key of that id as it is encrypted now."""
        ...

    async def drop_key(self, key_id: str) -> None:
        """Delete a data key with all credentials that are encrypted with it."""
        ...


class _Draft(Struct, frozen=True):
    """A data key that is not in use yet; kept, so that trying again makes no other."""

    key_id: str
    data_key: bytes
    wrapping_key: bytes


class DataKeys:
    """Opens data keys and makes them. Its caller does one thing at a time.

    Attributes:
        mode: How credentials are kept now, as in ``KeyStoreInfo``.
        why: Why the key ring cannot be used; empty if it can.
        name: What the user knows the key ring by.
        replaced: Whether the ring has taken the passphrase's place.

    Args:
        rows: Where encrypted data keys are kept.
        store: The system's key ring.
        patience: Calls it.
        install_id: Id of this installation.
        ids: Source of ids.
        cost: What a try of a new passphrase costs.
        wrong_seconds: How long the answer to a wrong one takes besides.
    """

    def __init__(
        self,
        *,
        rows: KeyRows,
        store: KeyStore,
        patience: Patience,
        install_id: str,
        ids: Ids,
        cost: vault.Cost,
        wrong_seconds: float,
    ) -> None:
        self.mode: Mode = "pending"
        self.why = ""
        self.name = ""
        self.replaced = False
        self._rows = rows
        self._store = store
        self._patience = patience
        self._install_id = install_id
        self._ids = ids
        self._cost = cost
        self._wrong_seconds = wrong_seconds
        self._opened: dict[str, bytes] = {}
        self._current = ""
        self._protected: WrappedKey | None = None
        self._draft: _Draft | None = None

    @property
    def protected(self) -> str:
        """Id of the data key that the passphrase opens; empty if there is none."""
        return self._protected.key_id if self._protected else ""

    def get(self, key_id: str) -> bytes | None:
        """Return a data key, if it is open."""
        return self._opened.get(key_id)

    def forget_all(self) -> None:
        """Close all of them."""
        self._opened.clear()
        self._draft = None

    # --------------------------------------------------------------- opening

    async def open(self, used: Collection[str]) -> None:
        """Open what the ring opens, and find out how credentials are kept.

        Args:
            used: Ids of the data keys that credentials are encrypted with.

        Raises:
            StorageError: If the database cannot be read or written.
        """
        keys = await self._rows.keys()
        self._protected = next((key for key in keys if key.derivation), None)
        needed = [k for k in keys if k is keys[-1] or k.key_id in used]
        wanted = [k for k in needed if k.key_id not in self._opened and not k.derivation]

        def ask() -> tuple[str, Mapping[str, str | None]]:
            name = self._store.name()
            return name, {key.key_id: self._store.get(_entry(key.key_id)) for key in wanted}

        try:
            self.name, found = await self._patience.call(ask)
            for key in wanted:
                data_key = _unwrapped(key, found[key.key_id], self._install_id)
                if data_key is not None:
                    self._opened[key.key_id] = data_key
            await self._ring_works()
        except KeyStoreError as error:
            self._refused(error)
        self._current = keys[-1].key_id if keys and keys[-1].key_id in self._opened else ""

    async def _ring_works(self) -> None:
        """Put into the ring what the passphrase opened, or wait for the passphrase.

        Raises:
            KeyStoreError: If the ring does not keep it.
        """
        key = self._protected
        if key is not None and key.key_id not in self._opened:
            self.mode, self.why = "locked", ""
            return
        if key is not None:
            draft = _Draft(key.key_id, self._opened[key.key_id], vault.new_key())
            await self._rows.replace_key(await self._in_ring(draft))
            self._protected = None
            self.replaced = True
            logger.info("the key ring opens the stored keys now; no passphrase is needed")
        self.mode, self.why = "keyring", ""

    def _refused(self, error: KeyStoreError) -> None:
        if self._protected is not None:
            self.mode = "passphrase" if self.protected in self._opened else "locked"
        else:
            self.mode = "session" if isinstance(error, NoKeyStore) else "locked"
        self.why = str(error)
        logger.info("the key ring cannot be used: %s", error)

    # ---------------------------------------------------------------- making

    async def current(self) -> str:
        """Return the id of the data key for new credentials; empty if there can be none now.

        Raises:
            StorageError: If the database cannot be written.
        """
        if self.mode not in ("keyring", "passphrase"):
            return ""
        try:
            return self._current or await self._new_in_ring()
        except KeyStoreError as error:
            self._refused(error)
            return ""

    async def _new_in_ring(self) -> str:
        """Make a data key, and put what opens it into the key ring; return its id.

        Raises:
            KeyStoreError: If the key ring does not keep it.
        """
        if self._draft is None:
            self._draft = _Draft(self._ids.new(), vault.new_key(), vault.new_key())
        draft = self._draft
        await self._rows.add_key(await self._in_ring(draft))
        self._opened[draft.key_id] = draft.data_key
        self._current = draft.key_id
        self._draft = None
        return draft.key_id

    async def _in_ring(self, draft: _Draft) -> WrappedKey:
        text = base64.b64encode(draft.wrapping_key).decode()

        def keep() -> str | None:
            self._store.set(_entry(draft.key_id), text)
            return self._store.get(_entry(draft.key_id))

        if await self._patience.call(keep) != text:
            raise NoKeyStore("the system's key ring does not keep what is put into it")
        wrapped = vault.wrap(
            draft.wrapping_key, draft.data_key, install_id=self._install_id, key_id=draft.key_id
        )
        return WrappedKey(draft.key_id, wrapped)

    # ------------------------------------------------------------ passphrase

    async def protect(self, passphrase: bytes) -> None:
        """Make a data key that the passphrase opens.

        Raises:
            InvalidInput: If there is a key ring, or a passphrase already.
            NoMemory: If there is not enough memory for it.
            StorageError: If the database cannot be written.
        """
        if self._protected is not None:
            raise InvalidInput(
                "The stored keys have a passphrase already.", hint="Enter it, or forget it first."
            )
        if self.mode != "session":
            raise InvalidInput(
                "A passphrase is for systems without a key ring, and this one has one.",
                hint="Keys are stored encrypted once the key ring is unlocked.",
            )
        key_id, data_key = self._ids.new(), vault.new_key()
        key = await self._wrapped(key_id, data_key, passphrase)
        await self._rows.add_key(key)
        self._opened[key_id] = data_key
        self._current = key_id
        self._protected = key
        self.mode = "passphrase"

    async def unlock(self, passphrase: bytes) -> None:
        """Open the data key that the passphrase opens; ``open`` must follow.

        Raises:
            InvalidInput: If there is none.
            WrongPassphrase: If it is another passphrase; comes late.
            NoMemory: If there is not enough memory for it.
            StorageError: If what is stored about the passphrase is damaged.
        """
        key = self._required()
        wrapping_key = await derived_key(passphrase, key.derivation)
        try:
            data_key = vault.unwrap(
                wrapping_key,
                key.wrapped,
                install_id=self._install_id,
                key_id=key.key_id,
                derivation=key.derivation,
            )
        except vault.Unreadable:
            await asyncio.sleep(self._wrong_seconds)
            raise WrongPassphrase(
                "The passphrase is not the right one.",
                hint="Try again. If you do not know it any more, forget it in the settings: "
                "the stored keys are deleted then, and you enter them again.",
            ) from None
        self._opened[key.key_id] = data_key

    async def change(self, passphrase: bytes) -> None:
        """Let another passphrase open the data key, which is open.

        Raises:
            InvalidInput: If there is none that a passphrase opens.
            NoMemory: If there is not enough memory for it.
            StorageError: If the database cannot be written.
        """
        key_id = self._required().key_id
        key = await self._wrapped(key_id, self._opened[key_id], passphrase)
        await self._rows.replace_key(key)
        self._protected = key

    async def forget(self) -> str:
        """Delete the passphrase's data key with what it encrypted; ``open`` must follow.

        Returns:
            Its id.

        Raises:
            InvalidInput: If there is none.
            StorageError: If the database cannot be written.
        """
        key_id = self._required().key_id
        await self._rows.drop_key(key_id)
        self._opened.pop(key_id, None)
        self._protected = None
        return key_id

    def _required(self) -> WrappedKey:
        if self._protected is None:
            raise InvalidInput("No stored keys are protected by a passphrase.")
        return self._protected

    async def _wrapped(self, key_id: str, data_key: bytes, passphrase: bytes) -> WrappedKey:
        derivation = vault.new_derivation(self._cost)
        wrapped = vault.wrap(
            await derived_key(passphrase, derivation),
            data_key,
            install_id=self._install_id,
            key_id=key_id,
            derivation=derivation,
        )
        return WrappedKey(key_id, wrapped, derivation)


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
