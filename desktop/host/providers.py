"""Providers, keys and models put together (``ports.ModelService``).

Three sources are laid over each other: the table of models with the user's
``models.json``, the providers that the user made in the window, and the
environment. Keys come from the vault or from the environment, at each
request, and only for the origin that they were given for.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, assert_never

from agent_sdk.host import (
    CUSTOM,
    ConfigurationError,
    CredentialMissing,
    InvalidInput,
    LocalModels,
    Model,
    ModelChoice,
    ModelEntry,
    ModelRegistry,
    ModelRuntime,
    ProviderEntry,
    ProviderError,
    ProviderInfo,
    TaskOwner,
    ZpiError,
    checked_url,
    is_local,
    is_provider_name,
    origin,
    probe_model,
    shorten,
)
from desktop.bridge.messages import ErrorInfo, ModelsState, ModelView, ProviderView
from desktop.bridge.protocol import (
    ChangePassphrase,
    ForgetPassphrase,
    PassphraseCommand,
    ProviderTested,
    SaveProvider,
    SetPassphrase,
    TestProvider,
    UnlockKeys,
)
from desktop.host.credentials import CredentialVault
from desktop.host.ports import ProviderRow, Providers

logger = logging.getLogger("zpi.providers")

RemoteApi: TypeAlias = Literal["anthropic-messages", "openai-completions", "openai-responses"]
Source: TypeAlias = Literal["none", "stored", "session", "environment", "keyless"]

_APIS: tuple[RemoteApi, ...] = ("anthropic-messages", "openai-completions", "openai-responses")
_LONGEST_MODEL = 200
_LONGEST_KEY = 8192
_SHOWN = 400
_RESERVED = frozenset({CUSTOM, *(prefix.rstrip("/") for prefix in LocalModels.prefixes)})


class ProviderService:
    """The providers and models of this installation.

    Args:
        registry: The table of models, with the user's file laid over it.
        environ: The environment, without secrets.
        secrets: Values of the variables that hold keys.
        local: The models on this machine.
        rows: Where the user's own providers are kept.
        vault: Where keys are kept; started and closed by this.
    """

    def __init__(
        self,
        *,
        registry: ModelRegistry,
        environ: Mapping[str, str],
        secrets: Mapping[str, str],
        local: LocalModels,
        rows: Providers,
        vault: CredentialVault,
    ) -> None:
        self._table = registry
        self._environ = environ
        self._secrets = secrets
        self._local = local
        self._rows = rows
        self._vault = vault
        self._tasks = TaskOwner(name="models")
        self._own: dict[str, ProviderRow] = {}
        self._found: tuple[Model, ...] = ()
        self._default = ""
        self._listeners: list[Callable[[], None]] = []
        self._registry = registry
        self._runtime = self._made()

    @property
    def runtime(self) -> ModelRuntime:
        """What chooses models and connects to them; replaced when providers change."""
        return self._runtime

    @property
    def default(self) -> str:
        """``provider/id`` that the user chose for new sessions; empty if none."""
        return self._default

    # ------------------------------------------------------------- beginning

    async def start(self) -> None:
        """Load providers and keys; the key ring and local servers may follow later.

        Raises:
            StorageError: If the database cannot be read.
        """
        self._own = {row.name: row for row in await self._rows.list()}
        self._default = await self._rows.default_model()
        self._runtime = self._made()
        self._vault.listen(self._changed)
        await self._vault.start()
        self._tasks.start(self.find_local(), name="local models")

    async def find_local(self) -> None:
        """Offer the models on this machine to the runtime: servers, the embedded one."""
        found = tuple(await self._local.find())
        if found != self._found:
            self._found = found
            self._runtime.offer(found)
            self._changed()

    async def aclose(self) -> None:
        """Stop what is going on; may be called twice."""
        await self._tasks.aclose()
        await self._vault.aclose()

    def listen(self, changed: Callable[[], None]) -> None:
        """Call back, on the event loop, whenever ``state`` has changed."""
        self._listeners.append(changed)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    def _made(self) -> ModelRuntime:
        """Return a runtime for the providers as they are now."""
        entries = {}
        for row in self._own.values():
            try:
                entries[row.name] = provider_entry(row, self._table)
            except ZpiError as error:
                # Stored by a version that took other names or addresses.
                logger.warning("provider %r cannot be used: %s", row.name, error)
        self._registry = self._table.with_providers(entries)
        runtime = ModelRuntime(
            registry=self._registry,
            environ=self._environ,
            secrets=self._secrets,
            stored=self._vault.lookup,
            local=self._local.provider,
        )
        runtime.offer(self._found)
        return runtime

    # ----------------------------------------------------------------- state

    def state(self) -> ModelsState:
        """Return what the window shows."""
        models = list(self._runtime.available())
        named = self._named_by_environment()
        if named is not None and named.key not in {model.key for model, _ in models}:
            models.insert(0, (named, True))
        return ModelsState(
            models=tuple(_model_view(model, ready=ready) for model, ready in models),
            providers=tuple(self._provider_view(info) for info in self._registry.providers),
            key_store=self._vault.info(),
            default=self._default,
        )

    def _named_by_environment(self) -> Model | None:
        """Return the model that ``ZPI_MODEL`` names, if it can be asked."""
        try:
            choice = self._runtime.choose()
        except ConfigurationError:
            return None
        if isinstance(choice, ModelChoice) and choice.how == "environment":
            return choice.model
        return None

    def _provider_view(self, info: ProviderInfo) -> ProviderView:
        given = (self._environ.get(name, "").strip() for name in info.base_url_env)
        base_url = next((url for url in given if url), info.base_url)
        return ProviderView(
            name=info.name,
            api=info.api,
            base_url=base_url,
            source=self._source(info, base_url),
            needs_key=info.wants_key,
            custom=info.name in self._own,
            models=tuple(model.id for model in info.models),
        )

    def _source(self, info: ProviderInfo, base_url: str) -> Source:
        kept = self._vault.source(info.name, origin(base_url))
        if kept != "none":
            return kept
        asked = Model(id="any", provider=info.name, api=info.api, base_url=base_url)
        try:
            found = self._runtime.credential(asked)
        except CredentialMissing:
            return "none"
        return "environment" if found.key else "keyless"

    # --------------------------------------------------------------- changes

    async def save(self, command: SaveProvider) -> None:
        """Add or change a provider, and its key.

        A provider of the table whose address and API stay as they are only
        gets a key, and the models that the table does not know.

        Raises:
            InvalidInput: If a name, an API, a model or the key cannot be used.
            ConfigurationError: If the address is none.
            StorageError: If it could not be stored.
        """
        row = checked_row(command)
        key = checked_key(command.key, row.base_url)
        old = self._registry.provider(row.name)
        if _adds_nothing(row, self._table.provider(row.name)):
            await self._rows.remove(row.name)
            self._own.pop(row.name, None)
        else:
            await self._rows.put(row)
            self._own[row.name] = row
        there = origin(row.base_url)
        if old is not None and origin(old.base_url) != there:
            # It was given for that server, and must not come back with it unasked.
            await self._vault.remove(row.name, origin=origin(old.base_url))
        self._runtime = self._made()
        if key:
            await self._vault.put(row.name, there, key)
        elif key == "":
            await self._vault.remove(row.name)
        self._changed()

    async def remove(self, name: str) -> None:
        """Remove a provider of the user's own, and its key.

        Raises:
            StorageError: If it could not be removed.
        """
        await self._vault.remove(name)
        await self._rows.remove(name)
        self._own.pop(name, None)
        self._runtime = self._made()
        self._changed()

    async def set_default(self, model: str) -> None:
        """Choose the model for new sessions.

        Raises:
            ModelNotFound: If there is none of that name.
            StorageError: If it could not be stored.
        """
        key = self._runtime.resolve(model).key
        await self._rows.set_default_model(key)
        self._default = key
        self._changed()

    async def passphrase(self, command: PassphraseCommand) -> None:
        """Set, enter, change or forget the passphrase that protects stored keys.

        Raises:
            InvalidInput: If that cannot be done now, or with this passphrase.
            WrongPassphrase: If it is another one.
            NoMemory: If there is not enough memory for it.
            StorageError: If the database cannot be read or written.
        """
        match command:
            case SetPassphrase():
                await self._vault.set_passphrase(command.passphrase)
            case UnlockKeys():
                await self._vault.unlock_with(command.passphrase)
            case ChangePassphrase():
                new, old = command.new_passphrase, command.passphrase
                await self._vault.set_passphrase(new, old=old)
            case ForgetPassphrase():
                await self._vault.forget_passphrase()
            case _:
                assert_never(command)

    # --------------------------------------------------------------- testing

    async def test(self, command: TestProvider) -> ProviderTested:
        """Reach the server, then ask the model; failures are part of the answer.

        Raises:
            InvalidInput: If a name, an API, a model or the key cannot be used.
            ConfigurationError: If the address is none.
        """
        row = checked_row(
            SaveProvider(
                name=command.name,
                api=command.api,
                base_url=command.base_url,
                models=(command.model,),
            )
        )
        key = checked_key(command.key, row.base_url)
        if key is None:
            key = await self._known_key(row)
        elif key:
            self._vault.conceal(key)
        entry = provider_entry(row, self._table)
        registry = self._table.with_providers({row.name: entry})
        model = registry.find(f"{row.name}/{command.model.strip()}")
        probed = await probe_model(model, key, environ=self._environ, headers=entry.headers)
        return ProviderTested(
            reached=probed.reached,
            answered=probed.answered,
            text=probed.text[:_SHOWN],
            error=told(probed.error, model, has_key=bool(key)) if probed.error else None,
        )

    async def _known_key(self, row: ProviderRow) -> str:
        """Return the key that a request to the provider at this address would carry."""
        there = origin(row.base_url)
        kept = await self._vault.get(row.name, there)
        if kept is not None:
            return kept
        info = self._registry.provider(row.name)
        asked = Model(
            id="any",
            provider=row.name,
            api=info.api if info else "openai-completions",
            base_url=row.base_url,
        )
        try:
            return self._runtime.credential(asked).key
        except CredentialMissing:
            return ""


# -------------------------------------------------------------------- pure parts


def checked_row(command: SaveProvider) -> ProviderRow:
    """Return what is to be stored of a provider.

    Raises:
        InvalidInput: If its name, API or a model cannot be used.
        ConfigurationError: If its address is none.
    """
    if not is_provider_name(command.name) or command.name in _RESERVED:
        raise InvalidInput(
            f"{command.name!r} cannot be the name of a provider.",
            hint="Use letters, digits and marks, no blank and no slash, and no name that ZPI uses.",
        )
    api = _api(command.api)
    models = tuple(dict.fromkeys(model.strip() for model in command.models))
    for model in models:
        if not model or not model.isprintable() or len(model) > _LONGEST_MODEL:
            raise InvalidInput(f"{model[:_LONGEST_MODEL]!r} is no name of a model.")
    base_url = shorten(checked_url(command.base_url.strip(), "The address"), api)
    return ProviderRow(name=command.name, api=api, base_url=base_url.rstrip("/"), models=models)


def _api(text: str) -> RemoteApi:
    for api in _APIS:
        if text == api:
            return api
    raise InvalidInput(f"{text!r} is no API type.", hint=f"Known: {', '.join(_APIS)}.")


def checked_key(key: str | None, base_url: str) -> str | None:
    """Return the key without blanks around it.

    Raises:
        InvalidInput: If it cannot be sent, or would be sent readable by others.
    """
    if key is None:
        return None
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key or len(key) > _LONGEST_KEY:
        raise InvalidInput(
            "The key contains characters that cannot be sent.", hint="Copy the key again."
        )
    if key and base_url.startswith("http://") and not is_local(base_url):
        raise InvalidInput(
            f"A key would be sent unencrypted to {base_url!r}.", hint="Use an https:// address."
        )
    return key


def _adds_nothing(row: ProviderRow, known: ProviderInfo | None) -> bool:
    """Return whether the table says all that the row does."""
    if known is None or (row.api, row.base_url) != (known.api, shorten(known.base_url, known.api)):
        return False
    return set(row.models) <= {model.id for model in known.models}


def provider_entry(row: ProviderRow, table: ModelRegistry) -> ProviderEntry:
    """Return the provider as the registry takes it.

    What the table knows of its models is used. A provider of the table that
    stays at its origin keeps what the table says about it.

    Raises:
        InvalidInput: If its API is unknown.
    """
    api = _api(row.api)
    known = table.provider(row.name)
    same = known is not None and origin(known.base_url) == origin(row.base_url)
    models = {name: _model_entry(name, row, table) for name in row.models}
    if known is not None and same:
        others = (model.id for model in known.models if model.id not in models)
        models |= {name: _model_entry(name, row, table) for name in others}
    return ProviderEntry(
        base_url=row.base_url,
        api=api,
        title=known.title if known else row.name,
        api_key_env=known.api_key_env if known and same else (),
        auth_token_env=known.auth_token_env if known and same else (),
        headers=dict(known.headers) if known and same else {},
        compat=dict(known.compat) if known and same and known.api == api else {},
        needs_key=known.wants_key if known and same else not is_local(row.base_url),
        models=tuple(models.values()),
    )


def _model_entry(name: str, row: ProviderRow, table: ModelRegistry) -> ModelEntry:
    own = table.provider(row.name)
    at_home = next((m for m in own.models if m.id == name), None) if own else None
    found = (at_home,) if at_home else table.candidates(name)
    if len({model.id for model in found}) != 1 or found[0].id != name:
        return ModelEntry(id=name)
    model = found[0]
    same_api = model.api == row.api
    return ModelEntry(
        id=name,
        name=model.name,
        context_window=model.context_window,
        max_output=model.max_output,
        modalities=model.modalities,
        thinking=dict(model.thinking) if same_api else {},
        thinking_style=model.thinking_style if same_api else "",
        prices=model.prices,
    )


def _model_view(model: Model, *, ready: bool) -> ModelView:
    return ModelView(
        key=model.key,
        name=model.label,
        provider=model.provider,
        ready=ready,
        context_window=model.context_window,
        thinking=tuple(model.thinking),
        vision="image" in model.modalities,
        local=model.api == "local",
    )


def told(error: ProviderError, model: Model, *, has_key: bool) -> ErrorInfo:
    """Return why a test went no further, with what to do in the window.

    The codes tell apart what differs in what is to be done: ``provider_no_key``,
    ``provider_wrong_key``, ``provider_no_model``, ``provider_unreachable``,
    ``provider_slow``, ``provider_limit``, and ``provider`` for the rest.
    """
    code, hint = "provider", error.hint
    match error.kind:
        case "authentication" if error.status != 407:
            code = "provider_wrong_key" if has_key else "provider_no_key"
            hint = (
                "Check the key, and that it may use this model."
                if has_key
                else "Enter the key of this provider."
            )
        case "network":
            code = "provider_unreachable"
        case "timeout":
            code = "provider_slow"
            hint = hint or "Check the address, and whether the server is busy."
        case "quota" | "rate_limit" | "overloaded":
            code = "provider_limit"
        case _ if error.status == 404 or _names_model(error, model):
            code = "provider_no_model"
            hint = f"Check the model's name {model.id!r} and the address."
        case "protocol" | "empty" | "incomplete":
            hint = "Check the address and the API type."
        case _:
            pass
    return ErrorInfo(code=code, text=error.message, hint=hint)


def _names_model(error: ProviderError, model: Model) -> bool:
    """Return whether a refused request was refused for its model."""
    text = error.message.lower()
    return error.kind == "invalid_request" and (
        "model_not_found" in text or (model.id.lower() in text and "model" in text)
    )
