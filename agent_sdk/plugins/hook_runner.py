"""Runs handlers: one after the other, each with its own copy, time and budget.

What an answer means is not known here. A handler that fails, runs out of time
or answers with something else than its event takes is an outcome like any
other; only the stop of the run and the cancellation of the caller raise.
"""

import asyncio
import copy
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, assert_never

import msgspec
from msgspec import Struct

from agent_sdk.core.aio import AbortSignal, TaskOwner
from agent_sdk.core.errors import Aborted, ZpiError
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.plugins.types import (
    ANSWERS,
    AddContext,
    BoundHook,
    EventName,
    HookInput,
    HookResult,
    PromptVerdict,
    StopVerdict,
    ToolVerdict,
    event_of,
)

CONTEXT_BUDGET = 24_000
"""Most characters that one invocation of a handler may tell the model."""
CUT = "\n[Cut: a handler may add at most 24,000 characters.]"
GRACE = 2.0
"""Seconds that a handler has to end after it was told to stop."""

HookStatus: TypeAlias = Literal["completed", "denied", "failed", "timed_out", "aborted"]

logger = logging.getLogger("zpi.hooks")


class HookStarted(Struct, frozen=True, kw_only=True):
    """A handler is about to be called.

    Attributes:
        event: The event.
        plugin_id: The handler's plugin.
        handler: Its name.
        invocation_id: Id of this invocation.
        tool_call_id: For events about calls: the call.
    """

    event: EventName
    plugin_id: str
    handler: str
    invocation_id: str
    tool_call_id: str = ""


class HookReport(Struct, frozen=True, kw_only=True):
    """What came of one invocation of a handler.

    Attributes:
        event: The event.
        plugin_id: The handler's plugin.
        handler: Its name.
        invocation_id: Id of this invocation.
        tool_call_id: For events about calls: the call.
        status: How it ended; ``denied`` is a completed one that refused.
        seconds: How long it took.
        context_characters: How much it tells the model.
        cut: Whether it wanted to tell more than its budget.
        replaced_input: Whether it put another input in the place of a call's.
        error: Why it failed, without the text of errors that are bugs.
        stuck: Whether it was still running when it was given up.
    """

    event: EventName
    plugin_id: str
    handler: str
    invocation_id: str
    tool_call_id: str = ""
    status: HookStatus
    seconds: float = 0.0
    context_characters: int = 0
    cut: bool = False
    replaced_input: bool = False
    error: str = ""
    stuck: bool = False


HookEvent: TypeAlias = HookStarted | HookReport


class Outcome(Struct, frozen=True, kw_only=True):
    """An invocation and its answer.

    Attributes:
        hook: The handler.
        report: What came of it.
        result: Its answer within its budget; None if it has none, or failed.
    """

    hook: BoundHook
    report: HookReport
    result: HookResult | None = None

    @property
    def failed(self) -> bool:
        """Whether the handler failed or ran out of time."""
        return self.report.status in ("failed", "timed_out")

    @property
    def blocks(self) -> bool:
        """Whether it failed, and its failure refuses."""
        return self.failed and self.hook.hook.on_error == "block"


class HookRunner:
    """Runs handlers of plugins.

    Args:
        ids: Source of invocation ids.
        clock: Measures durations.
        report: Told of each invocation before and after it.
        grace: Seconds that a handler has to end after it was told to stop.
    """

    def __init__(
        self,
        *,
        ids: Ids,
        clock: Clock,
        report: Callable[[HookEvent], None] | None = None,
        grace: float = GRACE,
    ) -> None:
        self._ids = ids
        self._clock = clock
        self._report = report
        self._grace = grace
        self._tasks = TaskOwner(name="hooks")

    async def run(
        self, hooks: Sequence[BoundHook], data: HookInput, signal: AbortSignal
    ) -> list[Outcome]:
        """Run handlers in order; each gets a copy of the same input.

        Raises:
            Aborted: If the signal was set; what is left is not run.
        """
        return [await self.invoke(hook, data, signal) for hook in hooks]

    async def invoke(self, hook: BoundHook, data: HookInput, signal: AbortSignal) -> Outcome:
        """Run one handler.

        Args:
            hook: The handler.
            data: What it is told; it gets a copy with an invocation id of its own.
            signal: Stops it.

        Returns:
            What came of it; its failure is part of it.

        Raises:
            Aborted: If the signal was set.
        """
        signal.raise_if_aborted()
        call = _Invocation(hook, data, self._ids.new())
        self._tell(call.started())
        begun = self._clock.monotonic()
        try:
            result = await self._answer(call, signal)
        except (Aborted, asyncio.CancelledError):
            self._tell(call.report("aborted", self._clock.monotonic() - begun))
            raise
        report = call.report(call.status, self._clock.monotonic() - begun, result)
        self._tell(report)
        if call.error is not None:
            what = f"handler {report.handler!r} of plugin {hook.plugin_id!r} on {report.event}"
            logger.warning("%s %s: %s", what, report.status, report.error)
        return Outcome(hook=hook, report=report, result=result)

    async def aclose(self) -> None:
        """Tell handlers that still run to stop, and wait for them no longer than the grace."""
        self._tasks.cancel()
        if self._tasks.running:
            drain = self._tasks.drain()
            try:
                await asyncio.wait_for(drain, self._grace)
            except TimeoutError:
                logger.warning("%d handlers do not end; they are left", self._tasks.running)

    async def _answer(self, call: "_Invocation", signal: AbortSignal) -> HookResult | None:
        own = AbortSignal()  # not a child: the run's signal must not keep it for ever
        stopped = asyncio.get_running_loop().create_future()

        def stop() -> None:
            own.abort(signal.reason)
            if not stopped.done():
                stopped.set_result(None)

        withdraw = signal.on_abort(stop)
        task = self._tasks.start(call.work(own), name=call.hook.hook.label)
        try:
            await asyncio.wait(
                (task, stopped),
                timeout=call.hook.hook.timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not task.done() and not own.aborted:
                call.time_out()
                own.abort(call.error or "")
        finally:
            withdraw()
            if not task.done():  # out of time, stopped, or our caller was cancelled
                own.abort("cancelled")
                call.stuck = not await self._end(task)
        if signal.aborted and call.error is None:
            signal.raise_if_aborted()
        return None if call.error is not None else call.take(task)

    def _tell(self, event: HookEvent) -> None:
        if self._report is None:
            return
        try:
            self._report(event)
        except Exception:
            logger.exception("a report of a handler could not be shown")

    async def _end(self, task: asyncio.Task[object]) -> bool:
        """Cancel a handler and wait a little; return whether it has ended."""
        task.cancel()
        await asyncio.wait((task,), timeout=self._grace)
        return task.done()


class _Invocation:
    """One call of one handler."""

    def __init__(self, hook: BoundHook, data: HookInput, invocation_id: str) -> None:
        self.hook = hook
        self.status: HookStatus = "completed"
        self.error: str | None = None
        self.stuck = False
        self._cut = False
        self._event = event_of(data)
        self._id = invocation_id
        self._call_id: str = getattr(data, "tool_call_id", "")
        copied = copy.deepcopy(data)
        self._data = msgspec.structs.replace(copied, invocation_id=invocation_id)

    def started(self) -> HookStarted:
        return HookStarted(
            event=self._event,
            plugin_id=self.hook.plugin_id,
            handler=self.hook.hook.label,
            invocation_id=self._id,
            tool_call_id=self._call_id,
        )

    def report(
        self, status: HookStatus, seconds: float, result: HookResult | None = None
    ) -> HookReport:
        return HookReport(
            event=self._event,
            plugin_id=self.hook.plugin_id,
            handler=self.hook.hook.label,
            invocation_id=self._id,
            tool_call_id=self._call_id,
            status=status,
            seconds=round(seconds, 3),
            context_characters=sum(map(len, _texts(result))),
            cut=self._cut,
            replaced_input=isinstance(result, ToolVerdict) and result.tool_input is not None,
            error=self.error or "",
            stuck=self.stuck,
        )

    async def work(self, signal: AbortSignal) -> object:
        answer: object = self.hook.hook.handler(self._data, signal)
        if not inspect.isawaitable(answer):
            raise _Unusable("It is not an async function.")
        return await answer

    def time_out(self) -> None:
        self.status = "timed_out"
        self.error = f"It did not end within {self.hook.hook.timeout:g} seconds."

    def take(self, task: asyncio.Task[object]) -> HookResult | None:
        """Return the answer of a handler that has ended; note why there is none."""
        try:
            result = self._checked(task.result())
        except asyncio.CancelledError:
            self._fail("It cancelled itself.")
        except ZpiError as error:
            self._fail(str(error))
        except Exception as error:
            # A bug of the plugin's: told without its text, which may hold anything.
            logger.debug("handler %r failed", self.hook.hook.label, exc_info=True)
            self._fail(f"It failed unexpectedly ({type(error).__name__}).")
        else:
            if _refuses(result):
                self.status = "denied"
            return result
        return None

    def _fail(self, why: str) -> None:
        self.status, self.error = "failed", why

    def _checked(self, answer: object) -> HookResult | None:
        if answer is None:
            return None
        wanted = ANSWERS[self._event]
        if wanted is None:
            raise _Unusable(f"It answered, though {self._event} is only observed.")
        if not isinstance(answer, wanted):
            kind = type(answer).__name__
            raise _Unusable(f"It answered with {kind}; {self._event} takes {wanted.__name__}.")
        try:
            # Its own copy, of nothing but JSON: the handler may keep what it made.
            own = msgspec.json.decode(msgspec.json.encode(answer), type=wanted)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise _Unusable(f"Its answer is not usable: {error}") from None
        if isinstance(own, PromptVerdict) and len(own.refuse) > CONTEXT_BUDGET:
            own = msgspec.structs.replace(own, refuse=own.refuse[:CONTEXT_BUDGET])
        return self._within_budget(own)

    def _within_budget(self, result: HookResult) -> HookResult:
        texts = list(_texts(result))
        if sum(map(len, texts)) <= CONTEXT_BUDGET:
            return result
        self._cut = True
        left = CONTEXT_BUDGET - len(CUT)
        kept = []
        for text in texts:
            kept.append(text[:left])
            left -= len(kept[-1])
            if left <= 0:
                break
        kept[-1] += CUT
        return _with_texts(result, kept)


class _Unusable(ZpiError):
    """A handler or its answer is not what it has to be."""

    code = "hook"


def _texts(result: HookResult | None) -> Sequence[str]:
    """Return what an answer would tell the model, a refusal's reason first."""
    match result:
        case None:
            return ()
        case StopVerdict():
            return (result.feedback,)
        case ToolVerdict():
            return (result.reason, *result.context)
        case AddContext() | PromptVerdict():
            return result.context
        case _:
            assert_never(result)


def _with_texts(result: HookResult, texts: Sequence[str]) -> HookResult:
    match result:
        case StopVerdict():
            return StopVerdict(feedback=texts[0])
        case ToolVerdict():
            return msgspec.structs.replace(result, reason=texts[0], context=tuple(texts[1:]))
        case AddContext() | PromptVerdict():
            return msgspec.structs.replace(result, context=tuple(texts))
        case _:
            assert_never(result)


def _refuses(result: HookResult | None) -> bool:
    if isinstance(result, ToolVerdict):
        return result.decision == "deny"
    return isinstance(result, PromptVerdict) and bool(result.refuse)
