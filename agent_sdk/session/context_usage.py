"""What fills the model's context, told without asking the model.

What a provider has counted stands apart from what is estimated here, and
what nobody knows is left out.
"""

from collections.abc import Iterator

from msgspec import Struct

from agent_sdk.compaction.estimate import (
    block_tokens,
    measured_answer,
    message_tokens,
    text_tokens,
    tools_tokens,
)
from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.core.usage import Usage
from agent_sdk.providers.messages import (
    AssistantMessage,
    Message,
    ToolResultBlock,
    UserMessage,
)
from agent_sdk.session.compacting import Asking, fresh_from
from agent_sdk.session.history import SessionState


class MeasuredContext(Struct, frozen=True, kw_only=True):
    """What the provider counted for the last answer.

    Attributes:
        uuid: Id of the answer's record.
        model: ``provider/id`` of the model that gave it.
        usage: Its tokens.
    """

    uuid: str
    model: str
    usage: Usage


class ContextCategory(Struct, frozen=True, kw_only=True):
    """One kind of content.

    Attributes:
        kind: ``system``, ``tools``, ``summary``, ``messages`` or ``tool_results``.
        name: For ``system``: the section's name; else empty.
        estimated_tokens: Estimate of its size.
    """

    kind: str
    estimated_tokens: int
    name: str = ""


class ContextUsage(Struct, frozen=True, kw_only=True):
    """How full the context is.

    Attributes:
        model: ``provider/id`` of the model in force.
        window: Tokens that its context holds.
        measured: What was counted last; None if nothing was since the last
            compaction or change of model.
        estimated_newer: Estimate of what came after ``measured``; of
            everything, if that is None.
        categories: Estimates by kind, in the order in which they are sent;
            what is empty is left out.
        used: ``measured`` and ``estimated_newer`` together.
        free: What is left of the window; never below 0.
        compacts_at: From how many tokens on the conversation is compacted by
            itself; None if it is not.
    """

    model: str
    window: int
    measured: MeasuredContext | None
    estimated_newer: int
    categories: tuple[ContextCategory, ...]
    used: int
    free: int
    compacts_at: int | None


def context_usage(
    state: SessionState, asking: Asking, settings: CompactionSettings
) -> ContextUsage:
    """Return what fills the context of a session.

    Args:
        state: What its records say.
        asking: With what its model is asked.
        settings: When it is compacted.
    """
    model = asking.model
    messages = state.messages
    categories = tuple(c for c in _categories(asking, messages) if c.estimated_tokens)
    at = measured_answer(messages, model=model, fresh_from=fresh_from(state))
    answer = messages[at] if at >= 0 else None
    measured = None
    newer = sum(category.estimated_tokens for category in categories)
    if isinstance(answer, AssistantMessage):
        measured = MeasuredContext(
            uuid=state.message_uuids[at], model=model.key, usage=answer.usage
        )
        newer = sum(map(message_tokens, messages[at + 1 :]))
    used = newer + (measured.usage.total_tokens if measured else 0)
    return ContextUsage(
        model=model.key,
        window=model.context_window,
        measured=measured,
        estimated_newer=newer,
        categories=categories,
        used=used,
        free=max(0, model.context_window - used),
        compacts_at=settings.limit(model) if settings.automatic(model) else None,
    )


def _categories(asking: Asking, messages: list[Message]) -> Iterator[ContextCategory]:
    for section in asking.system:
        yield ContextCategory(
            kind="system", name=section.name, estimated_tokens=text_tokens(section.text)
        )
    yield ContextCategory(kind="tools", estimated_tokens=tools_tokens(asking.tools))
    sizes = {"summary": 0, "messages": 0, "tool_results": 0}
    for message in messages:
        size = message_tokens(message)
        results = sum(block_tokens(b) for b in message.content if isinstance(b, ToolResultBlock))
        summary = isinstance(message, UserMessage) and message.origin.kind == "summary"
        sizes["summary" if summary else "messages"] += size - results
        sizes["tool_results"] += results
    for kind, size in sizes.items():
        yield ContextCategory(kind=kind, estimated_tokens=size)
