"""Checks that hold for every implementation of a seam.

``check_stream_contract`` asserts the contract of ``agent_sdk.providers.base``
over the events of one answer; an adapter's recordings, a live provider and a
fake all have to pass it.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamRetry,
    StreamStart,
    StreamWaiting,
    TextDelta,
    ThinkingDelta,
)
from agent_sdk.providers.messages import (
    Block,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)

_KINDS: dict[BlockKind, type[Block]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "redacted_thinking": RedactedThinkingBlock,
    "tool_use": ToolUseBlock,
}
_DELTAS: dict[type, BlockKind] = {
    TextDelta: "text",
    ThinkingDelta: "thinking",
    ArgsDelta: "tool_use",
}


class ContractBroken(AssertionError):
    """A stream of events breaks the provider contract; the text says where."""


class _Open(Struct):
    """A block while it is being followed."""

    start: BlockStart
    parts: list[str]
    block: Block | None = None


def check_stream_contract(events: Sequence[StreamEvent]) -> None:
    """Assert that the events of one answer keep the provider contract.

    Args:
        events: Everything that ``Provider.stream`` yielded, or that a decoder
            returned for one whole answer.

    Raises:
        ContractBroken: At the first rule that does not hold; names the event.
    """
    if not events:
        raise ContractBroken("no events at all; the last must be StreamDone or StreamFailed")
    started = False
    blocks: list[_Open] = []
    for at, event in enumerate(events[:-1]):
        where = f"event {at}, {event!r}:"
        match event:
            case StreamStart():
                _need(not started, where, "a second StreamStart")
                started = True
            case StreamRetry() | StreamWaiting():
                _need(not started, where, "comes after the answer has begun")
            case StreamDone() | StreamFailed():
                _need(False, where, "is not the last event")
            case _:
                _need(started, where, "comes before StreamStart")
                _follow(event, blocks, where)
    _check_end(events[-1], blocks, started)


def _need(holds: bool, where: str, what: str) -> None:  # noqa: FBT001 - an assertion
    if not holds:
        raise ContractBroken(f"{where} {what}")


def _follow(
    event: BlockStart | TextDelta | ThinkingDelta | ArgsDelta | BlockEnd,
    blocks: list[_Open],
    where: str,
) -> None:
    if isinstance(event, BlockStart):
        _need(event.index == len(blocks), where, f"index is not {len(blocks)}")
        if event.kind == "tool_use":
            _need(bool(event.tool_id and event.tool_name), where, "a call without id or name")
            ids = {b.start.tool_id for b in blocks}
            _need(event.tool_id not in ids, where, "its call id was used before")
        blocks.append(_Open(event, []))
        return
    _need(0 <= event.index < len(blocks), where, "the block was not started")
    block = blocks[event.index]
    _need(block.block is None, where, "the block has ended before")
    if isinstance(event, BlockEnd):
        _need(
            all(b.block is not None for b in blocks[: event.index]),
            where,
            "an earlier block is still open",
        )
        block.block = event.block
        _check_block(block, event.block, where)
    else:
        _need(_DELTAS[type(event)] == block.start.kind, where, f"is in a {block.start.kind} block")
        _need(event.text != "", where, "an empty delta")
        block.parts.append(event.text)


def _check_block(seen: _Open, block: Block, where: str) -> None:
    start, whole = seen.start, "".join(seen.parts)
    _need(isinstance(block, _KINDS[start.kind]), where, f"the block was started as {start.kind}")
    match block:
        case TextBlock():
            _need(block.text == whole, where, f"the deltas say {whole!r}")
        case ThinkingBlock():
            _need(block.thinking == whole, where, f"the deltas say {whole!r}")
        case ToolUseBlock():
            _need(
                (block.id, block.name) == (start.tool_id, start.tool_name),
                where,
                "id and name changed",
            )
            if block.input_error:
                _need(block.input == {}, where, "an unusable call carries input")
            elif whole:
                _need(msgspec.json.decode(whole) == block.input, where, f"the deltas say {whole!r}")
        case _:
            pass


def _check_end(event: StreamEvent, blocks: list[_Open], started: bool) -> None:  # noqa: FBT001
    where = f"last event, {event!r}:"
    if isinstance(event, StreamDone):
        _need(started, where, "an answer without StreamStart")
        message = event.message
        ended = tuple(b.block for b in blocks)
        _need(message.content == ended, where, f"the blocks that ended are {ended!r}")
        _need(message.stop_reason not in {"error", "aborted"}, where, "a cut answer is not done")
        if message.stop_reason == "tool_use":
            _need(bool(message.tool_calls), where, "asks for no call")
        return
    _need(isinstance(event, StreamFailed), where, "is neither StreamDone nor StreamFailed")
    if isinstance(event, StreamFailed):
        _check_partial(event, blocks, where)


def _check_partial(event: StreamFailed, blocks: list[_Open], where: str) -> None:
    partial = event.partial
    said = "".join("".join(b.parts) for b in blocks if b.start.kind == "text")
    if partial is None:
        _need(not said, where, f"the text that had arrived is lost: {said!r}")
        return
    _need(partial.stop_reason == "error", where, "a partial answer has stop reason 'error'")
    _need(bool(partial.error), where, "a partial answer names the error")
    _need(not partial.tool_calls, where, "a partial answer holds no calls")
    _need(bool(partial.content), where, "an empty partial answer should be None")
    _need(partial.text == said, where, f"the text that had arrived is {said!r}")


__all__ = ["ContractBroken", "check_stream_contract"]
