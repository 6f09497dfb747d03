"""How servers that speak Chat Completions differ, as plain facts.

What is not set for a model is worked out from the host of its address, so
that OpenRouter, DeepSeek, vLLM, Ollama, LM Studio or llama.cpp work with
nothing but a base URL.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import InvalidInput
from agent_sdk.providers.base import ModelRequest
from agent_sdk.providers.convert import is_host
from agent_sdk.providers.models import Model
from agent_sdk.providers.openai_common import DEFAULT_BASE_URL, OPENAI_HOST

ThinkingFormat: TypeAlias = Literal[
    "openai", "deepseek", "openrouter", "qwen", "qwen_template", "zai", "together", "none"
]


class ChatCompat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Peculiarities of one server; the names are those of ``Model.compat``.

    Attributes:
        max_tokens_field: What the limit of the answer is called.
        stream_usage: Whether usage may be asked for with ``stream_options``.
        developer_role: Whether the system prompt has the role ``developer``.
        thinking_format: How reasoning is switched on and off.
        replay_reasoning: Field in which the model's own reasoning is sent
            back; empty where it is not.
        finish_reason: Whether every whole answer carries a ``finish_reason``.
        prompt_cache_key: Whether the session's id is sent for caching.
        store: Whether ``store: false`` is sent.
        strict_schema: Whether an output schema is marked as strict.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    developer_role: bool = False
    thinking_format: ThinkingFormat = "openai"
    replay_reasoning: str = ""
    finish_reason: bool = True
    prompt_cache_key: bool = False
    store: bool = False
    strict_schema: bool = False


def chat_compat(model: Model) -> ChatCompat:
    """Return the peculiarities of a model's server.

    Raises:
        InvalidInput: If ``model.compat`` holds a name or value that is unknown.
    """
    facts: dict[str, Any] = {**_by_host(model), **model.compat}
    try:
        return msgspec.convert(facts, type=ChatCompat)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            f"The compat entry of model {model.key!r} cannot be used: {error}.",
            hint=f"Known names: {', '.join(ChatCompat.__struct_fields__)}.",
        ) from error


def _by_host(model: Model) -> dict[str, Any]:
    url = model.base_url or DEFAULT_BASE_URL
    if is_host(url, OPENAI_HOST):
        return {
            "max_tokens_field": "max_completion_tokens",
            "developer_role": bool(model.thinking),
            "prompt_cache_key": True,
            "store": True,
        }
    if is_host(url, "deepseek.com"):
        return {"thinking_format": "deepseek", "replay_reasoning": "reasoning_content"}
    if is_host(url, "openrouter.ai"):
        return {"thinking_format": "openrouter"}
    if is_host(url, "aliyuncs.com"):
        return {"thinking_format": "qwen"}
    if is_host(url, "bigmodel.cn", "z.ai"):
        return {"thinking_format": "zai"}
    if is_host(url, "together.xyz", "together.ai"):
        return {"thinking_format": "together"}
    return {}


def thinking_fields(request: ModelRequest, compat: ChatCompat) -> dict[str, Any]:
    """Return the body's fields about reasoning; none for an empty level."""
    model, level = request.model, request.thinking_level
    if not level or not model.thinking:
        return {}
    on = level != "off"
    budget = request.thinking_budget if on else None
    word = model.thinking.get(level, "none" if level == "off" else level)
    if compat.thinking_format in {"openai", "openrouter"}:
        if not on and "off" not in model.thinking:
            return {}  # there is no word for it: such a model always reasons
        if compat.thinking_format == "openai":
            return {"reasoning_effort": word}
        return {"reasoning": {"max_tokens": budget} if budget else {"effort": word}}
    return _switch(compat.thinking_format, on=on, word=word, request=request)


def _switch(style: ThinkingFormat, *, on: bool, word: str, request: ModelRequest) -> dict[str, Any]:
    """The servers on which reasoning is a switch, some with a measure beside it."""
    fields: dict[str, Any] = {}
    if style in {"deepseek", "zai"}:
        fields["thinking"] = {"type": "enabled" if on else "disabled"}
        if on and request.model.thinking_style == "effort":
            fields["reasoning_effort"] = word
    elif style == "qwen":
        fields["enable_thinking"] = on
        if on and request.thinking_budget:
            fields["thinking_budget"] = request.thinking_budget
    elif style == "qwen_template":
        fields["chat_template_kwargs"] = {"enable_thinking": on}
    elif style == "together":
        fields["reasoning"] = {"enabled": on}
    return fields
