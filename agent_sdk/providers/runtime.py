"""From names and an environment to a model that can be asked.

The runtime reads no environment by itself: it is given one, and the secrets
that the program took out of its own. A credential is looked up for every
request, so that taking it away works at once, and is handed out only for the
origin that it is meant for (see ``endpoints``).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias, assert_never

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import ConfigurationError, CredentialMissing, ModelNotFound
from agent_sdk.providers.base import Adapter, Provider
from agent_sdk.providers.credentials import Credential, Credentials, StoredKeys
from agent_sdk.providers.endpoints import (
    CUSTOM,
    Endpoint,
    detect_api,
    endpoints,
    general,
    secret_variables,
    shorten,
)
from agent_sdk.providers.models import Api, Model
from agent_sdk.providers.registry import ModelRegistry

How: TypeAlias = Literal["explicit", "recorded", "environment", "settings", "first_available"]


class ModelChoice(Struct, frozen=True):
    """The model to use, and what decided it."""

    model: Model
    how: How


class NothingAvailable(Struct, frozen=True):
    """No model is named anywhere and no provider has a credential.

    The caller may look for a local server or offer the embedded model.

    Attributes:
        variables: The environment variables of which one would be enough.
    """

    variables: tuple[str, ...]

    @property
    def hint(self) -> str:
        """What the user can do."""
        return f"Set one of {', '.join(self.variables)}."


class ModelRuntime:
    """Chooses models, fetches credentials and makes providers."""

    def __init__(
        self,
        *,
        registry: ModelRegistry,
        environ: Mapping[str, str],
        secrets: Mapping[str, str],
        stored: StoredKeys | None = None,
        local: Callable[[Model], Provider] | None = None,
    ) -> None:
        """Create a runtime.

        Args:
            registry: The models that are known by name.
            environ: The environment. ``ZPI_USE_PROXY=1`` lets requests follow
                ``HTTPS_PROXY`` and its like; whoever is named there sees them.
            secrets: Values of the variables that ``secret_variables`` names, as
                far as they are set; read at every request.
            stored: Looks up keys that the user stored, each for one provider and
                origin; asked at every request, and before ``secrets``.
            local: Makes the provider of a model whose API is ``local``.

        Raises:
            ConfigurationError: If an address or an API type in the environment
                cannot be used.
        """
        self._registry = registry
        self._local = local
        self._environ = environ
        self._use_proxy = environ.get("ZPI_USE_PROXY", "") not in ("", "0")
        self._model_name = general(environ, "MODEL")
        held = [name for name, value in secrets.items() if value.strip()]
        self._credentials = Credentials(
            endpoints=endpoints(registry, environ, held), secrets=secrets, stored=stored
        )
        self._offered: dict[str, Model] = {}

    # ------------------------------------------------------------- choosing

    def offer(self, models: Iterable[Model]) -> None:
        """Add models that were found at run time, on a local server for instance.

        They need no credential and can be named like any other.
        """
        for model in models:
            self._offered[model.key] = model

    def choose(
        self,
        *,
        explicit: str | None = None,
        recorded: str | None = None,
        configured: str | None = None,
        api: Api | None = None,
    ) -> ModelChoice | NothingAvailable:
        """Return the model to use.

        The order is: named explicitly, recorded in the session, named by the
        environment (``ZPI_MODEL``), by the settings, and, only where nothing
        names one, the first model that has a credential.

        Args:
            explicit: Name given by the user for this run.
            recorded: ``provider/id`` from the session.
            configured: Name from the settings.
            api: Wire API to use instead of the model's own.

        Raises:
            ModelNotFound: If a named model is unknown, or the recorded one is
                not available any more.
            CredentialMissing: If a named model needs a key and there is none.
            ConfigurationError: If the environment gives a server but no model.
        """
        named: tuple[tuple[str | None, How], ...] = (
            (explicit, "explicit"),
            (recorded, "recorded"),
            (self._model_name, "environment"),
            (configured, "settings"),
        )
        for name, how in named:
            if not name:
                continue
            if how == "recorded":
                return ModelChoice(_with_api(self._recorded(name), api), how)
            return ModelChoice(self._ready(self.resolve(name, api=api)), how)
        model = self._first_available()
        if model is None:
            return NothingAvailable(secret_variables(self._registry))
        return ModelChoice(_with_api(model, api), "first_available")

    def resolve(self, name: str, *, api: Api | None = None) -> Model:
        """Return the model of that name as it would be asked, key or no key.

        Where ``ZPI_BASE_URL`` gives a server of its own, every name is taken
        to be one of that server's; what the table knows about it is used.

        Args:
            name: ``provider/id``, id or short name.
            api: Wire API to use instead of the model's own.

        Raises:
            ModelNotFound: If no model is called so and no server is given that
                could know it.
        """
        for model in self._offered.values():
            if name in (model.key, model.id):
                return _with_api(model, api)
        first = self._credentials.endpoints[:1]
        if first and first[0].given and first[0].provider == CUSTOM:
            return _with_api(self._on_custom(name, first[0]), api)
        return _with_api(self._by_table(name) or self._as_named(name), api)

    def available(self) -> tuple[tuple[Model, bool], ...]:
        """Return all known models, and whether each could be asked now."""
        table = map(self._credentials.place, self._registry.models)
        return (
            *((model, True) for model in self._offered.values()),
            *((model, self._credentials.find(model) is not None) for model in table),
        )

    def credential(self, model: Model) -> Credential:
        """Return the credential for one request to the model.

        Raises:
            CredentialMissing: If it needs one and there is none that is meant
                for its provider and address; names the variables to set.
        """
        if model.key in self._offered:
            return Credential("")
        found = self._credentials.find(model)
        if found is None:
            raise self._credentials.missing(model)
        return found

    def _ready(self, model: Model) -> Model:
        self.credential(model)
        return model

    def _recorded(self, name: str) -> Model:
        """Return the recorded model: the same provider and id, or an error."""
        other = "Or name another model with --model."
        model = self._offered.get(name) or self._qualified(name)
        if model is None:
            raise ModelNotFound(
                f"The session used {name!r}, which is not available now.",
                hint=f"Set it up again. {other}",
            )
        try:
            return self._ready(model)
        except CredentialMissing as error:
            raise CredentialMissing(
                f"The session used {name!r}, for which there is no key now.",
                hint=f"{error.hint} {other}",
            ) from None

    def _first_available(self) -> Model | None:
        for endpoint in self._credentials.endpoints:
            if endpoint.given and endpoint.provider == CUSTOM:
                raise ConfigurationError(
                    f"A server is given ({endpoint.base_url}), but no model.",
                    hint="Set ZPI_MODEL, or name one with --model.",
                )
            provider = self._registry.provider(endpoint.provider)
            named = not endpoint.given or self._credentials.held(endpoint) is not None
            if provider and provider.models and named:
                model = self._credentials.place(provider.models[0])
                if self._credentials.find(model) is not None:
                    return model
        return next(iter(self._offered.values()), None)

    # -------------------------------------------------------------- placing

    def _by_table(self, name: str) -> Model | None:
        """Return the model that the table knows, at the provider that has a key."""
        found = [self._credentials.place(model) for model in self._registry.candidates(name)]
        usable = [model for model in found if self._credentials.find(model) is not None]
        if len(usable) == 1 or len(found) == 1:
            return (usable or found)[0]
        return None

    def _as_named(self, name: str) -> Model:
        """Return a model that the table does not know, where somebody else may."""
        if not self._registry.candidates(name):
            qualified = self._qualified(name)
            if qualified:
                return qualified
            for endpoint in self._credentials.endpoints:
                if endpoint.given and self._credentials.usable(endpoint):
                    return self._unknown(endpoint.provider, name, endpoint)
        return self._registry.find(name)  # raises: unknown, or several

    def _qualified(self, name: str) -> Model | None:
        """Return the model for ``provider/id``; the table cannot know every id."""
        provider, _, rest = name.partition("/")
        if provider == CUSTOM and rest:
            for endpoint in self._credentials.endpoints:
                if endpoint.provider == CUSTOM:
                    return self._on_custom(rest, endpoint)
            return None
        info = self._registry.provider(provider)
        if not info or not rest:
            return None
        for model in info.models:
            if model.id == rest:
                return self._credentials.place(model)
        return self._credentials.place(
            Model(
                id=rest,
                provider=provider,
                api=info.api,
                base_url=info.base_url,
                known=False,
                compat=info.compat,
            )
        )

    def _unknown(self, provider: str, name: str, endpoint: Endpoint) -> Model:
        if provider == CUSTOM:
            return self._on_custom(name, endpoint)
        model = self._qualified(f"{provider}/{name}")
        return model or self._on_custom(name, endpoint)

    def _on_custom(self, name: str, endpoint: Endpoint) -> Model:
        """Return a model of a server that only its address describes."""
        name = name.removeprefix(f"{CUSTOM}/")
        found = self._registry.candidates(name)
        known = found[0] if len({model.id for model in found}) == 1 else None
        api = endpoint.api or (known.api if known else None)
        api = api or detect_api(endpoint.base_url, None) or "anthropic-messages"
        base_url = shorten(endpoint.base_url, api)
        if known:
            # A short name is ours, a dated one may be the only one that the server knows.
            ours = "/" not in name and not any(char.isdigit() for char in name)
            model = msgspec.structs.replace(
                known,
                id=known.id if ours else name,
                provider=CUSTOM,
                api=api,
                base_url=base_url,
                compat={},
            )
        else:
            model = Model(id=name, provider=CUSTOM, api=api, base_url=base_url, known=False)
        return self._credentials.marked(model, endpoint)

    # ------------------------------------------------------------ providers

    def create_provider(self, model: Model) -> Provider:
        """Return a connection for one session; the caller closes it.

        Raises:
            ConfigurationError: If the model is a local one and this runtime
                cannot run any.
        """
        if model.api == "local":
            if self._local is None:
                raise ConfigurationError(
                    f"{model.key!r} is a local model, and none can be run here.",
                    hint="Install ZPI with its extra 'local'.",
                )
            return self._local(model)
        from agent_sdk.providers.http_provider import HttpProvider  # noqa: PLC0415 - start-up
        from agent_sdk.providers.transport import HttpTransport  # noqa: PLC0415 - start-up

        info = self._registry.provider(model.provider)
        return HttpProvider(
            adapter=create_adapter(model.api),
            credential=lambda: self.credential(model).key,
            headers=dict(info.headers) if info else {},
            transport=HttpTransport(environ=self._environ, trust_env=self._use_proxy),
        )


def create_adapter(api: Api) -> Adapter:
    """Return a fresh adapter for a wire API; loads only the module of that one.

    Raises:
        ConfigurationError: For ``local``, which has no adapter.
    """
    match api:
        case "anthropic-messages":
            from agent_sdk.providers.anthropic import AnthropicAdapter  # noqa: PLC0415 - start-up

            return AnthropicAdapter()
        case "openai-completions":
            from agent_sdk.providers.openai_chat import OpenAIChatAdapter  # noqa: PLC0415 - start-up

            return OpenAIChatAdapter()
        case "openai-responses":
            from agent_sdk.providers.openai_responses import (  # noqa: PLC0415 - start-up
                OpenAIResponsesAdapter,
            )

            return OpenAIResponsesAdapter()
        case "local":
            raise ConfigurationError("Local models are not reached over the network.")
        case _:
            assert_never(api)


def _with_api(model: Model, api: Api | None) -> Model:
    return msgspec.structs.replace(model, api=api) if api else model
