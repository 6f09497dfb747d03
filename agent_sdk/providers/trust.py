"""Which certificate authorities are trusted: the system's, or those the user names.

Certificates are always verified. The system's store is preferred to a bundle
of our own: it has the authorities of companies, and where it is a folder of
hashed files, it costs nothing until a connection is made.
"""

import re
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agent_sdk.core.errors import ProviderError

_HASHED: Final = re.compile(r"[0-9a-f]{8}\.\d+")


def trusted(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return a context for clients that verifies certificates and host names.

    Args:
        environ: May name authorities in ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``.

    Raises:
        ProviderError: If one of them names nothing that can be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    named = {n: environ[n] for n in ("SSL_CERT_FILE", "SSL_CERT_DIR") if environ.get(n)}
    if named:
        _load_named(context, named)
    elif not _load_system(context):
        import certifi  # noqa: PLC0415 - only where the system has no store

        context.load_verify_locations(cafile=certifi.where())
    return context


def nothing_trusted() -> ssl.SSLContext:
    """Return a context that trusts nobody, for connections without encryption.

    The HTTP library would otherwise load a bundle of authorities for nothing.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _load_named(context: ssl.SSLContext, named: Mapping[str, str]) -> None:
    for variable, value in named.items():
        path = Path(value)
        is_file = variable == "SSL_CERT_FILE"
        if not (path.is_file() if is_file else path.is_dir()):
            raise _unusable(variable, value, "does not exist")
        try:
            if is_file:
                context.load_verify_locations(cafile=value)
            else:
                context.load_verify_locations(capath=value)
        except OSError as error:  # ssl.SSLError is one
            raise _unusable(variable, value, "cannot be read as certificates") from error


def _unusable(variable: str, value: str, what: str) -> ProviderError:
    return ProviderError(
        f"{variable} names {value!r}, which {what}.",
        kind="network",
        hint=f"Correct {variable}, or unset it to trust the system's authorities.",
    )


def _load_system(context: ssl.SSLContext) -> bool:
    """Load the system's authorities; say whether there are any."""
    if sys.platform == "win32":
        context.load_default_certs()
        return True
    paths = ssl.get_default_verify_paths()
    folder = Path(paths.openssl_capath)
    try:
        hashed = any(_HASHED.fullmatch(entry.name) for entry in folder.iterdir())
    except OSError:
        hashed = False
    if hashed:
        context.load_verify_locations(capath=str(folder))
        return True
    if Path(paths.openssl_cafile).is_file():
        context.load_verify_locations(cafile=paths.openssl_cafile)
        return bool(context.cert_store_stats().get("x509_ca"))
    return False
