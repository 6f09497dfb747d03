"""Where requests go, and which key may go there. Pure.

A key is meant for one provider at one origin. ``ZPI_API_KEY`` belongs to
``ZPI_BASE_URL``, ``ANTHROPIC_API_KEY`` to ``ANTHROPIC_BASE_URL`` or, where that
is not set, to Anthropic itself. An address never gets the key of another pair:
whoever can set a base URL must not be able to collect keys with it.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from agent_sdk.core.errors import ConfigurationError
from agent_sdk.providers.models import Api
from agent_sdk.providers.registry import ModelRegistry, ProviderInfo

CUSTOM = "custom"
"""Provider name of a server that is only known by ``ZPI_BASE_URL``."""

PREFIXES = ("ZPI", "ZERONE_AGENT")
"""Prefixes of the general variables, the first wins."""

APIS: tuple[Api, ...] = ("anthropic-messages", "openai-completions", "openai-responses")


class Endpoint(Struct, frozen=True, kw_only=True):
    """An address, and the keys that are meant for it.

    Attributes:
        provider: Name of the provider.
        base_url: Address of the API.
        api: Wire API that replaces the models' own; None leaves theirs.
        origins: Origins that its keys may be sent to.
        key_env: Variables that may hold the key, best first.
        token_env: Variables that may hold a token to be sent as ``Bearer``.
        keyless: Whether it may be used without a key.
        given: Whether the environment gives the address.
    """

    provider: str
    base_url: str
    api: Api | None
    origins: frozenset[str]
    key_env: tuple[str, ...]
    token_env: tuple[str, ...]
    keyless: bool
    given: bool

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables that may hold its credential."""
        return (*self.key_env, *self.token_env)


def secret_variables(registry: ModelRegistry) -> tuple[str, ...]:
    """Return the names of all environment variables that may hold a credential.

    The program takes them out of its own environment when it starts.
    """
    names = [f"{prefix}_{what}" for prefix in PREFIXES for what in ("API_KEY", "AUTH_TOKEN")]
    for provider in registry.providers:
        names += (*provider.api_key_env, *provider.auth_token_env)
    return tuple(dict.fromkeys(names))


def endpoints(
    registry: ModelRegistry, environ: Mapping[str, str], secrets: Iterable[str]
) -> tuple[Endpoint, ...]:
    """Return the endpoints in the order in which they are tried.

    Args:
        registry: The providers.
        environ: The environment.
        secrets: Names of the variables whose secrets were captured.

    Raises:
        ConfigurationError: If an address or an API type in the environment is
            unusable; names the variable.
    """
    held = frozenset(secrets)
    first, last = (_general(prefix, registry, environ, held=held) for prefix in PREFIXES)
    own = [_own(provider, environ) for provider in registry.providers]
    return (*first, *own, *last)


def general(environ: Mapping[str, str], what: str) -> str:
    """Return a general variable (``MODEL``, ``API_TYPE``…), by the first prefix that has it."""
    for prefix in PREFIXES:
        value = environ.get(f"{prefix}_{what}", "").strip()
        if value:
            return value
    return ""


def _general(
    prefix: str, registry: ModelRegistry, environ: Mapping[str, str], *, held: frozenset[str]
) -> tuple[Endpoint, ...]:
    """Return the endpoint of ``ZPI_*`` or ``ZERONE_AGENT_*``, if these say something."""
    keys = (f"{prefix}_API_KEY",)
    tokens = (f"{prefix}_AUTH_TOKEN",)
    url = environ.get(f"{prefix}_BASE_URL", "").strip()
    api = _api(environ.get(f"{prefix}_API_TYPE", "").strip(), f"{prefix}_API_TYPE")
    if not url and held.isdisjoint((*keys, *tokens)):
        return ()
    if url:
        base = checked_url(url, f"{prefix}_BASE_URL")
        provider = _at_origin(registry, base)
        api = api or detect_api(base, provider)
        name = provider.name if provider else CUSTOM
    else:
        name = _meant_provider(registry, environ.get(f"{prefix}_MODEL", "").strip(), api)
        known = registry.provider(name)
        base = known.base_url if known else ""
    return (
        Endpoint(
            provider=name,
            base_url=shorten(base, api),
            api=api,
            origins=frozenset({origin(base)}),
            key_env=keys,
            token_env=tokens,
            keyless=bool(url) and _is_local(base),
            given=bool(url),
        ),
    )


def _own(provider: ProviderInfo, environ: Mapping[str, str]) -> Endpoint:
    """Return the endpoint of a provider's own variables."""
    base = provider.base_url
    origins = {origin(base), *(origin(model.base_url) for model in provider.models)}
    given = False
    for name in provider.base_url_env:
        url = environ.get(name, "").strip()
        if url:
            base = shorten(checked_url(url, name), provider.api)
            origins, given = {origin(base)}, True
            break
    return Endpoint(
        provider=provider.name,
        base_url=base,
        api=None,
        origins=frozenset(origins),
        key_env=provider.api_key_env,
        token_env=provider.auth_token_env,
        keyless=not provider.wants_key or (given and _is_local(base)),
        given=given,
    )


def _meant_provider(registry: ModelRegistry, model: str, api: Api | None) -> str:
    """Return whose key a general key without an address is."""
    found = registry.candidates(model) if model else ()
    if len(found) == 1:
        return found[0].provider
    prefix = model.partition("/")[0]
    if registry.provider(prefix):
        return prefix
    return "openai" if api and api.startswith("openai-") else "anthropic"


def _api(text: str, variable: str) -> Api | None:
    if not text:
        return None
    for api in APIS:
        if text == api:
            return api
    raise ConfigurationError(
        f"{variable} is {text!r}, which is no API type.", hint=f"Known: {', '.join(APIS)}."
    )


def detect_api(url: str, provider: ProviderInfo | None) -> Api | None:
    """Return the wire API that an address shows, if it does."""
    path = urlsplit(url).path.rstrip("/")
    if path.endswith(("/anthropic", "/messages")):
        return "anthropic-messages"
    if path.endswith("/responses"):
        return "openai-responses"
    if provider and url.rstrip("/").startswith(provider.base_url):
        return provider.api
    if path.endswith(("/v1", "/chat/completions")) or "/openai" in path:
        return "openai-completions"
    return provider.api if provider else None


_TAILS: dict[Api, tuple[str, ...]] = {
    "anthropic-messages": ("/messages", "/v1"),
    "openai-completions": ("/chat/completions",),
    "openai-responses": ("/responses",),
    "local": (),
}


def shorten(url: str, api: Api | None) -> str:
    """Return an address without the endpoint's path, which people often leave on."""
    for tail in _TAILS[api] if api else ():
        url = url.removesuffix(tail)
    return url


def checked_url(url: str, variable: str) -> str:
    """Return the address without a trailing slash.

    Raises:
        ConfigurationError: If it is no http(s) address, or holds a user name
            or password.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        named = parts.port is None or parts.port > 0
    except ValueError:
        usable = named = False
        parts = urlsplit("")
    if not usable or not named:
        raise ConfigurationError(
            f"{variable} is no web address.", hint="Write it like https://host.example/v1."
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{variable} must not hold a user name, a password or a query.",
            hint="Put the key into the key's own variable.",
        )
    return url.rstrip("/")


_PORTS = {"http": 80, "https": 443}


def origin(url: str) -> str:
    """Return scheme, host and port of an address; empty for an empty one."""
    if not url:
        return ""
    parts = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme, 0)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def _is_local(url: str) -> bool:
    from agent_sdk.providers.transport import is_local  # noqa: PLC0415 - start-up

    return is_local(url)


def _at_origin(registry: ModelRegistry, url: str) -> ProviderInfo | None:
    there = origin(url)
    for provider in registry.providers:
        if origin(provider.base_url) == there:
            return provider
    return None
