"""Compaction of a stored session: plans it, asks for the summary, commits one record.

Nothing is stored before the summary is whole and smaller than what it
replaces; then summary, boundaries and counts are one record, so that a
restart finds all of it or none.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct, structs

from agent_sdk.compaction.compact import (
    Summary,
    SummaryDelta,
    SummaryFailed,
    SummaryRequest,
    summarize,
)
from agent_sdk.compaction.estimate import context_tokens, system_tokens, tools_tokens
from agent_sdk.compaction.plan import (
    NO_PLAN,
    CompactionPlan,
    Conversation,
    due,
    plan_compaction,
)
from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import Aborted, SessionReadOnly, StorageError, ZpiError
from agent_sdk.core.usage import Usage
from agent_sdk.loop.types import (
    AgentEvent,
    CompactionEnded,
    CompactionReason,
    CompactionStarted,
    Notice,
)
from agent_sdk.providers.base import PromptSection, Provider, ToolSpec
from agent_sdk.providers.models import Model
from agent_sdk.session.history import SessionState
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import CompactionRecord, KnownRecord

CompactionEvent: TypeAlias = CompactionStarted | SummaryDelta | CompactionEnded
NO_USAGE = Usage()
CompactionEvents: TypeAlias = AsyncGenerator[CompactionEvent, None]
Append: TypeAlias = Callable[[KnownRecord], Awaitable[list[str]]]


class Asking(Struct, frozen=True, kw_only=True):
    """With what the session's model is asked at the moment.

    Attributes:
        provider: The connection to the model.
        model: The model.
        system: Sections of the system prompt.
        tools: Tools that are declared.
        thinking_level: Reasoning level; empty for none.
    """

    provider: Provider
    model: Model
    system: tuple[PromptSection, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    thinking_level: str = ""


class PreCompact(Struct, frozen=True, kw_only=True):
    """A compaction is about to begin.

    Attributes:
        session_id: The session.
        reason: Why; ``manual`` if someone asked for it.
        instructions: What whoever asked wants heeded; may be empty.
        tokens: How full the context is.
    """

    session_id: str
    reason: CompactionReason
    instructions: str
    tokens: int


class PreCompactAnswer(Struct, frozen=True, kw_only=True):
    """What is to become of it.

    Attributes:
        block: Why it must not happen; empty to let it.
        instructions: What the summary should heed besides.
    """

    block: str = ""
    instructions: str = ""


class CompactionHook(Protocol):
    """Takes part in compactions."""

    async def before(self, event: PreCompact) -> PreCompactAnswer:
        """Say whether it may happen; a ``ZpiError`` makes it fail, as a bad summary does."""
        ...

    async def after(self, event: CompactionEnded) -> None:
        """Hear how it ended, unless it was stopped or could not be stored. Never raises."""
        ...


class CompactionRequest(Struct, frozen=True, kw_only=True):
    """One compaction that is wanted.

    Attributes:
        reason: Why.
        protected_queries: Overrides the setting of that name.
        tool_protected_queries: Overrides the setting of that name.
        instructions: What the summary should heed besides.
    """

    reason: CompactionReason = "manual"
    protected_queries: int | None = None
    tool_protected_queries: int | None = None
    instructions: str = ""


def untold(event: CompactionEvent) -> None:
    """Do nothing: nobody wants to hear of it."""


class SessionCompactor:
    """Compacts one session's history.

    Args:
        manager: The history, open for writing.
        settings: When it is compacted, and what stays.
        emit: Where the beginning, the end and failures are published.
        hook: Takes part; None for nobody.

    Attributes:
        settings: As given; others may be set at any time.
        hook: As given; another one may be set at any time.
    """

    def __init__(
        self,
        *,
        manager: SessionManager,
        settings: CompactionSettings,
        emit: Callable[[AgentEvent], None],
        hook: CompactionHook | None = None,
    ) -> None:
        self.settings = settings
        self.hook = hook
        self._manager = manager
        self._emit = emit
        self._given_up = False

    def begin_run(self) -> None:
        """Forget that a compaction failed: a new run may try again."""
        self._given_up = False

    async def before_request(self, asking: Asking, append: Append) -> None:
        """Compact if the conversation is near the model's window, or has too many queries.

        Raises:
            StorageError: If the record could not be stored.
        """
        if self._given_up:
            return
        reason = due(self.conversation(asking), model=asking.model, settings=self.settings)
        if reason is not None:
            await self.run(asking, CompactionRequest(reason=reason), append=append)

    async def on_overflow(self, asking: Asking, append: Append) -> bool:
        """Compact after a request that did not fit; return whether that was done.

        Raises:
            StorageError: If the record could not be stored.
        """
        if not self.settings.automatic(asking.model):
            return False
        ended = await self.run(asking, CompactionRequest(reason="overflow"), append=append)
        return ended.status == "completed"

    def conversation(self, asking: Asking) -> Conversation:
        """Return how the conversation stands; cheap where the provider has counted it."""
        state = self._manager.state
        fresh = fresh_from(state)
        tokens = context_tokens(
            state.messages,
            model=asking.model,
            system=asking.system,
            tools=asking.tools,
            fresh_from=fresh,
        )
        return Conversation(
            messages=state.messages, uuids=state.message_uuids, tokens=tokens, fresh_from=fresh
        )

    async def run(
        self,
        asking: Asking,
        request: CompactionRequest,
        *,
        append: Append | None = None,
        tell: Callable[[CompactionEvent], None] = untold,
    ) -> CompactionEnded:
        """Compact now; a failure leaves everything as it was.

        Args:
            asking: With what the model is asked; no request of it is open.
            request: Why and how.
            append: How its record is stored; None for the manager's own way.
            tell: Hears of the progress.

        Returns:
            How it ended.

        Raises:
            InvalidInput: If a number of the request is out of range.
            SessionReadOnly: If the session is not open for writing.
            StorageError: If the record could not be stored.
        """
        talk = self._snapshot(asking)
        settings = self.settings.protecting(
            request.protected_queries, request.tool_protected_queries
        )
        planned = plan_compaction(
            talk, model=asking.model, settings=settings, reason=request.reason
        )
        if planned.plan is None and request.reason != "manual":
            return _ended(talk, "skipped", error=NO_PLAN[planned.why])
        self._publish(CompactionStarted(request.reason, talk.tokens.total), tell)
        ended = _ended(talk, "aborted")
        try:
            if planned.plan is None:
                ended = _ended(talk, "skipped", error=NO_PLAN[planned.why])
            else:
                attempt = _Attempt(
                    manager=self._manager,
                    asking=asking,
                    instructions=request.instructions,
                    append=append or self._manager.append,
                    tell=tell,
                )
                ended = await attempt.make(talk, planned.plan, hook=self.hook)
        except Aborted:
            raise
        except ZpiError as error:
            ended = _ended(talk, "failed", error=str(error), code=error.code)
            if isinstance(error, StorageError):
                raise
        finally:
            self._end(ended, tell)
        if self.hook is not None:
            await self.hook.after(ended)
        return ended

    def _snapshot(self, asking: Asking) -> Conversation:
        """Return the conversation with all that a plan needs; it does not change any more."""
        if self._manager.read_only:
            raise SessionReadOnly(
                f"The session {self._manager.session_id!r} cannot be compacted.",
                hint="It was closed, is damaged or of a newer format, or its disk failed.",
            )
        talk = self.conversation(asking)
        return structs.replace(
            talk,
            messages=tuple(talk.messages),
            uuids=tuple(talk.uuids),
            fixed=system_tokens(asking.system) + tools_tokens(asking.tools),
        )

    def _end(self, ended: CompactionEnded, tell: Callable[[CompactionEvent], None]) -> None:
        self._given_up = ended.status != "completed"
        self._publish(ended, tell)
        if ended.status == "failed":
            text = f"The conversation was not compacted: {ended.error}"
            self._emit(Notice("warning", "compaction_failed", text))

    def _publish(
        self,
        event: CompactionStarted | CompactionEnded,
        tell: Callable[[CompactionEvent], None],
    ) -> None:
        self._emit(event)
        tell(event)


class _Attempt:
    """One compaction that is being made."""

    def __init__(
        self,
        *,
        manager: SessionManager,
        asking: Asking,
        instructions: str,
        append: Append,
        tell: Callable[[CompactionEvent], None],
    ) -> None:
        self._manager = manager
        self._asking = asking
        self._instructions = instructions
        self._append = append
        self._tell = tell

    async def make(
        self, talk: Conversation, plan: CompactionPlan, *, hook: CompactionHook | None
    ) -> CompactionEnded:
        """Ask the hook and the model, and store what came of it."""
        instructions = self._instructions
        if hook is not None:
            event = PreCompact(
                session_id=self._manager.session_id,
                reason=plan.reason,
                instructions=instructions,
                tokens=talk.tokens.total,
            )
            answer = await hook.before(event)
            if answer.block:
                return _ended(talk, "skipped", error=answer.block)
            instructions = "\n".join(filter(None, (instructions, answer.instructions)))
        outcome = await self._summary(talk, plan, instructions)
        if isinstance(outcome, SummaryFailed):
            return _ended(
                talk,
                "failed",
                error=str(outcome.error),
                code=outcome.error.code,
                usage=outcome.usage,
            )
        record = self._record(plan, outcome)
        [uuid] = await self._append(record)
        state = self._manager.state
        after = context_tokens(
            state.messages,
            model=self._asking.model,
            system=self._asking.system,
            tools=self._asking.tools,
            fresh_from=len(state.messages),
        )
        return CompactionEnded(
            status="completed",
            uuid=uuid,
            summary=outcome.text,
            tokens_before=talk.tokens.total,
            tokens_after=after.total,
            usage=outcome.usage,
        )

    async def _summary(
        self, talk: Conversation, plan: CompactionPlan, instructions: str
    ) -> Summary | SummaryFailed:
        outcome: Summary | SummaryFailed = Summary("", Usage())
        if not plan.folds:
            return outcome
        wanted = SummaryRequest(
            messages=talk.messages,
            plan=plan,
            model=self._asking.model,
            thinking_level=self._asking.thinking_level,
            instructions=instructions,
        )
        async with aclosing(summarize(wanted, provider=self._asking.provider)) as events:
            async for event in events:
                if isinstance(event, SummaryDelta):
                    self._tell(event)
                else:
                    outcome = event
        return outcome

    def _record(self, plan: CompactionPlan, summary: Summary) -> CompactionRecord:
        previous = self._manager.state.compaction
        return CompactionRecord(
            summary=summary.text,
            keep_from_uuid=plan.keep_from_uuid,
            clear_tool_results_before_uuid=plan.clear_before_uuid,
            tokens_before=plan.tokens_before,
            usage=summary.usage,
            model=self._asking.model.key if summary.text else "",
            previous_uuid=previous.uuid if previous else None,
        )


def _ended(
    talk: Conversation,
    status: Literal["skipped", "failed", "aborted"],
    *,
    error: str = "",
    code: str = "",
    usage: Usage = NO_USAGE,
) -> CompactionEnded:
    return CompactionEnded(
        status=status,
        tokens_before=talk.tokens.total,
        error=error,
        error_code=code,
        usage=usage,
    )


def fresh_from(state: SessionState) -> int:
    """Return the index of the first message in view that came after the last compaction."""
    record = state.compaction
    if record is None:
        return 0
    # Of a state that knows its beginning only in part, what is older than that
    # counts as older than the compaction.
    made = state.trail.find(record.uuid, state.partial - 1)
    at = len(state.messages)
    while at and state.trail.find(state.message_uuids[at - 1], -1) > made:
        at -= 1
    return at


async def streamed(
    work: Callable[[Callable[[CompactionEvent], None]], Coroutine[Any, Any, object]],
) -> CompactionEvents:
    """Yield what the work tells; closing the generator stops it.

    Raises:
        ZpiError: What the work raises, after what it told.
    """
    queue: asyncio.Queue[CompactionEvent | None] = asyncio.Queue()

    async def run() -> None:
        try:
            await work(queue.put_nowait)
        finally:
            queue.put_nowait(None)

    async with TaskOwner(name="compaction") as owner:
        task = owner.start(run(), name="work")
        while (event := await queue.get()) is not None:
            yield event
        await task
