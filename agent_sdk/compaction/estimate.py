"""How many tokens something may have, where no provider has counted them.

Estimates are made to be a little too high, and know scripts: a Chinese
character is about a token, an English word of five letters little more. They
are never shown as measured.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

import msgspec

from agent_sdk.providers.base import PromptSection, ToolSpec
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    DocumentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_sdk.providers.models import Model

IMAGE_TOKENS = 1_500
DOCUMENT_TOKENS = 2_500
_MESSAGE = 4
_BLOCK = 3


def text_tokens(text: str) -> int:
    """Return about how many tokens a text has."""
    count = len(text)
    if text.isascii():
        return -(-count * 10 // 36)
    # Counted by how many bytes each character takes, which tells the scripts
    # apart and needs no loop over the characters.
    one = len(text.encode("ascii", "ignore"))
    size = len(text.encode("utf-8", "surrogatepass"))
    four = len(text.encode("utf-16-le", "surrogatepass")) // 2 - count
    three = size - one - 4 * four - 2 * (count - one - four)  # Chinese, kana, hangul …
    two = count - one - three - four  # accents, Greek, Cyrillic, Arabic …
    return -(-(one * 10 // 36 * 2 + two + three * 2 + four * 5) // 2)


def block_tokens(block: Block) -> int:
    """Return about how many tokens a block has."""
    match block:
        case TextBlock():
            return text_tokens(block.text) + _BLOCK
        case ThinkingBlock():
            return text_tokens(block.thinking) + _BLOCK
        case RedactedThinkingBlock():
            return len(block.data) // 4 + _BLOCK
        case ImageBlock():
            return IMAGE_TOKENS
        case DocumentBlock():
            return _document(block)
        case ToolUseBlock():
            return text_tokens(block.name) + _json_tokens(block.input) + 4 * _BLOCK
        case ToolResultBlock():
            if isinstance(block.content, str):
                return text_tokens(block.content) + 2 * _BLOCK
            return sum(map(block_tokens, block.content)) + 2 * _BLOCK
        case OpaqueBlock():
            return _json_tokens(block.raw)
        case _:
            assert_never(block)


def message_tokens(message: Message) -> int:
    """Return about how many tokens a message has."""
    return sum(map(block_tokens, message.content)) + _MESSAGE


def system_tokens(sections: Iterable[PromptSection]) -> int:
    """Return about how many tokens a system prompt has."""
    return sum(text_tokens(section.text) + 1 for section in sections)


def tools_tokens(tools: Iterable[ToolSpec]) -> int:
    """Return about how many tokens the declarations of tools have."""
    return sum(
        text_tokens(t.name) + text_tokens(t.description) + _json_tokens(dict(t.parameters)) + 8
        for t in tools
    )


class ContextTokens(msgspec.Struct, frozen=True, kw_only=True):
    """How full a conversation's context is.

    Attributes:
        measured: What the provider counted for the last answer, its own
            tokens included; 0 if nothing is measured.
        measured_at: Index of that answer; -1 if nothing is measured.
        estimated: Estimate of what is not in ``measured``.
    """

    measured: int = 0
    measured_at: int = -1
    estimated: int = 0

    @property
    def total(self) -> int:
        """Measured and estimated together."""
        return self.measured + self.estimated


def measured_answer(messages: Sequence[Message], *, model: Model, fresh_from: int = 0) -> int:
    """Return the index of the last answer whose usage tells how full the context is.

    Args:
        messages: The conversation.
        model: The model in force; figures of another one do not count.
        fresh_from: Index of the first message that came after the last
            compaction; figures from before it tell of another context.

    Returns:
        The index, or -1.
    """
    for at in range(len(messages) - 1, fresh_from - 1, -1):
        message = messages[at]
        if (
            isinstance(message, AssistantMessage)
            and message.usage.total_tokens > message.usage.output_tokens  # else it is not told
            and message.stop_reason not in ("error", "aborted")
        ):
            same = (message.provider, message.model) == (model.provider, model.id)
            return at if same else -1
    return -1


def context_tokens(
    messages: Sequence[Message],
    *,
    model: Model,
    system: Iterable[PromptSection] = (),
    tools: Iterable[ToolSpec] = (),
    fresh_from: int = 0,
) -> ContextTokens:
    """Return how full the context is; as little as possible is estimated.

    Args:
        messages: The conversation.
        model: The model in force.
        system: Sections of the system prompt.
        tools: Declarations of the tools.
        fresh_from: As for ``measured_answer``.
    """
    at = measured_answer(messages, model=model, fresh_from=fresh_from)
    newer = sum(message_tokens(messages[i]) for i in range(at + 1, len(messages)))
    if at < 0:
        return ContextTokens(estimated=newer + system_tokens(system) + tools_tokens(tools))
    message = messages[at]
    measured = message.usage.total_tokens if isinstance(message, AssistantMessage) else 0
    return ContextTokens(measured=measured, measured_at=at, estimated=newer)


def _json_tokens(value: object) -> int:
    return text_tokens(msgspec.json.encode(value, enc_hook=str).decode("utf-8", "replace"))


def _document(block: DocumentBlock) -> int:
    data = block.source.get("data")
    if block.source.get("type") == "text" and isinstance(data, str):
        return text_tokens(data) + _BLOCK
    return DOCUMENT_TOKENS
