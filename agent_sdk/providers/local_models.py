"""Models on this machine: servers that run already, and the embedded one.

Everything here is loaded only when a local model is wanted: with a key at
hand none of it costs anything.
"""

from agent_sdk.core.errors import ConfigurationError
from agent_sdk.core.ids import Clock
from agent_sdk.core.process import ProcessOwner
from agent_sdk.providers.base import Provider
from agent_sdk.providers.models import Model
from agent_sdk.providers.runtime import ModelRuntime, NothingAvailable


class LocalModels:
    """Finds local models and connects to the embedded one.

    Args:
        processes: Starts the embedded model; None if none will be started.
        gguf: Path of a model file to run in its place; empty for the own one.
        clock: Source of time.
    """

    prefixes = ("local/", "ollama/", "lmstudio/", "llamacpp/")

    def __init__(self, *, processes: ProcessOwner | None, gguf: str, clock: Clock) -> None:
        self._processes = processes
        self._gguf = gguf
        self._clock = clock

    async def find(self) -> list[Model]:
        """Return the models of servers that answer, and then the embedded one, if installed."""
        from agent_sdk.providers.discovery import discover  # noqa: PLC0415 - start-up cost
        from agent_sdk.providers.local import embedded_model  # noqa: PLC0415 - start-up cost

        embedded = embedded_model(self._gguf)
        found = list(await discover())
        return [*found, embedded] if embedded is not None else found

    def provider(self, model: Model) -> Provider:
        """Return the connection to the embedded model; it is started by its first request.

        Raises:
            ConfigurationError: If none can be started here.
        """
        from agent_sdk.providers.local import LocalProvider  # noqa: PLC0415 - start-up cost

        if self._processes is None:
            raise ConfigurationError("The embedded model cannot be started here.")
        return LocalProvider(processes=self._processes, gguf=self._gguf, clock=self._clock)

    def statement(self, model: Model) -> str:
        """Return what must be said about the model: what the embedded one is; empty for others."""
        if model.api != "local":
            return ""
        from agent_sdk.providers.local import STATEMENT  # noqa: PLC0415 - start-up cost

        return STATEMENT


async def choose_model(
    runtime: ModelRuntime,
    local: LocalModels,
    *,
    explicit: str | None = None,
    recorded: str | None = None,
    configured: str | None = None,
) -> Model:
    """Return the model to use, as ``ModelRuntime.choose`` does, or else a local one.

    Without any name and any key, a local server's model is taken if one
    answers, and else the embedded one.

    Raises:
        ConfigurationError: If the named model cannot be used, or there is none.
    """
    named = explicit or recorded or configured or ""
    if named.startswith(local.prefixes):
        runtime.offer(await local.find())
    choice = runtime.choose(explicit=explicit, recorded=recorded, configured=configured)
    if not isinstance(choice, NothingAvailable):
        return choice.model
    found = await local.find()
    if not found:
        raise ConfigurationError(
            "There is no key for any model, no local server answers, and the embedded model "
            "is not installed.",
            hint=choice.hint,
        )
    runtime.offer(found)
    return found[0]
