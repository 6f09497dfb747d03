"""The table of models: what ships with ZPI, and the user's file laid over it.

Both have one form: ``{"providers": {name: {base_url, api, models: [...]}}}``.
``models.json`` in this package holds well-known models; where a provider asks
more beyond some length of prompt, the context window is what fits below it,
so that the price holds. ``models.json`` in the agent directory adds providers
and models, or changes single fields of those that ship. Keys are not written
there: a file says only which environment variables hold them.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import InvalidInput, ModelNotFound
from agent_sdk.core.strictjson import convert_strict, damaged, decode_strict, read_json_file
from agent_sdk.core.usage import Prices
from agent_sdk.providers.models import THINKING_LEVELS, Api, Model

TABLE = Path(__file__).with_name("models.json")

RemoteApi = Literal["anthropic-messages", "openai-completions", "openai-responses"]


class ModelEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model in a table; fields as in ``Model``, and its short names."""

    id: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    context_window: int = 128_000
    max_output: int = 16_384
    modalities: tuple[str, ...] = ()
    thinking: dict[str, str] = {}
    thinking_style: Literal["", "effort", "budget", "adaptive"] = ""
    prices: Prices = Prices()
    api: RemoteApi | None = None
    base_url: str = ""
    compat: dict[str, bool | str | int] = {}


class ProviderEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider in a table.

    Attributes:
        base_url: Address of the API, without the path of the endpoint.
        api: Wire API of its models.
        title: Name to show.
        api_key_env: Environment variables that may hold its key, best first;
            empty for a server that wants none.
        auth_token_env: The same for a token that is sent as ``Bearer``.
        base_url_env: Environment variables that replace ``base_url``.
        headers: Sent with every request; no credentials.
        compat: Peculiarities of its server, for all its models.
        needs_key: Whether it wants a key; by default if a variable is named.
        models: Its models; the first is taken where nothing else is said.
    """

    base_url: str
    api: RemoteApi
    title: str = ""
    api_key_env: tuple[str, ...] | str = ()
    auth_token_env: tuple[str, ...] | str = ()
    base_url_env: tuple[str, ...] | str = ()
    headers: dict[str, str] = {}
    compat: dict[str, bool | str | int] = {}
    needs_key: bool | None = None
    models: tuple[ModelEntry, ...] = ()


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    providers: dict[str, ProviderEntry] = {}


class ProviderInfo(Struct, frozen=True, kw_only=True):
    """A provider, ready for use; fields as in ``ProviderEntry``."""

    name: str
    base_url: str
    api: Api
    title: str
    api_key_env: tuple[str, ...]
    auth_token_env: tuple[str, ...]
    base_url_env: tuple[str, ...]
    headers: Mapping[str, str]
    compat: Mapping[str, bool | str | int]
    models: tuple[Model, ...]
    needs_key: bool | None = None

    @property
    def wants_key(self) -> bool:
        """Whether its server wants a key."""
        if self.needs_key is not None:
            return self.needs_key
        return bool(self.api_key_env or self.auth_token_env)


class ModelRegistry:
    """The providers and models that are known by name."""

    def __init__(
        self, *, providers: Iterable[ProviderInfo], aliases: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Create a registry.

        Args:
            providers: In the order in which models are taken where none is named.
            aliases: Short name to the keys (``provider/id``) that it may mean.
        """
        self._providers = {provider.name: provider for provider in providers}
        self._aliases = aliases
        self._by_key: dict[str, Model] = {}
        self._by_id: dict[str, list[Model]] = {}
        for model in self.models:
            self._by_key[model.key] = model
            self._by_id.setdefault(model.id, []).append(model)

    @property
    def providers(self) -> tuple[ProviderInfo, ...]:
        """All providers, in order."""
        return tuple(self._providers.values())

    @property
    def models(self) -> tuple[Model, ...]:
        """All models, by provider."""
        return tuple(model for provider in self._providers.values() for model in provider.models)

    def provider(self, name: str) -> ProviderInfo | None:
        """Return the provider of that name, if there is one."""
        return self._providers.get(name)

    def with_providers(self, entries: Mapping[str, ProviderEntry]) -> "ModelRegistry":
        """Return a registry that has these providers, too; they come first.

        One that has the name of a known provider takes its place.

        Args:
            entries: The providers by name; for addresses that a person typed see
                ``endpoints.checked_url``.

        Raises:
            InvalidInput: If a name or an address cannot be used.
        """
        added = {}
        for name, entry in entries.items():
            if not is_provider_name(name):
                raise InvalidInput(
                    f"{name!r} is no name for a provider.",
                    hint="Use up to 64 letters, digits and marks, and no slash.",
                )
            if not entry.base_url.startswith(("https://", "http://")):
                raise InvalidInput(f"{entry.base_url!r} is no web address.")
            added[name] = _provider(name, entry, TABLE)
        others = (p for name, p in self._providers.items() if name not in added)
        return ModelRegistry(providers=(*added.values(), *others), aliases=self._aliases)

    def known(self, key: str) -> Model | None:
        """Return the model of that ``provider/id``, if the table has it."""
        return self._by_key.get(key)

    def candidates(self, name: str) -> tuple[Model, ...]:
        """Return the models that the name may mean: one, several, or none."""
        if name in self._by_key:
            return (self._by_key[name],)
        if name in self._by_id:
            return tuple(self._by_id[name])
        return tuple(self._by_key[key] for key in self._aliases.get(name.lower(), ()))

    def find(self, name: str) -> Model:
        """Return the model: by ``provider/id``, by id, or by a short name.

        Raises:
            ModelNotFound: If none has the name, or several have; the hint
                gives the nearest names.
        """
        found = self.candidates(name)
        if len(found) == 1:
            return found[0]
        if found:
            keys = ", ".join(model.key for model in found)
            raise ModelNotFound(f"{name!r} may be several models.", hint=f"Say which: {keys}.")
        raise ModelNotFound(f"No model is called {name!r}.", hint=self._nearest(name))

    def _nearest(self, name: str) -> str:
        import difflib  # noqa: PLC0415 - only where something has gone wrong

        names = [*self._by_key, *self._by_id, *self._aliases]
        near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
        if near:
            return f"Did you mean {', '.join(dict.fromkeys(near))}? 'zpi models' lists them all."
        return "'zpi models' lists what there is."


def is_provider_name(name: str) -> bool:
    """Return whether a provider of the user's own may be called so."""
    return 0 < len(name) <= 64 and name.isprintable() and not set(name) & set("/ ")


def load_registry(agent_dir: Path | None) -> ModelRegistry:
    """Return the table that ships, with the user's file laid over it.

    Args:
        agent_dir: Folder with the user's ``models.json``; None for none.

    Raises:
        SettingsDamaged: If the user's file cannot be used; names file and field.
    """
    shipped = TABLE.read_bytes()
    path = agent_dir / "models.json" if agent_dir else None
    data = read_json_file(path) if path else None
    if path is None or data is None:
        return build_registry(decode_strict(shipped, _Table, path=TABLE).providers, path=TABLE)
    return parse_registry(shipped, data, path=path)


def parse_registry(shipped: bytes, data: bytes, *, path: Path) -> ModelRegistry:
    """Return the registry for a shipped table and a user's file.

    Args:
        shipped: The table that ships.
        data: The user's file.
        path: Where the user's file is, for errors.

    Raises:
        SettingsDamaged: If the user's file cannot be used.
    """
    below: dict[str, Any] = msgspec.json.decode(shipped)["providers"]
    table = decode_strict(data, dict[str, Any], path=path)
    above = table.get("providers", {})
    if not isinstance(above, dict):
        raise damaged(path, "field 'providers': must be an object of providers")
    _refuse_secrets(above, path)
    merged = {
        **below,
        **{name: _laid_over(below.get(name, {}), new) for name, new in above.items()},
    }
    checked = convert_strict({**table, "providers": merged}, _Table, path=path)
    return build_registry(checked.providers, path=path)


def _laid_over(below: Mapping[str, Any], above: object) -> object:
    """Replace single fields; models are matched by their id and new ones come first."""
    models = above.get("models", []) if isinstance(above, dict) else None
    if not isinstance(above, dict) or not isinstance(models, list):
        return above  # whoever checks the type says what is wrong with it
    old = {model["id"]: model for model in below.get("models", [])}
    new: dict[object, object] = {}
    for at, model in enumerate(models):
        name = model.get("id") if isinstance(model, dict) else None
        if isinstance(model, dict) and isinstance(name, str):
            new[name] = {**old.get(name, {}), **model}
        else:
            new[at] = model
    changed = [new.pop(name, model) for name, model in old.items()]
    return {**below, **above, "models": [*new.values(), *changed]}


_SECRET_FIELDS = frozenset({"apikey", "key", "token", "authtoken", "secret", "password"})
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie", "x-goog-api-key"}
)


def _refuse_secrets(providers: Mapping[str, Any], path: Path) -> None:
    advice = (
        "Keys do not belong in this file: put the key into an environment variable and name "
        "that variable in 'api_key_env'."
    )
    for name, entry in providers.items():
        if not isinstance(entry, dict):
            continue
        for field in entry:
            if field.lower().replace("_", "").replace("-", "") in _SECRET_FIELDS:
                raise damaged(
                    path, f"field 'providers.{name}.{field}': is not allowed", hint=advice
                )
        headers = entry.get("headers")
        for header in headers if isinstance(headers, dict) else ():
            if header.lower() in _SECRET_HEADERS:
                where = f"providers.{name}.headers.{header}"
                raise damaged(path, f"field {where!r}: holds a credential", hint=advice)


def build_registry(entries: Mapping[str, ProviderEntry], *, path: Path) -> ModelRegistry:
    """Return the registry for checked entries.

    Raises:
        SettingsDamaged: If a reasoning level is unknown or an address unusable.
    """
    aliases: dict[str, tuple[str, ...]] = {}
    providers = []
    for name, entry in entries.items():
        if not name or "/" in name:
            raise damaged(path, f"field 'providers.{name}': is no name for a provider")
        providers.append(_provider(name, entry, path))
        for model in entry.models:
            for alias in model.aliases:
                known = aliases.get(alias.lower(), ())
                aliases[alias.lower()] = (*known, f"{name}/{model.id}")
    return ModelRegistry(providers=providers, aliases=aliases)


def _provider(name: str, entry: ProviderEntry, path: Path) -> ProviderInfo:
    for url in (entry.base_url, *(model.base_url for model in entry.models if model.base_url)):
        if not url.startswith(("https://", "http://")):
            raise damaged(path, f"field 'providers.{name}.base_url': {url!r} is no web address")
    return ProviderInfo(
        name=name,
        base_url=entry.base_url.rstrip("/"),
        api=entry.api,
        title=entry.title or name,
        api_key_env=_names(entry.api_key_env),
        auth_token_env=_names(entry.auth_token_env),
        base_url_env=_names(entry.base_url_env),
        headers=entry.headers,
        compat=entry.compat,
        needs_key=entry.needs_key,
        models=tuple(_model(name, entry, model, path=path) for model in entry.models),
    )


def _names(given: tuple[str, ...] | str) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


def _model(name: str, provider: ProviderEntry, entry: ModelEntry, *, path: Path) -> Model:
    for level in entry.thinking:
        if level not in THINKING_LEVELS:
            raise damaged(
                path,
                f"model '{name}/{entry.id}', field 'thinking': {level!r} is no level",
                hint=f"Levels: {', '.join(THINKING_LEVELS)}.",
            )
    return Model(
        id=entry.id,
        provider=name,
        api=entry.api or provider.api,
        base_url=(entry.base_url or provider.base_url).rstrip("/"),
        name=entry.name,
        context_window=entry.context_window,
        max_output=entry.max_output,
        modalities=entry.modalities,
        thinking=entry.thinking,
        thinking_style=entry.thinking_style,
        prices=entry.prices,
        compat={**provider.compat, **entry.compat},
    )
