"""Compaction of a conversation that its owner keeps: messages in, messages and state out.

The owner stores both, and gives both back the next time.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeAlias

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
    plan_compaction,
)
from agent_sdk.compaction.rewrite import summary_message, without_results
from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.core.errors import InvalidInput
from agent_sdk.core.usage import Usage
from agent_sdk.loop.types import CompactionEnded, CompactionReason, CompactionStarted
from agent_sdk.providers.base import PromptSection, Provider, ToolSpec
from agent_sdk.providers.messages import Message
from agent_sdk.providers.models import Model


class CompactionState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be kept beside the messages.

    Attributes:
        kept: How many messages there were right after the last compaction.
        count: How many compactions there were.
        tokens_before: How full the context was before the last one.
        tokens_after: Estimate of how full it was after it.
        usage: Tokens of all summaries together, refused ones included.
        model: ``provider/id`` of the model that wrote the last summary.
    """

    kept: int = 0
    count: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    usage: Usage = Usage()
    model: str = ""


class MessagesCompacted(Struct, frozen=True):
    """How it ended.

    Attributes:
        ended: Whether it was done, and what it cost.
        messages: The messages to go on with; those given, where nothing was done.
        state: What to keep beside them.
    """

    ended: CompactionEnded
    messages: tuple[Message, ...]
    state: CompactionState


MessagesEvent: TypeAlias = CompactionStarted | SummaryDelta | MessagesCompacted


class MessagesRequest(Struct, frozen=True, kw_only=True):
    """What is compacted, and how.

    Attributes:
        messages: The conversation, oldest first; it is not changed.
        model: The model that writes the summary and is asked afterwards.
        state: What the last compaction of these messages returned; None if
            there was none.
        settings: What stays.
        protected_queries: Overrides the setting of that name.
        tool_protected_queries: Overrides the setting of that name.
        reason: Why it is done.
        system: Sections of the system prompt that goes with the messages.
        tools: Tools that are declared with them.
        thinking_level: Reasoning level for the summary.
        instructions: What the summary should heed besides.
    """

    messages: Sequence[Message]
    model: Model
    state: CompactionState | None = None
    settings: CompactionSettings = CompactionSettings()
    protected_queries: int | None = None
    tool_protected_queries: int | None = None
    reason: CompactionReason = "manual"
    system: tuple[PromptSection, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    thinking_level: str = ""
    instructions: str = ""


async def compact_messages_stream(
    request: MessagesRequest, *, provider: Provider
) -> AsyncGenerator[MessagesEvent, None]:
    """Compact messages in memory; the last event holds what came of it.

    Args:
        request: What is compacted, and how.
        provider: The connection to the model; no other request of it is open.

    Raises:
        InvalidInput: If a setting is out of range, or the state is of other messages.
    """
    state = request.state or CompactionState()
    settings = request.settings.protecting(
        request.protected_queries, request.tool_protected_queries
    )
    talk = _conversation(request, kept=state.kept)
    model = request.model
    yield CompactionStarted(request.reason, talk.tokens.total)
    planned = plan_compaction(talk, model=model, settings=settings, reason=request.reason)
    plan = planned.plan
    if plan is None:
        ended = CompactionEnded(
            status="skipped", tokens_before=talk.tokens.total, error=NO_PLAN[planned.why]
        )
        yield MessagesCompacted(ended, tuple(request.messages), state)
        return
    outcome: Summary | SummaryFailed = Summary("", Usage())
    if plan.folds:
        wanted = SummaryRequest(
            messages=talk.messages,
            plan=plan,
            model=model,
            thinking_level=request.thinking_level,
            instructions=request.instructions,
        )
        async with aclosing(summarize(wanted, provider=provider)) as events:
            async for event in events:
                if isinstance(event, SummaryDelta):
                    yield event
                else:
                    outcome = event
    yield _compacted(talk, plan, outcome=outcome, state=state, model=model)


async def compact_messages(request: MessagesRequest, *, provider: Provider) -> MessagesCompacted:
    """Compact messages in memory; as ``compact_messages_stream``, without its progress."""
    last: MessagesCompacted | None = None
    async with aclosing(compact_messages_stream(request, provider=provider)) as events:
        async for event in events:
            if isinstance(event, MessagesCompacted):
                last = event
    if last is None:  # pragma: no cover - the stream always ends with one
        raise InvalidInput("The compaction came to no end.")
    return last


def _conversation(request: MessagesRequest, *, kept: int) -> Conversation:
    messages = tuple(request.messages)
    if kept > len(messages):
        raise InvalidInput(
            f"The compaction state is of {kept!r} messages, but {len(messages)!r} were given.",
            hint="Give the messages and the state that were returned together.",
        )
    tokens = context_tokens(
        messages,
        model=request.model,
        system=request.system,
        tools=request.tools,
        fresh_from=kept,
    )
    fixed = system_tokens(request.system) + tools_tokens(request.tools)
    return Conversation(messages=messages, tokens=tokens, fixed=fixed, fresh_from=kept)


def compacted(
    messages: Sequence[Message], plan: CompactionPlan, *, summary: str
) -> tuple[Message, ...]:
    """Return the messages that are in view after a compaction.

    Args:
        messages: Those before it.
        plan: What was done.
        summary: What stands for those it replaces; empty if it replaces none.
    """
    head = (summary_message(summary),) if summary else tuple(messages[: plan.fold_from])
    tail = (
        without_results(message) if at < plan.clear_before else message
        for at, message in enumerate(messages[plan.cut :], plan.cut)
    )
    return (*head, *tail)


def _compacted(
    talk: Conversation,
    plan: CompactionPlan,
    *,
    outcome: Summary | SummaryFailed,
    state: CompactionState,
    model: Model,
) -> MessagesCompacted:
    before = talk.tokens.total
    usage = state.usage + outcome.usage
    if isinstance(outcome, SummaryFailed):
        ended = CompactionEnded(
            status="failed",
            tokens_before=before,
            usage=outcome.usage,
            error_code=outcome.error.code,
            error=str(outcome.error),
        )
        kept = structs.replace(state, usage=usage)
        return MessagesCompacted(ended, tuple(talk.messages), kept)
    messages = compacted(talk.messages, plan, summary=outcome.text)
    after = context_tokens(messages, model=model, fresh_from=len(messages)).total + talk.fixed
    ended = CompactionEnded(
        status="completed",
        summary=outcome.text,
        tokens_before=before,
        tokens_after=after,
        usage=outcome.usage,
    )
    now = CompactionState(
        kept=len(messages),
        count=state.count + 1,
        tokens_before=before,
        tokens_after=after,
        usage=usage,
        model=model.key if outcome.text else state.model,
    )
    return MessagesCompacted(ended, messages, now)
