"""Models on this machine: servers that run already, and the embedded one.

Everything here is loaded only when a local model is wanted: with a key at
hand none of it costs anything.
"""

from agent_sdk.core.errors import ConfigurationError
from agent_sdk.core.ids import Clock
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import Notice
from agent_sdk.providers.base import Provider
from agent_sdk.providers.models import Model


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

    def notices(self, model: Model) -> tuple[Notice, ...]:
        """Return what must be said about the model: what the embedded one is."""
        if model.api != "local":
            return ()
        from agent_sdk.providers.local import STATEMENT  # noqa: PLC0415 - start-up cost

        return (Notice("info", "embedded_model", STATEMENT),)
