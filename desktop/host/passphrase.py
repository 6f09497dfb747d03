"""What is taken for a passphrase, and the key that is made from one."""

import asyncio
import unicodedata

from agent_sdk.host import InvalidInput, StorageError, ZpiError
from desktop.bridge.protocol import LEAST_PASSPHRASE, MOST_PASSPHRASE
from desktop.host import vault


class NoMemory(ZpiError):
    """There is not enough memory to make a key from a passphrase."""

    code = "out_of_memory"


def passphrase_bytes(text: str) -> bytes:
    """Return what a key is made from: the same however a keyboard composes characters."""
    return unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass")


def checked_passphrase(text: str) -> bytes:
    """Return what a key is made from.

    Raises:
        InvalidInput: If the passphrase is too short to protect anything, or too long.
    """
    length = len(unicodedata.normalize("NFC", text))
    if length < LEAST_PASSPHRASE:
        raise InvalidInput(
            f"The passphrase has {length} characters; at least {LEAST_PASSPHRASE} are needed.",
            hint="Whoever gets a copy of ZPI's files can try passphrases without limit, and would "
            "soon find a short one. A few unrelated words are long and easy to remember.",
        )
    if length > MOST_PASSPHRASE:
        raise InvalidInput(
            f"The passphrase has {length} characters; {MOST_PASSPHRASE} are the most.",
            hint="Use a shorter one.",
        )
    return passphrase_bytes(text)


async def derived_key(passphrase: bytes, derivation: bytes) -> bytes:
    """Return the wrapping key that a passphrase makes; on a thread, for it takes long.

    Args:
        passphrase: From ``passphrase_bytes``.
        derivation: As it is stored.

    Raises:
        StorageError: If what is stored is no derivation.
        NoMemory: If there is not enough memory for it.
    """
    try:
        how = vault.read_derivation(derivation)
    except vault.Unreadable:
        raise StorageError(
            "What is stored about the passphrase is damaged.",
            hint="Forget the passphrase in the settings, and enter your keys again.",
        ) from None
    try:
        return await asyncio.to_thread(vault.derive, passphrase, how)
    except MemoryError:
        mebibytes = how.cost.memory >> 20
        raise NoMemory(
            f"There is not enough memory: a passphrase takes {mebibytes} MiB for a moment.",
            hint="Close other programs and try again.",
        ) from None
