"""State database, keys and providers put together; loads sqlalchemy and cryptography.

Apart from ``composition`` so that the host can greet the window before it
loads these.
"""

from collections.abc import Callable

from agent_sdk.host import LocalModels
from desktop.host.composition import Surroundings
from desktop.host.credentials import CredentialVault
from desktop.host.db import StateDatabase, open_database
from desktop.host.keystore import SystemKeyRing
from desktop.host.providers import ProviderService

__all__ = ["open_database", "provider_service"]


def provider_service(
    around: Surroundings,
    *,
    database: StateDatabase,
    local: LocalModels,
    on_secret: Callable[[str], None],
) -> ProviderService:
    """Return the providers and models of the installation, not started.

    Args:
        around: What the host finds.
        database: The state database.
        local: The models on this machine.
        on_secret: Called with each key that comes into memory.
    """
    vault = CredentialVault(
        rows=database.credentials,
        store=SystemKeyRing(environ=around.environ),
        install_id=database.install_id,
        ids=around.ids,
        clock=around.clock,
        on_secret=on_secret,
    )
    return ProviderService(
        registry=around.registry,
        environ=around.environ,
        secrets=around.secrets,
        local=local,
        rows=database.providers,
        vault=vault,
    )
