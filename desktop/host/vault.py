"""How credentials are encrypted. Pure: bytes in, bytes out.

Two layers. Each credential is encrypted with the installation's data key, and
the data key with a wrapping key that lies in the system's key ring, so that
the ring holds one short entry however many credentials there are. Where there
is no ring, a wrapping key may be made from a passphrase instead. What a
credential belongs to (installation, provider, origin, row, version) goes into
its authentication: a row that is changed or moved cannot be opened.
"""

import os

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from msgspec import Struct

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_SALT_BYTES = 16
_SEALED = b"zc1"
_WRAPPED = b"zw1"
_WRAPPED_BY_PASSPHRASE = b"zp1"
_MOST_MEMORY = 1 << 30
_MOST_PASSES = 16


class Unreadable(Exception):
    """The text was changed, belongs elsewhere, or was made with another key."""


class Place(Struct, frozen=True, kw_only=True):
    """What a credential belongs to.

    Attributes:
        install_id: The installation.
        key_id: The data key.
        provider: Whose credential it is.
        origin: Where it may be sent.
        row_id: Its row.
        counter: How often the row was written.
    """

    install_id: str
    key_id: str
    provider: str
    origin: str
    row_id: str
    counter: int


class Cost(Struct, frozen=True, kw_only=True):
    """What one try of a passphrase costs: scrypt's numbers, ``128 * n * r`` bytes of memory."""

    n: int = 1 << 17
    r: int = 8
    p: int = 1

    @property
    def memory(self) -> int:
        """Bytes of memory that a try takes."""
        return 128 * self.n * self.r


COST = Cost()
"""128 MiB, and about half a second of one core."""


class Derivation(Struct, frozen=True, kw_only=True):
    """How a wrapping key is made from a passphrase; stored beside what it wraps."""

    salt: bytes
    cost: Cost


def new_key() -> bytes:
    """Return 32 random bytes."""
    return os.urandom(KEY_BYTES)


def new_derivation(cost: Cost) -> bytes:
    """Return a derivation with a salt of its own, encoded."""
    return msgspec.json.encode(Derivation(salt=os.urandom(_SALT_BYTES), cost=cost))


def read_derivation(encoded: bytes) -> Derivation:
    """Return a stored derivation.

    Raises:
        Unreadable: If it is none, or would take more memory or time than any of ours.
    """
    try:
        found = msgspec.json.decode(encoded, type=Derivation)
    except msgspec.DecodeError:
        raise Unreadable from None
    cost = found.cost
    power_of_two = cost.n > 1 and cost.n & (cost.n - 1) == 0
    if not power_of_two or cost.r < 1 or not 1 <= cost.p <= _MOST_PASSES:
        raise Unreadable
    if cost.memory > _MOST_MEMORY:
        raise Unreadable
    return found


def derive(passphrase: bytes, how: Derivation) -> bytes:
    """Return the wrapping key that a passphrase makes; takes long, and ``cost.memory``.

    Raises:
        MemoryError: If there is not so much.
    """
    cost = how.cost
    return Scrypt(salt=how.salt, length=KEY_BYTES, n=cost.n, r=cost.r, p=cost.p).derive(passphrase)


def seal(data_key: bytes, secret: str, place: Place) -> bytes:
    """Return the secret, encrypted for this place."""
    return _encrypt(
        data_key, secret.encode("utf-8", "surrogatepass"), mark=_SEALED, bound=_bound(place)
    )


def unseal(data_key: bytes, sealed: bytes, place: Place) -> str:
    """Return the secret.

    Raises:
        Unreadable: If it was not sealed with this key for this place.
    """
    return _decrypt(data_key, sealed, mark=_SEALED, bound=_bound(place)).decode(
        "utf-8", "surrogatepass"
    )


def wrap(
    wrapping_key: bytes, data_key: bytes, *, install_id: str, key_id: str, derivation: bytes = b""
) -> bytes:
    """Return the data key, encrypted with the wrapping key.

    Args:
        wrapping_key: What encrypts.
        data_key: What is encrypted.
        install_id: The installation.
        key_id: The data key's id.
        derivation: How the wrapping key is made from a passphrase; empty if it is not.
    """
    mark, bound = _wrapping(install_id, key_id, derivation)
    return _encrypt(wrapping_key, data_key, mark=mark, bound=bound)


def unwrap(
    wrapping_key: bytes, wrapped: bytes, *, install_id: str, key_id: str, derivation: bytes = b""
) -> bytes:
    """Return the data key; what is given is as for ``wrap``.

    Raises:
        Unreadable: If it was not wrapped with this key, or for something else.
    """
    mark, bound = _wrapping(install_id, key_id, derivation)
    return _decrypt(wrapping_key, wrapped, mark=mark, bound=bound)


def _wrapping(install_id: str, key_id: str, derivation: bytes) -> tuple[bytes, bytes]:
    """Return the mark of a wrapped key, and what it is bound to."""
    if derivation:
        bound = msgspec.json.encode([install_id, key_id, derivation])
        return _WRAPPED_BY_PASSPHRASE, bound
    return _WRAPPED, msgspec.json.encode([install_id, key_id])


def _bound(place: Place) -> bytes:
    # JSON, so that no two places have the same bytes.
    return msgspec.json.encode(msgspec.structs.astuple(place))


def _encrypt(key: bytes, text: bytes, *, mark: bytes, bound: bytes) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return mark + nonce + AESGCM(key).encrypt(nonce, text, mark + bound)


def _decrypt(key: bytes, data: bytes, *, mark: bytes, bound: bytes) -> bytes:
    start = len(mark)
    if not data.startswith(mark) or len(data) < start + _NONCE_BYTES + _TAG_BYTES:
        raise Unreadable
    if len(key) != KEY_BYTES:
        raise Unreadable
    nonce = data[start : start + _NONCE_BYTES]
    try:
        return AESGCM(key).decrypt(nonce, data[start + _NONCE_BYTES :], mark + bound)
    except InvalidTag:
        raise Unreadable from None
