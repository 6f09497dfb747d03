"""Which part of a conversation is summarised, and what stays. Pure.

What the model sees after a compaction is ``[summary, tail]``. The tail begins
at one of the user's newest queries. Where even these are too long, it begins
in the middle of the newest one's run, and the queries before it stand word
for word beside the summary. It never begins between a call and its result.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from agent_sdk.compaction.estimate import (
    ContextTokens,
    message_tokens,
    text_tokens,
)
from agent_sdk.compaction.rewrite import CLEARED, Parts, parts_of, without_results
from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.loop.types import CompactionReason
from agent_sdk.providers.messages import (
    AssistantMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model

_QUERIES = frozenset({"human", "queued", "steered", "mailbox"})
_LEAST_GAIN = 10
"""A compaction must free this part of the limit, by threshold."""
_SUMMARY_SHARE = 4
"""A summary is expected to have this part of what it replaces, but not more than …"""
_SUMMARY_MOST = 2_000

Why: TypeAlias = Literal["", "nothing", "too_soon", "too_little"]
"""Why there is no plan; empty if there is one."""


NO_PLAN: Mapping[Why, str] = {
    "nothing": "There is nothing to compact: all of the conversation is kept as it is.",
    "too_soon": "Too little is new since the last compaction.",
    "too_little": "A compaction would gain too little.",
}
"""The reasons in words."""


class Conversation(Struct, frozen=True, kw_only=True):
    """What is planned for.

    Attributes:
        messages: What the model sees, oldest first; the first one may be the
            summary of an earlier compaction.
        uuids: Id of each message's record; empty for messages without any.
        tokens: How full the context is.
        fixed: Estimated tokens of what is sent besides messages.
        fresh_from: Index of the first message that came after the last
            compaction; 0 if there was none.
    """

    messages: Sequence[Message]
    uuids: Sequence[str] = ()
    tokens: ContextTokens
    fixed: int = 0
    fresh_from: int = 0


class CompactionPlan(Struct, frozen=True, kw_only=True):
    """What to do.

    Attributes:
        reason: Why it is done.
        fold_from: Index of the first message to summarise: 1 behind an
            earlier summary, else 0.
        cut: Index of the first message that stays; the number of messages if
            none does.
        clear_before: Index before which results lose their content; 0 clears none.
        keep_from_uuid: Id of the first record that stays; None keeps none.
        clear_before_uuid: Id of the record before which results lose their
            content; None clears none.
        previous: What the earlier summary says; empty if there is none.
        queries: Queries that the summary quotes word for word.
        tokens_before: How full the context is.
        tokens_replaced: Estimated tokens of what the summary replaces.
        tokens_kept: Estimated tokens of what stays, results cleared.
    """

    reason: CompactionReason
    fold_from: int
    cut: int
    clear_before: int = 0
    keep_from_uuid: str | None = None
    clear_before_uuid: str | None = None
    previous: str = ""
    queries: tuple[str, ...] = ()
    tokens_before: int = 0
    tokens_replaced: int = 0
    tokens_kept: int = 0

    @property
    def folds(self) -> bool:
        """Whether there is something to summarise; else results are only cleared."""
        return self.cut > self.fold_from


class Planned(Struct, frozen=True):
    """A plan, or why there is none."""

    plan: CompactionPlan | None = None
    why: Why = ""


def is_query(message: Message) -> bool:
    """Whether a user said it, as opposed to a tool, a hook or ZPI."""
    return (
        isinstance(message, UserMessage)
        and message.origin.kind in _QUERIES
        and any(not isinstance(b, ToolResultBlock) for b in message.content)
    )


def due(
    talk: Conversation, *, model: Model, settings: CompactionSettings
) -> CompactionReason | None:
    """Return why the conversation should be compacted before the next request, if it should."""
    if not settings.automatic(model):
        return None
    if talk.tokens.total > settings.limit(model):
        return "threshold"
    most = settings.max_session_queries
    if most is not None and sum(map(is_query, talk.messages)) > most:
        return "queries"
    return None


def plan_compaction(
    talk: Conversation, *, model: Model, settings: CompactionSettings, reason: CompactionReason
) -> Planned:
    """Return what to summarise, clear and keep.

    Args:
        talk: The conversation.
        model: The model in force.
        settings: What stays.
        reason: Why it is done. By ``threshold`` nothing is planned right
            after a compaction, or where too little would be gained.
    """
    planner = _Planner(talk, model=model, settings=settings, reason=reason)
    if not planner.sizes:
        return Planned(why="nothing")
    if reason == "threshold" and planner.too_soon:
        return Planned(why="too_soon")
    plan = planner.plan()
    if plan is None:
        return Planned(why="nothing")
    limit = settings.limit(model)
    if reason == "threshold" and planner.gain(plan) * _LEAST_GAIN < limit:
        return Planned(why="too_little")
    return Planned(plan)


class _Planner:
    def __init__(
        self,
        talk: Conversation,
        *,
        model: Model,
        settings: CompactionSettings,
        reason: CompactionReason,
    ) -> None:
        self._talk = talk
        self._model = model
        self._settings = settings
        self._reason: CompactionReason = reason
        messages = talk.messages
        self.sizes = [message_tokens(m) for m in messages]
        self._old = Parts("")
        self._fold_from = 0
        if messages and _is_summary(messages[0]):
            self._old = parts_of(messages[0].text)
            self._fold_from = 1
        self._starts = [i for i, m in enumerate(messages) if is_query(m)]
        self._parting = parting_cuts(messages)
        # Estimates may be off; where the provider has counted, they are put right.
        estimated = talk.fixed + sum(self.sizes)
        self._scale = min(3.0, max(0.5, talk.tokens.total / max(1, estimated)))

    @property
    def too_soon(self) -> bool:
        """Whether what is new since the last compaction is little beside its summary."""
        if not self._fold_from:
            return False
        return sum(self.sizes[self._talk.fresh_from :]) * 2 < self.sizes[0]

    @property
    def _goal(self) -> int:
        """Tokens that a compaction should come down to."""
        limit = self._settings.limit(self._model)
        if self._reason == "overflow":  # the window may be smaller than we were told
            limit = min(limit, self._talk.tokens.total)
        return limit // 2

    def gain(self, plan: CompactionPlan) -> int:
        """Return about how many tokens the plan frees."""
        before = self._talk.fixed + sum(self.sizes)
        return int((before - self._after(plan)) * self._scale)

    def _after(self, plan: CompactionPlan) -> int:
        expected = sum(self.sizes[: plan.fold_from])
        if plan.folds:
            quoted = sum(map(text_tokens, plan.queries))
            summary = min(_SUMMARY_MOST, plan.tokens_replaced // _SUMMARY_SHARE)
            expected = quoted + summary
        return self._talk.fixed + plan.tokens_kept + expected

    def plan(self) -> CompactionPlan | None:
        """Return the plan that keeps most and still comes down far enough, or None."""
        whole = self._at(self._query_cut())
        if self._reason == "queries":
            return whole if whole.folds else None
        if self._after(whole) * self._scale <= self._goal and self._does_something(whole):
            return whole
        split = self._split(at_least=whole.cut)
        if split.cut > whole.cut:
            return split
        return whole if self._does_something(whole) else None

    def _does_something(self, plan: CompactionPlan) -> bool:
        return plan.folds or self._clears(plan)

    def _clears(self, plan: CompactionPlan) -> bool:
        return any(_has_content(m) for m in self._talk.messages[plan.cut : plan.clear_before])

    def _query_cut(self) -> int:
        """Return where the protected queries begin, or nothing is to be summarised."""
        keep = self._settings.protected_queries
        if self._reason == "queries" and self._settings.max_session_queries:
            keep = self._settings.max_session_queries // 2
        if len(self._starts) < keep:
            return self._fold_from
        return self._legal(self._starts[-keep])

    def _split(self, *, at_least: int) -> CompactionPlan:
        """Return the plan that keeps the newest messages up to a size, whoever said them."""
        room = self._settings.kept(self._model) / self._scale
        at = len(self.sizes)
        while at > at_least and room >= self.sizes[at - 1]:
            at -= 1
            room -= self.sizes[at]
        waiting = self._waiting()
        cut = max(self._legal(at if waiting is None else min(at, waiting)), at_least)
        return self._at(cut)

    def _waiting(self) -> int | None:
        """Return the index of the first query that has no answer yet, if there is one."""
        first = None
        for at in reversed(self._starts):
            if any(isinstance(m, AssistantMessage) for m in self._talk.messages[at:]):
                break
            first = at
        return first

    def _quoted(self, cut: int) -> tuple[str, ...]:
        """Return the protected queries that do not stay themselves."""
        wanted = self._settings.protected_queries - sum(start >= cut for start in self._starts)
        if wanted <= 0:
            return ()
        said = [_text(self._talk.messages[start]) for start in self._starts if start < cut]
        return self._fitting([*self._old.queries, *said][-wanted:])

    def _fitting(self, queries: Sequence[str]) -> tuple[str, ...]:
        """Return the newest queries that have room beside the summary.

        The newest one always has: of one that is too long, the middle goes.
        """
        room = max(200, self._goal // 4)
        kept: list[str] = []
        for query in reversed(queries):
            size = text_tokens(query)
            if size > room:
                if not kept:
                    kept.append(shortened(query, int(len(query) * room / size)))
                break
            kept.append(query)
            room -= size
        return tuple(reversed(kept))

    def _at(self, cut: int) -> CompactionPlan:
        talk = self._talk
        clear = self._clear_before(cut)
        tail = [
            message_tokens(without_results(m)) if i < clear else self.sizes[i]
            for i, m in enumerate(talk.messages[cut:], cut)
        ]
        uuids = talk.uuids
        return CompactionPlan(
            reason=self._reason,
            fold_from=self._fold_from,
            cut=cut,
            clear_before=clear,
            keep_from_uuid=uuids[cut] if cut < len(uuids) else None,
            clear_before_uuid=uuids[clear] if clear and clear < len(uuids) else None,
            previous=self._old.summary,
            queries=self._quoted(cut),
            tokens_before=talk.tokens.total,
            tokens_replaced=sum(self.sizes[:cut]),
            tokens_kept=sum(tail),
        )

    def _clear_before(self, cut: int) -> int:
        """Return the index before which results are cleared; 0 for none."""
        keep = self._settings.tool_protected_queries
        tail = [start for start in self._starts if start >= cut]
        if keep >= len(tail):
            return 0
        if keep:
            return tail[-keep]
        last = len(self.sizes) - 1
        done = isinstance(self._talk.messages[last], AssistantMessage)
        # What a run has just read stays: the model would have asked in vain.
        return last if done and self._reason == "manual" else tail[-1]

    def _legal(self, wanted: int) -> int:
        """Return the nearest index, later rather than earlier, that parts no pair."""
        for cut in range(wanted, len(self.sizes) + 1):
            if cut not in self._parting:
                return cut
        for cut in range(wanted, self._fold_from, -1):
            if cut not in self._parting:
                return cut
        return self._fold_from


def parting_cuts(messages: Sequence[Message]) -> frozenset[int]:
    """Return the indexes before which a cut would part a call from its result.

    A call that a later answer follows without its result is settled: none will come.
    """
    parting: set[int] = set()
    asked: dict[str, int] = {}
    for i, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            asked = {call.id: i for call in message.tool_calls}
            continue
        for block in message.content:
            at = asked.pop(block.tool_use_id, None) if isinstance(block, ToolResultBlock) else None
            if at is not None:
                parting.update(range(at + 1, i + 1))
    for at in asked.values():
        parting.update(range(at + 1, len(messages) + 1))
    return frozenset(parting)


def shortened(text: str, limit: int) -> str:
    """Return a text of about ``limit`` characters; it says how much of its middle is missing."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    gone = len(text) - head - tail
    return f"{text[:head]}\n[… {gone} characters left out …]\n{text[len(text) - tail :]}"


def _is_summary(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin.kind == "summary"


def _text(message: Message) -> str:
    parts = []
    for block in message.content:
        if isinstance(block, TextBlock):
            parts.append(block.text)
        elif isinstance(block, ImageBlock | DocumentBlock):
            parts.append("[image]" if isinstance(block, ImageBlock) else "[document]")
    return "\n".join(parts)


def _has_content(message: Message) -> bool:
    return any(isinstance(b, ToolResultBlock) and b.content != CLEARED for b in message.content)
