"""Which key goes with which model. Reads secrets at every request, keeps none."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.errors import CredentialMissing
from agent_sdk.providers.endpoints import Endpoint, origin
from agent_sdk.providers.models import Model

StoredKeys: TypeAlias = Callable[[str, str], str | None]
"""Returns the key that the user stored for a provider and an origin, if any; does no I/O."""


class Credential(Struct, frozen=True):
    """A key for one request; its ``repr`` does not show it.

    Attributes:
        key: The key; empty for a server that wants none.
        bearer: Whether it is a token that is sent as ``Bearer``.
    """

    key: str
    bearer: bool = False

    @override
    def __repr__(self) -> str:
        return f"Credential({'***' if self.key else ''!r}, bearer={self.bearer})"


class Credentials:
    """The captured secrets, each tied to the endpoints that it is meant for.

    A key that the user stored goes before one from the environment.
    """

    def __init__(
        self,
        *,
        endpoints: Iterable[Endpoint],
        secrets: Mapping[str, str],
        stored: StoredKeys | None = None,
    ) -> None:
        self._endpoints = tuple(endpoints)
        self._secrets = secrets
        self._stored = stored

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All endpoints, in the order in which they are tried."""
        return self._endpoints

    def held(self, endpoint: Endpoint) -> Credential | None:
        """Return the key that is meant for the endpoint, if there is one now."""
        found = self._kept(endpoint.provider, endpoint.base_url)
        return found or self._captured(endpoint)

    def _kept(self, provider: str, url: str) -> Credential | None:
        """Return the key that was stored for exactly this provider and origin."""
        value = self._stored(provider, origin(url)) if self._stored and url else None
        return Credential(value) if value else None

    def _captured(self, endpoint: Endpoint) -> Credential | None:
        for names, bearer in ((endpoint.key_env, False), (endpoint.token_env, True)):
            for name in names:
                value = self._secrets.get(name, "").strip()
                if value:
                    return Credential(value, bearer)
        return None

    def usable(self, endpoint: Endpoint) -> bool:
        """Return whether the endpoint has a key, or needs none."""
        return endpoint.keyless or self.held(endpoint) is not None

    def find(self, model: Model) -> Credential | None:
        """Return the credential for the model's provider and origin.

        Returns:
            None if one is needed and there is none that is meant for both.
        """
        kept = self._kept(model.provider, model.base_url)
        if kept:
            return kept
        keyless = False
        for endpoint in self._fitting(model):
            found = self._captured(endpoint)
            if found:
                return found
            keyless = keyless or endpoint.keyless
        return Credential("") if keyless else None

    def place(self, model: Model) -> Model:
        """Return the model with the address and API of its provider's best endpoint."""
        own = [e for e in self._endpoints if e.provider == model.provider]
        endpoint = next(filter(self.usable, own), own[0] if own else None)
        if endpoint is None:
            return model
        base = endpoint.base_url if endpoint.given else model.base_url
        api = endpoint.api or model.api
        return self.marked(msgspec.structs.replace(model, api=api, base_url=base), endpoint)

    def marked(self, model: Model, endpoint: Endpoint) -> Model:
        """Tell the adapter how the credential is sent, where there are two ways."""
        found = self.held(endpoint)
        if model.api != "anthropic-messages" or not found or not found.bearer:
            return model
        return msgspec.structs.replace(model, compat={**model.compat, "auth": "bearer"})

    def missing(self, model: Model) -> CredentialMissing:
        """Return the error for a model without a key; it names the variables to set."""
        own = [e for e in self._endpoints if e.provider == model.provider]
        names = dict.fromkeys(n for e in self._fitting(model) or own for n in e.variables)
        return CredentialMissing(
            f"There is no key for {model.provider!r} at {model.base_url!r}.",
            hint=f"Set {' or '.join(names)}." if names else "Set up the provider again.",
        )

    def _fitting(self, model: Model) -> list[Endpoint]:
        there = origin(model.base_url)
        return [e for e in self._endpoints if e.provider == model.provider and there in e.origins]
