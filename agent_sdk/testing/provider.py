"""The one fake model: answers are written down, then played as stream events.

    provider = ScriptedProvider(
        answer(text("Let me look."), tool_call("read", {"path": "a.txt"})),
        answer("Done."),
    )

It honours the contract of ``agent_sdk.providers.base`` to the letter, records
the requests it gets, and can stop anywhere in an answer until a test lets it
go on, so that tests of loops, sessions and hosts need no server and no sleep.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias, assert_never

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import ProviderError
from agent_sdk.core.ids import Clock, SystemClock
from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    ModelRequest,
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
    AssistantMessage,
    Block,
    Json,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)

DELTAS = 3
"""Into how many deltas a text is cut when the script does not say."""


class Gate:
    """A place in an answer where the provider stops until a test opens it.

    Attributes:
        reached: Set when the provider has come to the gate.
    """

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        """Let the provider go on; a gate stays open."""
        self._opened.set()

    async def wait(self) -> None:
        """Say that the gate is reached and wait until it is open."""
        self.reached.set()
        await self._opened.wait()


Pause: TypeAlias = Gate | asyncio.Event | float
"""A stop in an answer: a gate, an event, or seconds on the provider's clock."""


class ScriptedBlock(Struct, frozen=True):
    """A block as it will be streamed.

    Attributes:
        block: The block in its final form.
        deltas: Its text in pieces, with the pauses between them.
    """

    block: TextBlock | ThinkingBlock | ToolUseBlock
    deltas: tuple[str | Pause, ...]


class Answer(Struct, frozen=True, kw_only=True):
    """One answer of the model, or one failure.

    Attributes:
        steps: Blocks and pauses, in order.
        stop_reason: Why it ends; None takes ``tool_use`` if there are calls
            and ``end_turn`` if not.
        usage: Tokens it is said to have cost.
        before: Events before the answer begins (waiting, retries).
        error: Set for a failure, which comes after the steps. Calls among the
            steps of a failure were streamed, but are not in its partial answer.
    """

    steps: tuple[ScriptedBlock | Pause, ...] = ()
    stop_reason: StopReason | None = None
    usage: Usage = Usage(input_tokens=10, output_tokens=5)
    before: tuple[StreamWaiting | StreamRetry, ...] = ()
    error: ProviderError | None = None


Script: TypeAlias = Answer | Callable[[ModelRequest], Answer | Awaitable[Answer]]
"""An answer, or what makes one of the request (also asynchronously)."""


def _split(whole: str, count: int) -> tuple[str, ...]:
    size = max(1, -(-len(whole) // max(1, count)))
    return tuple(whole[at : at + size] for at in range(0, len(whole), size))


def _deltas(parts: tuple[str | Pause, ...], count: int) -> tuple[str | Pause, ...]:
    if len(parts) == 1 and isinstance(parts[0], str):
        return _split(parts[0], count)
    return parts


def text(
    *parts: str | Pause, deltas: int = DELTAS, state: Mapping[str, Any] | None = None
) -> ScriptedBlock:
    """Script a text block.

    Args:
        parts: Its text; several parts are one delta each, and pauses may
            stand between them.
        deltas: Into how many deltas a single part is cut.
        state: The block's ``providerState``.
    """
    whole = "".join(p for p in parts if isinstance(p, str))
    block = TextBlock(whole, dict(state) if state else None)
    return ScriptedBlock(block, _deltas(parts, deltas))


def thinking(*parts: str | Pause, deltas: int = DELTAS, signature: str = "") -> ScriptedBlock:
    """Script a reasoning block; parts as for ``text``."""
    whole = "".join(p for p in parts if isinstance(p, str))
    return ScriptedBlock(ThinkingBlock(whole, signature), _deltas(parts, deltas))


def tool_call(
    name: str,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - the block's own field name
    *,
    id: str = "",  # noqa: A002 - the block's own field name
    input_error: str = "",
    deltas: int = DELTAS,
) -> ScriptedBlock:
    """Script a tool call.

    Args:
        name: The tool.
        input: Its arguments; none for an empty object.
        id: Id of the call; empty lets the provider count ``call_1``, ``call_2`` …
        input_error: Makes it a call whose arguments did not arrive whole.
        deltas: Into how many deltas the arguments' JSON is cut.
    """
    given: Json = dict(input or {})
    wire = msgspec.json.encode(given).decode()
    if input_error:
        wire, given = wire[:-1], {}
    block = ToolUseBlock(id=id, name=name, input=given, input_error=input_error)
    return ScriptedBlock(block, _split(wire, deltas))


def answer(
    *steps: str | ScriptedBlock | Gate | asyncio.Event | float,
    stop_reason: StopReason | None = None,
    usage: Usage | None = None,
    before: tuple[StreamWaiting | StreamRetry, ...] = (),
) -> Answer:
    """Script an answer; a string stands for a text block, a number for a pause.

    Args:
        steps: Blocks and pauses, in order.
        stop_reason: Why it ends; worked out from the blocks if not given.
        usage: Its tokens; 10 in and 5 out if not given.
        before: Events before the answer begins.
    """
    return Answer(
        steps=tuple(text(s) if isinstance(s, str) else s for s in steps),
        stop_reason=stop_reason,
        usage=usage if usage is not None else Usage(input_tokens=10, output_tokens=5),
        before=before,
    )


def failure(
    kind: str = "network",
    *steps: str | ScriptedBlock | Gate | asyncio.Event | float,
    message: str = "",
    retryable: bool = False,
    status: int | None = None,
) -> Answer:
    """Script a failure.

    Args:
        kind: Kind of the ``ProviderError``.
        steps: What arrives before it.
        message: Its text.
        retryable: Whether the error says that a retry may help.
        status: HTTP status, where there was one.
    """
    error = ProviderError(
        message or f"Scripted failure of kind {kind!r}.",
        kind=kind,
        retryable=retryable,
        status=status,
    )
    return Answer(steps=tuple(text(s) if isinstance(s, str) else s for s in steps), error=error)


class ScriptedProvider:
    """A ``Provider`` that plays a script, one answer for each request.

    A request for which nothing is scripted fails with an error of kind
    ``invalid_request`` that says so.

    Attributes:
        requests: The requests in the order they came.
        cancelled: How many answers were left before their last event.
        closed: Whether ``aclose`` was called.
    """

    def __init__(self, *script: Script, clock: Clock | None = None) -> None:
        self.requests: list[ModelRequest] = []
        self.cancelled = 0
        self.closed = False
        self._script: deque[Script] = deque(script)
        self._clock = clock or SystemClock()
        self._calls = 0
        self._playing = False

    @property
    def left(self) -> int:
        """How many answers have not been asked for."""
        return len(self._script)

    def push(self, *script: Script) -> None:
        """Add answers at the end of the script."""
        self._script.extend(script)

    async def aclose(self) -> None:
        """Mark the provider as closed; may be called twice."""
        self.closed = True

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Play the next answer of the script.

        Raises:
            RuntimeError: If requests overlap or the provider is closed, which
                the contract forbids to the caller.
        """
        if self._playing:
            raise RuntimeError("A provider's requests must not overlap.")
        if self.closed:
            raise RuntimeError("The provider is closed.")
        self._playing = True
        finished = False
        self.requests.append(_snapshot(request))
        try:
            async with aclosing(self._play(request)) as played:
                async for event in played:
                    finished = isinstance(event, StreamDone | StreamFailed)
                    if finished:  # the next request may come before this one is closed
                        self._playing = False
                    yield event
        finally:
            if not finished:
                self._playing = False
                self.cancelled += 1

    async def _play(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        number = len(self.requests)
        if not self._script:
            yield StreamFailed(
                ProviderError(
                    f"Nothing is scripted for request {number}.",
                    kind="invalid_request",
                    hint="Give ScriptedProvider another answer.",
                )
            )
            return
        script = self._script.popleft()
        if not isinstance(script, Answer):
            made = script(request)
            script = await made if inspect.isawaitable(made) else made
        for early in script.before:
            yield early
        if script.error is None or script.steps:
            yield StreamStart(f"response_{number}", request.model.id)
        blocks: list[Block] = []
        for step in script.steps:
            if isinstance(step, ScriptedBlock):
                async with aclosing(self._block(step, len(blocks))) as streamed:
                    async for event in streamed:
                        yield event
                        if isinstance(event, BlockEnd):
                            blocks.append(event.block)
            else:
                await self._pause(step)
        yield _last(script, request, (number, tuple(blocks)))

    async def _block(self, step: ScriptedBlock, index: int) -> AsyncGenerator[StreamEvent, None]:
        block = step.block
        delta: type[TextDelta | ThinkingDelta | ArgsDelta]
        match block:
            case ToolUseBlock():
                if not block.id:
                    self._calls += 1
                    block = msgspec.structs.replace(block, id=f"call_{self._calls}")
                yield BlockStart(index, "tool_use", block.id, block.name)
                delta = ArgsDelta
            case ThinkingBlock():
                yield BlockStart(index, "thinking")
                delta = ThinkingDelta
            case TextBlock():
                yield BlockStart(index, "text")
                delta = TextDelta
            case _:
                assert_never(block)
        for part in step.deltas:
            if isinstance(part, str):
                await asyncio.sleep(0)  # as a network would, let others run in between
                yield delta(index, part)
            else:
                await self._pause(part)
        yield BlockEnd(index, block)

    async def _pause(self, pause: Pause) -> None:
        if isinstance(pause, Gate | asyncio.Event):
            await pause.wait()
        else:
            await self._clock.sleep(pause)


def _snapshot(request: ModelRequest) -> ModelRequest:
    """Keep the messages as they are now; the caller's list may grow."""
    return msgspec.structs.replace(request, messages=tuple(request.messages))


def _last(
    script: Answer, request: ModelRequest, played: tuple[int, tuple[Block, ...]]
) -> StreamEvent:
    number, blocks = played
    calls = any(isinstance(b, ToolUseBlock) for b in blocks)
    if script.error is None:
        return StreamDone(
            AssistantMessage(
                content=blocks,
                api=request.model.api,
                provider=request.model.provider,
                model=request.model.id,
                stop_reason=script.stop_reason or ("tool_use" if calls else "end_turn"),
                usage=script.usage,
                thinking_level=request.thinking_level,
                response_id=f"response_{number}",
            )
        )
    kept = tuple(b for b in blocks if not isinstance(b, ToolUseBlock))
    if not kept:
        return StreamFailed(script.error)
    partial = AssistantMessage(
        content=kept,
        api=request.model.api,
        provider=request.model.provider,
        model=request.model.id,
        stop_reason="error",
        thinking_level=request.thinking_level,
        response_id=f"response_{number}",
        error=script.error.message,
    )
    return StreamFailed(script.error, partial)
