"""The check itself is checked: each rule of the contract is broken once."""

import pytest

from agent_sdk.core.errors import ProviderError
from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamStart,
    StreamWaiting,
    TextDelta,
    ThinkingDelta,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    StopReason,
    TextBlock,
    ToolUseBlock,
)
from agent_sdk.testing.conformance import ContractBroken, check_stream_contract


def message(*content: Block, stop_reason: StopReason = "end_turn") -> AssistantMessage:
    return AssistantMessage(
        content=content,
        api="openai-completions",
        provider="p",
        model="m",
        stop_reason=stop_reason,
        error="why" if stop_reason == "error" else "",
    )


HI = TextBlock("hi")
CALL = ToolUseBlock("c", "read", {"path": "a"})
TEXT: list[StreamEvent] = [
    StreamStart(),
    BlockStart(0, "text"),
    TextDelta(0, "hi"),
    BlockEnd(0, HI),
]
ARGS: list[StreamEvent] = [
    StreamStart(),
    BlockStart(0, "tool_use", "c", "read"),
    ArgsDelta(0, '{"path":'),
    ArgsDelta(0, '"a"}'),
    BlockEnd(0, CALL),
]
ERROR = ProviderError("why", kind="incomplete")
DONE = StreamDone(message(HI))


@pytest.mark.parametrize(
    "events",
    [
        [*TEXT, DONE],
        [*ARGS, StreamDone(message(CALL, stop_reason="tool_use"))],
        [StreamWaiting(1, 60), StreamStart(), StreamDone(message())],
        [StreamFailed(ERROR)],
        [*TEXT[:3], StreamFailed(ERROR, message(HI, stop_reason="error"))],
        [*ARGS[:3], StreamFailed(ERROR)],
    ],
)
def test_good_streams_pass(events: list[StreamEvent]) -> None:
    check_stream_contract(events)


@pytest.mark.parametrize(
    ("events", "rule"),
    [
        ([], "no events"),
        (TEXT, "neither StreamDone nor StreamFailed"),
        ([*TEXT, DONE, DONE], "not the last event"),
        ([*TEXT[1:], DONE], "before StreamStart"),
        ([StreamDone(message())], "without StreamStart"),
        ([TEXT[0], *TEXT, DONE], "second StreamStart"),
        ([*TEXT, StreamWaiting(1, 60), DONE], "after the answer has begun"),
        ([TEXT[0], BlockStart(1, "text"), DONE], "index is not 0"),
        ([TEXT[0], TEXT[2], DONE], "was not started"),
        ([*TEXT, TextDelta(0, "x"), DONE], "has ended before"),
        ([*TEXT[:2], ThinkingDelta(0, "x"), DONE], "is in a text block"),
        ([*TEXT[:2], TextDelta(0, ""), DONE], "empty delta"),
        ([*TEXT[:2], BlockEnd(0, HI), DONE], "the deltas say"),
        ([*TEXT[:2], BlockEnd(0, CALL), DONE], "started as text"),
        ([*TEXT[:3], DONE], "blocks that ended"),
        ([TEXT[0], BlockStart(0, "tool_use"), DONE], "without id or name"),
        ([*ARGS, BlockStart(1, "tool_use", "c", "x"), DONE], "used before"),
        ([*ARGS[:4], BlockEnd(0, ToolUseBlock("d", "read", {"path": "a"})), DONE], "changed"),
        ([*ARGS[:4], BlockEnd(0, ToolUseBlock("c", "read")), DONE], "the deltas say"),
        (
            [*ARGS[:3], BlockEnd(0, ToolUseBlock("c", "read", {"a": 1}, "cut")), DONE],
            "unusable call carries input",
        ),
        (
            [*TEXT[:2], BlockStart(1, "text"), BlockEnd(1, TextBlock("")), DONE],
            "earlier block is still open",
        ),
        ([*TEXT, StreamDone(message(HI, stop_reason="error"))], "a cut answer is not done"),
        ([*TEXT, StreamDone(message(HI, stop_reason="tool_use"))], "asks for no call"),
        ([*TEXT, StreamFailed(ERROR)], "is lost"),
        ([*TEXT, StreamFailed(ERROR, message(HI))], "stop reason 'error'"),
        (
            [*TEXT, StreamFailed(ERROR, message(TextBlock("h"), stop_reason="error"))],
            "that had arrived",
        ),
        ([*ARGS, StreamFailed(ERROR, message(CALL, stop_reason="error"))], "holds no calls"),
        ([StreamFailed(ERROR, message(stop_reason="error"))], "should be None"),
    ],
)
def test_each_broken_rule_is_found(events: list[StreamEvent], rule: str) -> None:
    with pytest.raises(ContractBroken, match=rule):
        check_stream_contract(events)
