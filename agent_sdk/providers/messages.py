"""Messages and their blocks, in the shape of the Anthropic Messages API.

The same structs are sent to models, stored in session files and shown. They
are frozen: a provider may keep the bytes it once made of a message. Blocks of
a kind that this version does not know are kept as ``OpaqueBlock`` with their
JSON untouched, so that a stored history never loses anything.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.usage import Usage

Json: TypeAlias = dict[str, Any]

StopReason: TypeAlias = Literal[
    "end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "error", "aborted"
]
"""Why an answer ended. ``error`` and ``aborted`` mark answers that were cut:
they are kept for the reader and hold no tool calls."""

OriginKind: TypeAlias = Literal[
    "human", "queued", "steered", "hook", "context", "mailbox", "summary", "retry"
]


class TextBlock(Struct, frozen=True, tag_field="type", tag="text", omit_defaults=True):
    """Plain text. ``providerState`` is opaque and goes back to the same model only."""

    text: str
    providerState: Json | None = None  # noqa: N815 - wire name


class ThinkingBlock(Struct, frozen=True, tag_field="type", tag="thinking", omit_defaults=True):
    """The model's reasoning, with the signature that lets it be sent back."""

    thinking: str
    signature: str = ""
    providerState: Json | None = None  # noqa: N815 - wire name


class RedactedThinkingBlock(
    Struct, frozen=True, tag_field="type", tag="redacted_thinking", omit_defaults=True
):
    """Reasoning that the provider encrypted."""

    data: str
    providerState: Json | None = None  # noqa: N815 - wire name


class ImageBlock(Struct, frozen=True, tag_field="type", tag="image", omit_defaults=True):
    """An image; ``source`` is base64, a URL, or an artifact by its hash."""

    source: Json


class DocumentBlock(Struct, frozen=True, tag_field="type", tag="document", omit_defaults=True):
    """A document, such as a PDF; ``source`` as for images."""

    source: Json
    title: str | None = None


class ToolUseBlock(Struct, frozen=True, tag_field="type", tag="tool_use", omit_defaults=True):
    """A call that the model asks for; ``input`` is a JSON object.

    Attributes:
        input_error: Set when the arguments did not arrive whole or are not a
            JSON object; such a call is never run. Stored as ``inputError``.
    """

    id: str
    name: str
    input: Json = msgspec.field(default_factory=dict)
    input_error: str = msgspec.field(default="", name="inputError")
    providerState: Json | None = None  # noqa: N815 - wire name


class ToolResultBlock(Struct, frozen=True, tag_field="type", tag="tool_result", omit_defaults=True):
    """What a call came to."""

    tool_use_id: str
    content: str | tuple["TextBlock | ImageBlock | DocumentBlock", ...] = ""
    is_error: bool = False


class OpaqueBlock:
    """A block of an unknown type, kept as it was stored.

    Attributes:
        raw: The block's JSON object.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Json) -> None:
        self.raw = raw

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueBlock) and self.raw == other.raw

    @override
    def __hash__(self) -> int:
        return hash(str(self.raw))

    @override
    def __repr__(self) -> str:
        return f"OpaqueBlock({self.raw!r})"


ResultContent: TypeAlias = TextBlock | ImageBlock | DocumentBlock
KnownBlock: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ImageBlock
    | DocumentBlock
    | ToolUseBlock
    | ToolResultBlock
)
Block: TypeAlias = KnownBlock | OpaqueBlock

_KNOWN = frozenset(
    {"text", "thinking", "redacted_thinking", "image", "document", "tool_use", "tool_result"}
)


class Origin(Struct, frozen=True, omit_defaults=True):
    """Where a user message came from; ``id`` ties it to a queue or mailbox item."""

    kind: OriginKind
    id: str | None = None


class UserMessage(Struct, frozen=True, kw_only=True):
    """Something said to the model: a prompt, context, or one call's result."""

    content: tuple[Block, ...]
    origin: Origin = Origin("human")

    @property
    def text(self) -> str:
        """All text of the message, joined."""
        return "".join(b.text for b in self.content if isinstance(b, TextBlock))


class AssistantMessage(Struct, frozen=True, kw_only=True):
    """One answer of a model.

    Attributes:
        api: Wire API that produced it, for instance ``anthropic-messages``.
        provider: Configured provider, for instance ``anthropic``.
        model: Model id as sent to the provider.
        thinking_level: Reasoning level in force; empty when none was asked for.
        usage: Tokens of this one request.
        response_id: The provider's id of the answer, where it gave one.
        error: What went wrong, when ``stop_reason`` is ``error``.
    """

    content: tuple[Block, ...]
    api: str
    provider: str
    model: str
    stop_reason: StopReason
    usage: Usage = Usage()
    thinking_level: str = ""
    response_id: str = ""
    error: str = ""

    @property
    def text(self) -> str:
        """All text of the message, joined."""
        return "".join(b.text for b in self.content if isinstance(b, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls it asks for, in order."""
        return tuple(b for b in self.content if isinstance(b, ToolUseBlock))


Message: TypeAlias = UserMessage | AssistantMessage


def block_to_json(block: Block) -> Json:
    """Return the block as the JSON object that is stored."""
    if isinstance(block, OpaqueBlock):
        return block.raw
    data: Json = msgspec.to_builtins(block)
    if isinstance(block, ToolUseBlock) and "input" not in data:
        data["input"] = {}
    return data


def block_from_json(data: Json) -> Block:
    """Return the block for a stored JSON object; unknown ones are kept whole.

    A known block that carries fields this version does not know is kept as an
    opaque block too, since decoding it would drop them.
    """
    if data.get("type") in _KNOWN:
        try:
            block: KnownBlock = msgspec.convert(data, type=KnownBlock)
        except msgspec.ValidationError:
            return OpaqueBlock(data)
        if set(data) <= _FIELDS[type(block)]:
            return block
    return OpaqueBlock(data)


_FIELDS: dict[type, frozenset[str]] = {
    cls: frozenset({"type", *(f.encode_name for f in msgspec.structs.fields(cls))})
    for cls in (
        TextBlock,
        ThinkingBlock,
        RedactedThinkingBlock,
        ImageBlock,
        DocumentBlock,
        ToolUseBlock,
        ToolResultBlock,
    )
}


def result_text(result: ToolResultBlock) -> str:
    """Return the text of a tool result, without its images."""
    if isinstance(result.content, str):
        return result.content
    return "".join(b.text for b in result.content if isinstance(b, TextBlock))


__all__ = [
    "AssistantMessage",
    "Block",
    "DocumentBlock",
    "ImageBlock",
    "Json",
    "KnownBlock",
    "Message",
    "OpaqueBlock",
    "Origin",
    "OriginKind",
    "RedactedThinkingBlock",
    "ResultContent",
    "StopReason",
    "TextBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "UserMessage",
    "block_from_json",
    "block_to_json",
    "result_text",
]
