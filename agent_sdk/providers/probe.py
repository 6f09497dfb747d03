"""Whether a server can be reached, and whether a model of it answers.

For set-up pages: two steps, so that a wrong address, a wrong key and a wrong
model are told apart. Nothing is tried twice.
"""

from collections.abc import Mapping
from contextlib import aclosing

from msgspec import Struct

from agent_sdk.core.errors import ProviderError
from agent_sdk.providers.base import ModelRequest, StreamDone, StreamFailed
from agent_sdk.providers.http_provider import HttpProvider
from agent_sdk.providers.messages import TextBlock, UserMessage
from agent_sdk.providers.models import Model
from agent_sdk.providers.retry import RetryPolicy
from agent_sdk.providers.runtime import create_adapter
from agent_sdk.providers.transport import HttpTransport, Limits

PROMPT = "Reply with the single word OK."
MAX_TOKENS = 64

_LIMITS = Limits(connect=8, first_event=45, first_event_local=120, idle=30, thinking=45)


class Probed(Struct, frozen=True, kw_only=True):
    """How far it came.

    Attributes:
        reached: Whether the server answered anything at all.
        answered: Whether the model did.
        text: What the model said; may be empty.
        error: Why it went no further.
    """

    reached: bool
    answered: bool = False
    text: str = ""
    error: ProviderError | None = None


async def probe_model(
    model: Model,
    key: str,
    *,
    environ: Mapping[str, str],
    headers: Mapping[str, str] | None = None,
    limits: Limits = _LIMITS,
) -> Probed:
    """Reach the model's server, without the key, and then ask the model, with it.

    Args:
        model: A model that is spoken to over HTTP.
        key: The credential; empty for none.
        environ: Where ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` are looked up.
        headers: Sent with the question; must hold no secret.
        limits: How long to wait for what.
    """
    transport = HttpTransport(environ=environ, limits=limits)
    provider = HttpProvider(
        adapter=create_adapter(model.api),
        credential=lambda: key,
        headers=headers,
        transport=transport,
        policy=RetryPolicy(max_attempts=1),
        limits=limits,
    )
    async with aclosing(provider):
        url = create_adapter(model.api).url(model)
        try:
            # Any status will do: it is not the question yet.
            reply = await transport.open(url, {"content-type": "application/json"}, b"{}")
            await reply.aclose()
        except ProviderError as error:
            return Probed(reached=False, error=error)
        return await _ask(provider, model)


async def _ask(provider: HttpProvider, model: Model) -> Probed:
    request = ModelRequest(
        model=model,
        messages=[UserMessage(content=(TextBlock(PROMPT),))],
        max_tokens=MAX_TOKENS,
    )
    async with aclosing(provider.stream(request)) as stream:
        async for event in stream:
            if isinstance(event, StreamDone):
                said = [b.text for b in event.message.content if isinstance(b, TextBlock)]
                return Probed(reached=True, answered=True, text="".join(said))
            if isinstance(event, StreamFailed):
                return Probed(reached=True, error=event.error)
    raise AssertionError("a stream ends with one of these")
