"""One answer of the model: consumes the stream, starts early calls, knows what arrived.

What arrives is published as it comes. When the run is stopped in the middle,
the text that had arrived becomes the stored answer; its tool calls do not,
since none of them may run any more.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import assert_never

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import Aborted, ProviderError
from agent_sdk.loop.types import LoopConfig, LoopPorts, StreamProgress
from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    ModelRequest,
    Provider,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamRetry,
    StreamStart,
    StreamWaiting,
    TextDelta,
    ThinkingDelta,
)
from agent_sdk.providers.messages import AssistantMessage, Block, TextBlock, ToolUseBlock


class Answer:
    """What came of one request.

    Attributes:
        message: The answer, whole or cut; None if nothing of it arrived.
        error: Why it failed; None if it is whole or was stopped.
        aborted: Whether it was stopped.
    """

    __slots__ = ("aborted", "error", "message")

    def __init__(
        self,
        *,
        message: AssistantMessage | None,
        error: ProviderError | None = None,
        aborted: bool = False,
    ) -> None:
        self.message = message
        self.error = error
        self.aborted = aborted


class _Arrived:
    """The text that has arrived so far, for an answer that is cut."""

    __slots__ = ("blocks", "index", "parts")

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.parts: list[str] = []
        self.index = -1

    def add(self, index: int, text: str) -> None:
        if index != self.index:
            self.flush()
            self.index = index
        self.parts.append(text)

    def flush(self) -> None:
        if self.parts:
            self.blocks.append(TextBlock("".join(self.parts)))
            self.parts = []

    def end(self, block: Block) -> None:
        self.parts = []
        if not isinstance(block, ToolUseBlock):
            self.blocks.append(block)


async def receive(
    *,
    provider: Provider,
    request: ModelRequest,
    config: LoopConfig,
    ports: LoopPorts,
    signal: AbortSignal,
    on_call: Callable[[ToolUseBlock], None],
) -> Answer:
    """Send the request and take in the whole answer.

    Args:
        provider: The model's connection.
        request: What to send.
        config: The run's fixed facts.
        ports: Where progress is published.
        signal: Stops it; what had arrived is returned then.
        on_call: Told of each complete call as soon as its block has ended.

    Returns:
        The answer; failures and a stop are part of it, not raised.
    """
    arrived = _Arrived()
    try:
        return await signal.guard(
            _consume(provider.stream(request), emit=ports.emit, arrived=arrived, on_call=on_call)
        )
    except Aborted:
        arrived.flush()
        message = None
        if arrived.blocks:
            message = AssistantMessage(
                content=tuple(arrived.blocks),
                api=config.model.api,
                provider=config.model.provider,
                model=config.model.id,
                thinking_level=request.thinking_level,
                stop_reason="aborted",
            )
        return Answer(message=message, aborted=True)


async def _consume(
    stream: AsyncGenerator[StreamEvent, None],
    *,
    emit: Callable[[StreamProgress], None],
    arrived: _Arrived,
    on_call: Callable[[ToolUseBlock], None],
) -> Answer:
    async with contextlib.aclosing(stream):
        async for event in stream:
            match event:
                case TextDelta():
                    arrived.add(event.index, event.text)
                case BlockEnd():
                    arrived.end(event.block)
                    if isinstance(event.block, ToolUseBlock):
                        on_call(event.block)
                case StreamDone():
                    emit(StreamProgress(event))
                    return Answer(message=event.message)
                case StreamFailed():
                    emit(StreamProgress(event))
                    return Answer(message=event.partial, error=event.error)
                case (
                    StreamStart()
                    | BlockStart()
                    | ThinkingDelta()
                    | ArgsDelta()
                    | StreamWaiting()
                    | StreamRetry()
                ):
                    pass
                case _:
                    assert_never(event)
            emit(StreamProgress(event))
            if len(arrived.parts) & 0x3F == 0x3F:
                # A stream that never waits must not keep others from running.
                await asyncio.sleep(0)
    error = ProviderError(
        "The provider's stream ended without a last event.", kind="protocol", retryable=False
    )
    return Answer(message=None, error=error)


_NOT_FINAL = frozenset({"commentary", "partial_answer"})


def has_final_text(message: AssistantMessage) -> bool:
    """Whether an answer says something to the user that is meant to be its last word.

    Thinking alone is not, nor is text whose phase is ``commentary`` or
    ``partial_answer``; text without a phase is.
    """
    return any(
        isinstance(block, TextBlock)
        and block.text.strip()
        and (block.providerState or {}).get("phase") not in _NOT_FINAL
        for block in message.content
    )
