"""The conversation as wire APIs want it: answers, each followed by its results.

The stored history is a flat list in which each result is a message of its own
and a call may have lost its result. ``segments`` groups it; ``History`` does
so for a conversation that grows, and keeps what was made of each group, so
that a message is encoded once however often the conversation is sent.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import is_

from msgspec import Struct

from agent_sdk.providers.convert import NO_RESULT
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    result_text,
)


class Segment(Struct, frozen=True):
    """One answer and everything up to the next.

    Attributes:
        answer: The model's answer; None before the first.
        results: One result for each of its calls, in the order of the calls.
        content: What the user side says after that: the blocks of all user
            messages, in order. Consecutive user messages are joined thereby.
    """

    answer: AssistantMessage | None
    results: tuple[ToolResultBlock, ...] = ()
    content: tuple[Block, ...] = ()


def speaks(message: Message) -> bool:
    """Whether the message is an answer that an API will accept as a turn.

    An answer that was cut before any text or call arrived is left out.
    """
    return isinstance(message, AssistantMessage) and any(
        isinstance(b, ToolUseBlock) or (isinstance(b, TextBlock) and b.text.strip())
        for b in message.content
    )


def segments(messages: Sequence[Message]) -> Iterator[Segment]:
    """Group a conversation; calls without a result get an error result."""
    for start, end in _bounds(messages, 0):
        yield _segment(messages[start:end])


def _bounds(messages: Sequence[Message], start: int) -> Iterator[tuple[int, int]]:
    """Yield where each segment begins and ends."""
    first = start
    for at in range(start, len(messages)):
        if at > first and speaks(messages[at]):
            yield first, at
            first = at
    if first < len(messages):
        yield first, len(messages)


def _segment(messages: Sequence[Message]) -> Segment:
    head = messages[0]
    answer = head if isinstance(head, AssistantMessage) and speaks(head) else None
    calls = answer.tool_calls if answer else ()
    found: dict[str, ToolResultBlock] = {}
    content: list[Block] = []
    known = {c.id for c in calls}
    for message in messages:
        if not isinstance(message, UserMessage):
            continue
        for block in message.content:
            if not isinstance(block, ToolResultBlock):
                content.append(block)
            elif block.tool_use_id in known:
                found.setdefault(block.tool_use_id, block)
            else:
                content.append(_stray(block))
    results = tuple(
        found.get(c.id) or ToolResultBlock(c.id, NO_RESULT, is_error=True) for c in calls
    )
    return Segment(answer, results, tuple(content))


def _stray(block: ToolResultBlock) -> TextBlock:
    """A result whose call is not in the conversation any more: kept as text."""
    return TextBlock(f"Result of the earlier call {block.tool_use_id!r}:\n{result_text(block)}")


class History:
    """Encodes a growing conversation, each of its segments once.

    The pieces of segments that were sent before are reused as long as the
    conversation begins with the very same message objects.
    """

    def __init__(self, encode: Callable[[Segment], Sequence[bytes]]) -> None:
        self._encode = encode
        self._messages: list[Message] = []
        self._ends: list[int] = []  # how many messages the first n segments cover
        self._pieces: list[bytes] = []  # what was made of each segment, joined

    def pieces(self, messages: Sequence[Message]) -> list[bytes]:
        """Return the encoded segments: items joined by commas, none empty.

        Args:
            messages: The whole conversation.
        """
        kept = self._keep(messages)
        start = self._ends[kept - 1] if kept else 0
        for first, end in _bounds(messages, start):
            self._pieces.append(b",".join(self._encode(_segment(messages[first:end]))))
            self._ends.append(end)
        self._messages = list(messages)
        return [piece for piece in self._pieces if piece]

    def _keep(self, messages: Sequence[Message]) -> int:
        """Drop the segments that do not hold any more; return how many do."""
        old, count = self._messages, len(self._ends)
        if len(messages) < len(old) or not all(map(is_, old, messages)):
            same = next(
                (i for i, (a, b) in enumerate(zip(old, messages, strict=False)) if a is not b), None
            )
            limit = min(len(old), len(messages)) if same is None else same
            while count and self._ends[count - 1] > limit:
                count -= 1
        # The last segment goes on unless an answer follows it.
        last = self._ends[count - 1] if count else 0
        if count and last < len(messages) and not speaks(messages[last]):
            count -= 1
        del self._ends[count:], self._pieces[count:]
        return count
