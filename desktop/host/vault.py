"""How credentials are encrypted. Pure: bytes in, bytes out.

Two layers. Each credential is encrypted with the installation's data key, and
the data key with a wrapping key that lies in the system's key ring, so that
the ring holds one short entry however many credentials there are. What a
credential belongs to (installation, provider, origin, row, version) goes into
its authentication: a row that is changed or moved cannot be opened.
"""

import os

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_SEALED = b"zc1"
_WRAPPED = b"zw1"


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


def new_key() -> bytes:
    """Return 32 random bytes."""
    return os.urandom(KEY_BYTES)


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


def wrap(wrapping_key: bytes, data_key: bytes, *, install_id: str, key_id: str) -> bytes:
    """Return the data key, encrypted with the wrapping key."""
    bound = msgspec.json.encode([install_id, key_id])
    return _encrypt(wrapping_key, data_key, mark=_WRAPPED, bound=bound)


def unwrap(wrapping_key: bytes, wrapped: bytes, *, install_id: str, key_id: str) -> bytes:
    """Return the data key.

    Raises:
        Unreadable: If it was not wrapped with this key, or for something else.
    """
    bound = msgspec.json.encode([install_id, key_id])
    return _decrypt(wrapping_key, wrapped, mark=_WRAPPED, bound=bound)


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
