"""Conversations for tests of compaction: short ways to write them, and to make them up."""

from collections.abc import Callable

from hypothesis import strategies as st

from agent_sdk.compaction.estimate import context_tokens, message_tokens
from agent_sdk.compaction.plan import Conversation
from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import ModelRequest
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    Message,
    Origin,
    OriginKind,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model
from agent_sdk.testing.provider import Answer, ScriptedBlock, answer

SMALL = Model(
    id="m", provider="p", api="openai-completions", context_window=8_000, max_output=1_000
)


def ask(text: str, kind: OriginKind = "human") -> UserMessage:
    return UserMessage(content=(TextBlock(text),), origin=Origin(kind))


def say(text: str = "", *calls: str, usage: Usage | None = None) -> AssistantMessage:
    content: tuple[Block, ...] = (
        *((TextBlock(text),) if text else ()),
        *(ToolUseBlock(call, "read", {"path": f"{call}.py"}) for call in calls),
    )
    return AssistantMessage(
        content=content,
        api="openai-completions",
        provider="p",
        model="m",
        stop_reason="tool_use" if calls else "end_turn",
        usage=usage or Usage(),
    )


def got(call: str, text: str = "content") -> UserMessage:
    return UserMessage(content=(ToolResultBlock(call, text),))


def words(count: int, word: str = "word") -> str:
    return " ".join([word] * count)


def turns(*queries: str, size: int = 300) -> list[Message]:
    """Return queries, each with one call, its result, and an answer."""
    messages: list[Message] = []
    for i, query in enumerate(queries):
        messages += [
            ask(query),
            say("", f"c{i}"),
            got(f"c{i}", words(size, f"r{i}")),
            say(f"answer to {query}"),
        ]
    return messages


def conversation(
    messages: list[Message], model: Model = SMALL, *, fresh_from: int = 0
) -> Conversation:
    return Conversation(
        messages=messages,
        uuids=[f"u{i}" for i in range(len(messages))],
        tokens=context_tokens(messages, model=model, fresh_from=fresh_from),
        fresh_from=fresh_from,
    )


def measured(*steps: str | ScriptedBlock) -> Callable[[ModelRequest], Answer]:
    """Script an answer whose usage tells how large its request was."""

    def make(request: ModelRequest) -> Answer:
        size = sum(map(message_tokens, request.messages))
        return answer(*steps, usage=Usage(input_tokens=size, output_tokens=20))

    return make


@st.composite
def talks(draw: st.DrawFn, *, most: int = 8) -> list[Message]:
    """Return whole conversations: every call has its result, before the next answer."""
    messages: list[Message] = []
    size = st.sampled_from([0, 5, 100, 700])
    count = 0
    for i in range(draw(st.integers(1, most))):
        messages.append(ask(f"query {i} {words(draw(size), draw(st.sampled_from('词w')))}"))
        for _ in range(draw(st.integers(0, 4))):
            calls = [f"c{count + n}" for n in range(draw(st.integers(1, 3)))]
            count += len(calls)
            messages.append(say(draw(st.sampled_from(["", "Let me look."])), *calls))
            messages += [got(call, words(draw(size))) for call in draw(st.permutations(calls))]
            if draw(st.booleans()):
                messages.append(ask("and this", draw(st.sampled_from(["steered", "hook"]))))
        if draw(st.booleans()):
            messages.append(say(f"done {i}"))
    return messages


def unpaired(messages: list[Message]) -> set[str]:
    """Return ids of calls without a result behind them, and of results without a call before."""
    asked: set[str] = set()
    wrong: set[str] = set()
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                asked.add(block.id)
            elif isinstance(block, ToolResultBlock):
                if block.tool_use_id not in asked:
                    wrong.add(block.tool_use_id)
                asked.discard(block.tool_use_id)
    return wrong | asked
