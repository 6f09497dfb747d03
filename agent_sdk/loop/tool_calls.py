"""The calls of one answer: checked, authorised, scheduled, each with one result.

Calls that only read and may overlap run side by side; a call with side
effects waits for all before it and everything after it waits for it, so that
the model's order holds wherever it can be noticed. Whatever happens, each
call gets exactly one durable result.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence

import msgspec

from agent_sdk.core.aio import AbortSignal, TaskOwner
from agent_sdk.core.errors import Aborted, InvalidToolInput, ToolError, ZpiError
from agent_sdk.core.ids import Clock
from agent_sdk.loop.extension import RunExtension
from agent_sdk.loop.guards import LoopGuards, with_notice
from agent_sdk.loop.types import (
    Decision,
    LoopConfig,
    LoopPorts,
    Notice,
    PreparedCall,
    Tool,
    ToolContext,
    ToolFinished,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from agent_sdk.providers.messages import Json, ToolResultBlock, ToolUseBlock, UserMessage

logger = logging.getLogger("zpi.loop")

TRUNCATED = "TRUNCATED_ARGUMENTS"
INTERRUPTED = "Interrupted while it ran: {reason}. What it had done so far stays."
NOT_RUN = "Not run: the run ended before this call began ({reason})."
CUT_OFF = (
    "Not run: the answer hit the output limit, so its calls may be incomplete. "
    "Send the call again, in smaller steps if it was long."
)


class Outcome(msgspec.Struct):
    """What a call came to, before it is stored.

    Attributes:
        result: What the tool returned, bounded.
        seconds: How long it ran.
        ran: Whether it ran at all.
        denied: Whether permission was refused.
        prepared: The call as it ran; None if it was not run.
    """

    result: ToolResult
    seconds: float = 0.0
    ran: bool = False
    denied: bool = False
    prepared: PreparedCall | None = None


def input_hash(call: ToolUseBlock) -> str:
    """Return the SHA-256 of the call's name and canonical input, in hex."""
    data = msgspec.json.encode([call.name, call.input], order="sorted")
    return hashlib.sha256(data).hexdigest()


class ToolBatch:
    """Runs the calls of one answer.

    Create it before the answer streams: ``offer`` starts calls early where
    that is allowed, ``run`` settles all of them.

    Args:
        config: The run's fixed facts.
        ports: The run's owner.
        signal: Stops the calls.
        owner: Starts the tasks.
        clock: Measures durations.
        extension: Looks at each call before and after it; None for nobody.
        guards: What the run's calls came to before; None begins afresh.
    """

    def __init__(
        self,
        *,
        config: LoopConfig,
        ports: LoopPorts,
        signal: AbortSignal,
        owner: TaskOwner,
        clock: Clock,
        extension: RunExtension | None = None,
        guards: LoopGuards | None = None,
    ) -> None:
        self._guards = guards or LoopGuards()
        self._extension = extension if extension and extension.reviews_calls else None
        self._context: dict[str, list[UserMessage]] = {}
        self._config = config
        self._ports = ports
        self._signal = signal
        self._owner = owner
        self._clock = clock
        self._early: dict[str, asyncio.Task[Outcome]] = {}
        self._ready: PreparedCall | None = None
        self._held_up = False
        self._gate = asyncio.Lock()
        self.denials = 0

    # ------------------------------------------------------------ early calls

    def offer(self, call: ToolUseBlock) -> None:
        """Start the call now if it only reads and needs nobody's consent.

        Nothing starts early behind a call with side effects: what it reads may
        be what that call is about to change.
        """
        tool = self._config.tools.get(call.name)
        if tool is None or call.input_error or call.id in self._early:
            return
        self._held_up = self._held_up or not _overlaps(tool)
        if self._held_up or not self._config.early_execution or not tool.metadata.early:
            return
        if self._extension is not None:
            return  # what it does about a call is an effect of its own
        try:
            prepared = self._prepare(call)
        except ToolError:
            return  # it is told to the model when the answer has ended
        decision = self._ports.decide(prepared)
        if decision is None or not decision.allowed:
            return
        self._ports.emit(ToolStarted(call, early=True))
        self._early[call.id] = self._owner.start(self._execute(prepared), name=f"early {call.name}")

    async def discard(self) -> None:
        """Stop early calls whose answer came to nothing."""
        tasks = list(self._early.values())
        self._early.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ----------------------------------------- what can be stored with the answer

    def all_early(self, calls: Sequence[ToolUseBlock]) -> list[Outcome]:
        """Return the outcomes of all calls, if every one has run early and is done.

        Otherwise nothing is returned and nothing changes. The outcomes are
        the caller's to store; ``run`` is not called for them.
        """
        tasks = [self._early.get(call.id) for call in calls]
        done = [t for t in tasks if t is not None and t.done() and not t.cancelled()]
        if len(done) < len(calls) or any(task.exception() for task in done):
            return []
        self._early.clear()
        outcomes = [task.result() for task in done]
        for call, outcome in zip(calls, outcomes, strict=True):
            self._watch(call, outcome)
        return outcomes

    def starting(self, calls: Sequence[ToolUseBlock]) -> ToolUseBlock | None:
        """Return the first call, if it has side effects and is allowed already.

        The caller stores that it starts, together with the answer; ``run``
        then begins with it at once.
        """
        call = calls[0] if calls else None
        tool = self._config.tools.get(call.name) if call else None
        if call is None or tool is None or tool.metadata.read_only or call.input_error:
            return None
        if self._extension is not None:
            return None  # it looks at the call first, and may change it
        try:
            prepared = self._prepare(call)
        except ToolError:
            return None  # told to the model in its turn
        decision = self._ports.decide(prepared)
        if decision is None or not decision.allowed or not _for(decision, prepared):
            return None
        self._ready = prepared
        return call

    # ---------------------------------------------------------------- the run

    async def run(self, calls: Sequence[ToolUseBlock], *, cut_off: bool) -> None:
        """Settle all calls; each has one durable result when this returns.

        A stop does not raise: the results then say what was interrupted and
        what was never begun.

        Args:
            calls: The answer's calls, in order.
            cut_off: Whether the answer ended at its output limit; none of its
                calls is run then.

        Raises:
            ZpiError: If a result could not be stored.
        """
        if cut_off:
            await self.discard()
            for call in calls:
                await self._settle(call, _failure(CUT_OFF))
            return
        left = list(calls)
        while left:
            group = self._next_group(left)
            del left[: len(group)]
            if len(group) == 1:
                await self._run_one(group[0])
                continue
            tasks = [self._owner.start(self._run_one(c), name=f"call {c.name}") for c in group]
            await asyncio.wait(tasks)
            for task in tasks:
                task.result()

    def _next_group(self, calls: Sequence[ToolUseBlock]) -> list[ToolUseBlock]:
        """Return the calls that may run side by side now: readers, or one other."""
        group: list[ToolUseBlock] = []
        for call in calls:
            tool = self._config.tools.get(call.name)
            if tool is not None and not _overlaps(tool):
                return group or [call]
            group.append(call)
        return group

    def context(self, calls: Sequence[ToolUseBlock]) -> list[UserMessage]:
        """Return what is to be stored behind the results, in the order of the calls."""
        return [message for call in calls for message in self._context.get(call.id, ())]

    async def _run_one(self, call: ToolUseBlock) -> None:
        outcome = await self._outcome(call)
        await self._settle(call, outcome)
        await self._tell(outcome)

    async def _tell(self, outcome: Outcome) -> None:
        """Let the extension hear of a call that ran."""
        if self._extension is None or outcome.prepared is None or self._signal.aborted:
            return
        prepared = outcome.prepared
        hearing = self._extension.after_tool(prepared, outcome.result, self._signal)
        try:
            self._note(prepared.call, await self._signal.guard(hearing))
        except Aborted:
            logger.debug("stopped while others heard of call %r", prepared.call.name)

    def _note(self, call: ToolUseBlock, context: Sequence[UserMessage]) -> None:
        if context:
            self._context.setdefault(call.id, []).extend(context)

    async def _outcome(self, call: ToolUseBlock) -> Outcome:
        early = self._early.pop(call.id, None)
        if early is not None:
            return await early
        ready, self._ready = self._ready, None
        if self._signal.aborted:
            return _failure(NOT_RUN.format(reason=self._signal.reason))
        if ready is not None and ready.call is call:
            self._ports.emit(ToolStarted(call))
            return await self._execute(ready)
        if call.input_error:
            return _failure(f"{TRUNCATED}: {call.input_error} Nothing was run.")
        try:
            prepared, decision = await self._consent(self._prepare(call))
        except Aborted:
            return _failure(NOT_RUN.format(reason=self._signal.reason))
        except ToolError as error:
            return _failure(str(error))
        if not decision.allowed:
            self.denials += 1
            outcome = _failure(decision.reason or "Permission denied.")
            outcome.denied = True
            return outcome
        if not prepared.tool.metadata.read_only:
            await self._ports.journal(prepared.call)
        self._ports.emit(ToolStarted(prepared.call))
        return await self._execute(prepared)

    async def _consent(self, prepared: PreparedCall) -> tuple[PreparedCall, Decision]:
        """Return the call as it would run, and whether it may."""
        if self._extension is not None:
            call = prepared.call

            def revise(raw: Json) -> PreparedCall:
                return self._prepare(msgspec.structs.replace(call, input=raw))

            review = self._extension.before_tool(prepared, revise, self._signal)
            reviewed = await self._signal.guard(review)
            self._note(call, reviewed.context)
            if reviewed.refused:
                return prepared, Decision(allowed=False, reason=reviewed.refused, by="hook")
            prepared = reviewed.prepared
        return prepared, await self._authorize(prepared)

    def _prepare(self, call: ToolUseBlock) -> PreparedCall:
        """Check a call's input and find out what it needs to be allowed.

        Raises:
            ToolError: If there is no such tool or the input does not fit.
        """
        tool = self._config.tools.get(call.name)
        if tool is None:
            known = ", ".join(self._config.tools) or "none"
            raise InvalidToolInput(f"There is no tool {call.name!r}.", hint=f"Tools: {known}.")
        args = tool.parse(call.input)
        return PreparedCall(
            call=call,
            tool=tool,
            args=args,
            requests=tool.permissions(args, self._config.cwd),
            input_hash=input_hash(call),
        )

    async def _authorize(self, prepared: PreparedCall) -> Decision:
        # One question at a time, in the order of the calls.
        async with self._gate:
            decision = await self._signal.guard(self._ports.authorize(prepared, self._signal))
        if decision.allowed and not _for(decision, prepared):
            return Decision(allowed=False, reason="The decision was for another input.")
        return decision

    async def _execute(self, prepared: PreparedCall) -> Outcome:
        call, begun = prepared.call, self._clock.monotonic()
        context = ToolContext(
            call_id=call.id,
            cwd=self._config.cwd,
            model=self._config.model,
            signal=self._signal,
            update=lambda text: self._ports.emit(ToolProgress(call.id, text)),
            tool_names=tuple(self._config.tools),
            thinking_level=self._config.thinking_level,
            session=self._config.session,
        )
        try:
            result = await self._signal.guard(prepared.tool.execute(prepared.args, context))
        except Aborted:
            result = ToolResult(
                content=INTERRUPTED.format(reason=self._signal.reason), is_error=True
            )
        except ZpiError as error:
            result = ToolResult(content=str(error), is_error=True, details={"code": error.code})
        except Exception as error:
            # A bug in a tool must not end the run, nor leak what it held.
            logger.exception("tool %r failed", call.name)
            text = f"The tool failed unexpectedly ({type(error).__name__})."
            result = ToolResult(content=text, is_error=True, details={"code": "bug"})
        seconds = round(self._clock.monotonic() - begun, 3)
        return Outcome(self._ports.bound(call, result), seconds, ran=True, prepared=prepared)

    def _watch(self, call: ToolUseBlock, outcome: Outcome) -> None:
        """Say so in the result if the run goes in circles."""
        as_ran = _as_ran(call, outcome)
        notice = self._guards.note(name=call.name, key=input_hash(as_ran), result=outcome.result)
        if notice is None:
            return
        outcome.result = with_notice(outcome.result, notice)
        if notice.fresh:
            self._ports.emit(Notice("warning", notice.code, f"{call.name}: {notice.text[1:-1]}"))

    async def _settle(self, call: ToolUseBlock, outcome: Outcome) -> None:
        self._watch(call, outcome)
        result, details = stored_result(call, outcome)
        uuid = await self._ports.add_result(result, details)
        self._ports.emit(finished(call, outcome, uuid))


CALL_FACTS = "call"
"""Key in stored details of what ``ToolFinished`` says beside them: seconds, ran, denied,
and the input that the call ran with, if it is not the one that the model sent."""


def stored_result(call: ToolUseBlock, outcome: Outcome) -> tuple[ToolResultBlock, Json]:
    """Return the block that stores an outcome, and its details with the call's facts."""
    facts: Json = {}
    if outcome.ran:
        facts = {"ran": True, "seconds": outcome.seconds}
        ran_with = _as_ran(call, outcome).input
        if ran_with != call.input:
            facts["input"] = ran_with
    elif outcome.denied:
        facts = {"denied": True}
    details = outcome.result.details
    return _block(call, outcome), {**details, CALL_FACTS: facts} if facts else details


def _block(call: ToolUseBlock, outcome: Outcome) -> ToolResultBlock:
    return ToolResultBlock(
        tool_use_id=call.id,
        content=outcome.result.content,
        is_error=outcome.result.is_error,
    )


def finished(call: ToolUseBlock, outcome: Outcome, uuid: str) -> ToolFinished:
    """Return the event that tells of an outcome whose record is ``uuid``."""
    return ToolFinished(
        uuid=uuid,
        call=_as_ran(call, outcome),
        result=_block(call, outcome),
        details=outcome.result.details,
        seconds=outcome.seconds,
        ran=outcome.ran,
        denied=outcome.denied,
    )


def _as_ran(call: ToolUseBlock, outcome: Outcome) -> ToolUseBlock:
    """Return the call with the input that it ran with."""
    return call if outcome.prepared is None else outcome.prepared.call


def _overlaps(tool: Tool) -> bool:
    """Whether calls of the tool may run beside others of its kind."""
    return tool.metadata.read_only and tool.metadata.concurrent


def _for(decision: Decision, prepared: PreparedCall) -> bool:
    """Whether the decision is about exactly this input."""
    return decision.input_hash == prepared.input_hash


def _failure(text: str) -> Outcome:
    return Outcome(ToolResult(content=text, is_error=True))
