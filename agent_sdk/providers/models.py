"""Models: what they are called, can do and cost.

The table that ships (``models.json``) is data; a user's ``models.json`` in
the agent directory is laid over it. Nothing here does I/O.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from agent_sdk.core.usage import Prices

Api: TypeAlias = Literal["anthropic-messages", "openai-completions", "openai-responses", "local"]
"""Wire APIs; ``local`` is the embedded model, spoken to through its adapter."""

THINKING_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")


class Model(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One model of one provider.

    Attributes:
        id: The name sent to the provider.
        provider: Key of the provider that offers it.
        api: Wire API.
        base_url: Address of the API, without the path of the endpoint.
        name: Name to show.
        context_window: Tokens of input and output together.
        max_output: Most tokens of one answer.
        modalities: Kinds of input besides text, such as ``image``.
        thinking: Reasoning levels it knows, and what each is called on the
            wire; empty for a model that cannot reason.
        thinking_style: How reasoning is asked for: ``effort`` (a word),
            ``budget`` (tokens), ``adaptive`` (Anthropic's adaptive mode with
            an effort word), or empty.
        prices: US dollars per million tokens.
        known: False for a model taken as it was named, unknown to the table.
        compat: Peculiarities of the server, by name; read by the adapter.
    """

    id: str
    provider: str
    api: Api
    base_url: str = ""
    name: str = ""
    context_window: int = 128_000
    max_output: int = 16_384
    modalities: tuple[str, ...] = ()
    thinking: Mapping[str, str] = {}
    thinking_style: Literal["", "effort", "budget", "adaptive"] = ""
    prices: Prices = Prices()
    known: bool = True
    compat: Mapping[str, bool | str | int] = {}

    @property
    def key(self) -> str:
        """``provider/id``, the name that is unique among all models."""
        return f"{self.provider}/{self.id}"

    @property
    def label(self) -> str:
        """The name to show."""
        return self.name or self.id


def clamp_thinking(level: str, model: Model) -> str:
    """Return the nearest reasoning level that the model knows.

    The next higher one is preferred, then the next lower; a model that cannot
    reason gives ``off``, and an empty level stays empty (nothing is sent).
    """
    if not level:
        return ""
    if not model.thinking or level == "off":
        return "off"
    if level in model.thinking:
        return level
    at = THINKING_LEVELS.index(level)
    for other in (*THINKING_LEVELS[at + 1 :], *reversed(THINKING_LEVELS[1:at])):
        if other in model.thinking:
            return other
    return "off"
