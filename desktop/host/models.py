"""Models that the environment and the shipped table give."""

from collections.abc import Callable

from agent_sdk.host import ConfigurationError, LocalModels, ModelRuntime, TaskOwner
from desktop.bridge.messages import KeyStoreInfo, ModelsState, ModelView
from desktop.bridge.protocol import ProviderTested, SaveProvider, TestProvider
from desktop.host.composition import Surroundings
from desktop.host.ports import Providers


class EnvironmentModels:
    """The models of the environment (``ports.ModelService``)."""

    def __init__(self, *, around: Surroundings, local: LocalModels, providers: Providers) -> None:
        self._local = local
        self._providers = providers
        self._default = ""
        self._listeners: list[Callable[[], None]] = []
        self._tasks = TaskOwner(name="models")
        self._runtime = ModelRuntime(
            registry=around.registry,
            environ=around.environ,
            secrets=around.secrets,
            local=local.provider,
        )

    @property
    def runtime(self) -> ModelRuntime:
        """What chooses models."""
        return self._runtime

    @property
    def default(self) -> str:
        """Key of the default model; empty for none."""
        return self._default

    async def start(self) -> None:
        """Begin to look for models on this machine."""
        self._default = await self._providers.default_model()
        self._tasks.start(self.find_local(), name="local")

    async def find_local(self) -> None:
        """Offer the models on this machine."""
        self._runtime.offer(await self._local.find())
        for listener in self._listeners:
            listener()

    def state(self) -> ModelsState:
        """Return what the window shows."""
        models = tuple(
            ModelView(
                key=model.key,
                name=model.label,
                provider=model.provider,
                ready=ready,
                context_window=model.context_window,
                thinking=tuple(model.thinking),
                vision="image" in model.modalities,
                local=model.api == "local",
            )
            for model, ready in self._runtime.available()
        )
        return ModelsState(
            models=models,
            providers=(),
            key_store=KeyStoreInfo(mode="session"),
            default=self._default,
        )

    def listen(self, changed: Callable[[], None]) -> None:
        """Call back whenever the state has changed."""
        self._listeners.append(changed)

    async def save(self, command: SaveProvider) -> None:
        """Refuse: there is no store of providers."""
        raise ConfigurationError("Providers cannot be stored yet.")

    async def remove(self, name: str) -> None:
        """Refuse: there is no store of providers."""
        raise ConfigurationError("Providers cannot be stored yet.")

    async def test(self, command: TestProvider) -> ProviderTested:
        """Refuse: there is no store of providers."""
        raise ConfigurationError("Providers cannot be tested yet.")

    async def set_default(self, model: str) -> None:
        """Choose the default model."""
        self._default = self._runtime.resolve(model).key
        await self._providers.set_default_model(self._default)
        for listener in self._listeners:
            listener()

    async def aclose(self) -> None:
        """Stop looking."""
        await self._tasks.aclose()
