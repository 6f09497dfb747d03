"""The loop: request, answer, calls, and again until the model is done.

A plain ``while``. It owns no state that outlives the run and does no I/O of
its own; everything goes through the ports that the session gives it.
"""

from collections.abc import Sequence

from agent_sdk.core.aio import AbortSignal, TaskOwner
from agent_sdk.core.errors import Aborted, InputRefused, ProviderError, ZpiError
from agent_sdk.core.ids import Clock
from agent_sdk.core.usage import Usage
from agent_sdk.loop.answer import Answer, has_final_text, receive
from agent_sdk.loop.extension import RunExtension
from agent_sdk.loop.guards import LoopGuards
from agent_sdk.loop.tool_calls import ToolBatch, finished, stored_result
from agent_sdk.loop.types import (
    AssistantMessageAdded,
    LoopConfig,
    LoopPorts,
    Notice,
    RunEnded,
    RunStarted,
    RunStatus,
    TurnEnded,
    TurnStarted,
    UserMessageAdded,
)
from agent_sdk.providers.base import ModelRequest, Provider
from agent_sdk.providers.messages import (
    AssistantMessage,
    Json,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

CONTINUE = (
    "Your last answer was cut off by a connection failure. What you had written is above; "
    "tool calls in it were not run. Continue where it stopped."
)
MAX_TRUNCATED_TURNS = 2
"""After so many turns in a row whose calls all arrived broken, the run ends."""


class Run:
    """One run of the loop over one or more prompts.

    Args:
        config: What stays fixed.
        ports: The owner of the run.
        provider: The model's connection.
        signal: Stops the run.
        clock: Measures durations.
        extension: Takes part in the run; None for nobody.
    """

    def __init__(
        self,
        *,
        config: LoopConfig,
        ports: LoopPorts,
        provider: Provider,
        signal: AbortSignal,
        clock: Clock,
        extension: RunExtension | None = None,
    ) -> None:
        self._extension = extension
        self._guards = LoopGuards()
        self._config = config
        self._ports = ports
        self._provider = provider
        self._signal = signal
        self._clock = clock
        self._turns = 0
        self._usage = Usage()
        self._denials = 0
        self._continued = False
        self._truncated = 0

    async def run(self, prompts: Sequence[UserMessage]) -> RunEnded:
        """Run until the model is done, a limit is met, it fails, or it is stopped.

        Args:
            prompts: Messages that start the run; may be empty to go on from
                the stored conversation.

        Returns:
            How it ended. Failures of the model, of storage and of ports are
            part of it; only cancellation and bugs raise.
        """
        self._ports.emit(RunStarted(self._config.run_id))
        status: RunStatus
        error: ZpiError | None = None
        try:
            async with TaskOwner(name="run") as owner:
                await self._begin(prompts)
                status = await self._turn_until_done(owner)
        except Aborted as stop:
            status, error = "aborted", stop
        except ZpiError as failure:
            status, error = "error", failure
        return RunEnded(
            run_id=self._config.run_id,
            status=status,
            turns=self._turns,
            usage=self._usage,
            error_code=error.code if error else "",
            error=str(error) if error else "",
            denials=self._denials,
        )

    async def _begin(self, prompts: Sequence[UserMessage]) -> None:
        """Store the prompts, and with them what has come since the last run."""
        for prompt in prompts:
            await self._add(await self._admitted(prompt))
        if prompts:
            await self._take_in(self._ports.inbox.take_mailbox())

    async def _turn_until_done(self, owner: TaskOwner) -> RunStatus:
        limit = self._config.max_turns
        while True:
            self._signal.raise_if_aborted()
            if limit is not None and self._turns >= limit:
                return "max_turns"
            await self._take_in(self._ports.inbox.take_steering())
            answer = await self._turn(owner)
            if answer is None or answer.tool_calls:
                continue
            if not await self._goes_on(answer):
                return "completed"

    async def _goes_on(self, answer: AssistantMessage) -> bool:
        """Store what there is to go on with after an answer without calls."""
        inbox = self._ports.inbox
        if await self._take_in(inbox.take_steering()):
            return True
        if not has_final_text(answer) and await self._take_in(inbox.take_mailbox()):
            return True
        if self._extension is not None and answer.stop_reason in ("end_turn", "stop_sequence"):
            stop = self._extension.on_stop(answer, self._signal)
            feedback = await self._signal.guard(stop)
            if feedback:
                await self._add(feedback)
                return True
        while follow := inbox.take_follow_up():
            if await self._take_in(follow):
                return True
        return False

    async def _take_in(self, messages: Sequence[UserMessage]) -> bool:
        """Store what was steered, queued or sent; what cannot be stored goes back.

        Returns:
            Whether anything was stored: an input may be refused.
        """
        stored = False
        for at, message in enumerate(messages):
            try:
                await self._add(await self._admitted(message))
                stored = True
            except InputRefused as refusal:
                self._ports.emit(Notice("warning", refusal.code, str(refusal)))
            except BaseException:
                self._ports.inbox.put_back(messages[at:])
                raise
        return stored

    async def _admitted(self, message: UserMessage) -> Sequence[UserMessage]:
        if self._extension is None:
            return (message,)
        return await self._signal.guard(self._extension.admit(message, self._signal))

    async def _turn(self, owner: TaskOwner) -> AssistantMessage | None:
        """Make one request and settle its calls; return the answer, None if it was cut."""
        turn = self._turns + 1
        await self._signal.guard(self._ports.before_request(turn))
        answer, batch = await self._ask(turn, owner)
        error = answer.error
        if error is not None and error.kind == "context_overflow":
            await batch.discard()  # and with it what had arrived of the answer
            if await self._signal.guard(self._ports.on_overflow(error)):
                answer, batch = await self._ask(turn, owner)
        self._turns = turn
        if answer.aborted or answer.error is not None:
            await batch.discard()
            await self._cut(answer)
            return None
        message = answer.message
        if message is None:  # pragma: no cover - the provider contract forbids it
            raise ProviderError("The provider gave no answer.", kind="protocol")
        await self._settle(message, batch)
        self._ports.emit(TurnEnded(turn))
        self._signal.raise_if_aborted()
        return message

    async def _ask(self, turn: int, owner: TaskOwner) -> tuple[Answer, ToolBatch]:
        """Make one request; return its answer and the calls that have begun early."""
        await self._add(self._ports.context())
        self._ports.emit(TurnStarted(turn))
        batch = ToolBatch(
            config=self._config,
            ports=self._ports,
            signal=self._signal,
            owner=owner,
            clock=self._clock,
            extension=self._extension,
            guards=self._guards,
        )
        answer = await receive(
            provider=self._provider,
            request=self._request(),
            config=self._config,
            ports=self._ports,
            signal=self._signal,
            on_call=batch.offer,
        )
        return answer, batch

    async def _settle(self, message: AssistantMessage, batch: ToolBatch) -> None:
        """Store a whole answer and settle its calls."""
        calls = message.tool_calls
        if not calls:
            await self._add_answer(message)
            self._tell_cut_short(message)
            return
        cut_off = message.stop_reason == "max_tokens"
        early = [] if cut_off else batch.all_early(calls)
        if early:
            results = [stored_result(c, o) for c, o in zip(calls, early, strict=True)]
            uuids = await self._add_answer(message, results=results)
            for call, outcome, uuid in zip(calls, early, uuids, strict=True):
                self._ports.emit(finished(call, outcome, uuid))
        else:
            await self._add_answer(message, starting=None if cut_off else batch.starting(calls))
            await batch.run(calls, cut_off=cut_off)
            await self._add(batch.context(calls))
        if not self._signal.aborted:
            await self._take_in(self._ports.inbox.take_mailbox())
        self._denials += batch.denials
        self._count_truncated(message)

    async def _cut(self, answer: Answer) -> None:
        """Keep what arrived of a stopped or failed answer; go on at most once."""
        message, error = answer.message, answer.error
        if message is not None:
            await self._add_answer(message)
        self._ports.emit(TurnEnded(self._turns))
        if error is None:
            raise Aborted(self._signal.reason)
        if message is None or not error.retryable or self._continued:
            raise error
        self._continued = True
        self._ports.emit(Notice("warning", "stream_cut", str(error)))
        origin = Origin("retry")
        await self._add([UserMessage(content=(TextBlock(CONTINUE),), origin=origin)])

    def _request(self) -> ModelRequest:
        config = self._config
        base = ModelRequest(
            model=config.model,
            messages=tuple(self._ports.messages()),
            system=self._ports.system(),
            tools=config.specs,
            thinking_level=config.thinking_level,
            session_id=config.session_id,
        )
        return self._ports.request(base)

    async def _add(self, messages: Sequence[UserMessage]) -> None:
        if not messages:
            return
        uuids = await self._ports.add_user(*messages)
        for uuid, message in zip(uuids, messages, strict=True):
            self._ports.emit(UserMessageAdded(uuid, message))

    async def _add_answer(
        self,
        message: AssistantMessage,
        *,
        starting: ToolUseBlock | None = None,
        results: Sequence[tuple[ToolResultBlock, Json]] = (),
    ) -> list[str]:
        """Store and publish an answer; return the ids of the results' records."""
        self._usage = self._usage + message.usage
        uuids = await self._ports.add_assistant(message, starting=starting, results=results)
        self._ports.emit(AssistantMessageAdded(uuids[0], message))
        return uuids[1:]

    def _count_truncated(self, message: AssistantMessage) -> None:
        cut = message.stop_reason == "max_tokens"
        if not cut and not all(call.input_error for call in message.tool_calls):
            self._truncated = 0
            return
        self._truncated += 1
        if self._truncated >= MAX_TRUNCATED_TURNS:
            raise ProviderError(
                "The model's tool calls arrived incomplete twice in a row.",
                kind="protocol",
                hint="Raise its output limit, or ask for smaller steps.",
            )

    def _tell_cut_short(self, message: AssistantMessage) -> None:
        if message.stop_reason == "max_tokens":
            text = "The answer ended at the model's output limit."
            self._ports.emit(Notice("warning", "output_limit", text))
        elif message.stop_reason == "refusal":
            self._ports.emit(Notice("warning", "refusal", "The model declined to answer."))
