"""A conversation as text for the model that summarises it. Pure.

As text, since a summary may be asked of a model that never saw the
conversation, and since calls and results of a real conversation would be
gone on with rather than summarised.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

import msgspec

from agent_sdk.compaction.estimate import text_tokens
from agent_sdk.compaction.plan import is_query, shortened
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
    result_text,
)

RESULT_CHARS = 2_000
INPUT_CHARS = 1_200
OPEN, CLOSE = "<conversation>", "</conversation>"


def entries(messages: Sequence[Message]) -> list[str]:
    """Return each message as text; messages of which nothing is worth telling are left out.

    Reasoning is left out, results and inputs of calls are shortened.
    """
    names: dict[str, str] = {}
    told = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            names.update((call.id, call.name) for call in message.tool_calls)
            who = "Assistant"
        elif is_query(message):
            who = "User"
        else:
            who = "Note"
        lines = [line for block in message.content for line in _told(block, who, names)]
        if lines:
            told.append("\n".join(lines).replace(CLOSE, "< /conversation>"))
    return told


def _told(block: Block, who: str, names: dict[str, str]) -> Iterator[str]:
    match block:
        case TextBlock():
            if block.text.strip():
                yield f"[{who}] {block.text.strip()}"
        case ImageBlock():
            yield f"[{who}] (an image)"
        case DocumentBlock():
            yield f"[{who}] (a document: {block.title or 'untitled'})"
        case ToolUseBlock():
            given = msgspec.json.encode(block.input).decode("utf-8", "replace")
            yield f"[Call of {block.name}] {shortened(given, INPUT_CHARS)}"
        case ToolResultBlock():
            name = names.get(block.tool_use_id, "a tool")
            kind = "Failure" if block.is_error else "Result"
            yield f"[{kind} of {name}] {shortened(_result(block), RESULT_CHARS)}"
        case ThinkingBlock() | RedactedThinkingBlock() | OpaqueBlock():
            pass
        case _:
            assert_never(block)


def _result(block: ToolResultBlock) -> str:
    text = result_text(block)
    if isinstance(block.content, str):
        return text
    others = sum(not isinstance(b, TextBlock) for b in block.content)
    return f"{text} (and {others} image(s) or document(s))" if others else text


def pieces(told: Sequence[str], *, room: int) -> list[str]:
    """Join entries to pieces of at most about ``room`` tokens each, in order.

    An entry that is longer than a piece loses its middle, and says so.
    """
    joined: list[str] = []
    waiting: list[str] = []
    used = 0
    for entry in told:
        size = text_tokens(entry) + 2
        if size > room:
            entry = shortened(entry, max(40, len(entry) * room // size - 40))
            size = text_tokens(entry) + 2
        if waiting and used + size > room:
            joined.append("\n\n".join(waiting))
            waiting, used = [], 0
        waiting.append(entry)
        used += size
    if waiting:
        joined.append("\n\n".join(waiting))
    return joined
