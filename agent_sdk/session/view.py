"""The conversation as the model sees it, built one record at a time.

Only what a provider accepts gets in: no empty text, no call without a result
before the next answer, no result without its call, and of an answer that was
cut no calls. Messages that are in stay the same objects, since providers keep
what they encoded of them.
"""

import operator
from collections.abc import Collection, Sequence
from typing import Self, TypeVar

import msgspec
from msgspec import Struct

from agent_sdk.compaction.rewrite import summary_message, without_results
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    KnownBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.session.records import CompactionRecord, TodoItem

AnyMessage = TypeVar("AnyMessage", UserMessage, AssistantMessage)

_SUMMARY_AT = -1  # a summary stands before every record


class ViewEntry(Struct, frozen=True):
    """A message in view.

    Attributes:
        uuid: Id of its record.
        at: Position of its record in the file; -1 for a summary.
        message: The message, as it is in view.
    """

    uuid: str
    at: int
    message: Message


class View:
    """Messages in view, and what they leave open.

    Attributes:
        messages: The conversation, oldest first. Treat it as read-only.
        uuids: Id of each message's record.
        unanswered: Calls of the last answer that have no result yet, by id.
        todos: The list of things to do.
        compaction: The compaction in force, if there is one.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.uuids: list[str] = []
        self.unanswered: dict[str, ToolUseBlock] = {}
        self.todos: tuple[TodoItem, ...] = ()
        self.compaction: CompactionRecord | None = None
        self._at: list[int] = []  # position of each message's record in the file
        self._asked = -1  # index of the message that made the unanswered calls

    @property
    def asked(self) -> int:
        """Index of the message that made the unanswered calls; -1 before the first."""
        return self._asked

    def entries(self) -> tuple[ViewEntry, ...]:
        """Return the messages with where each comes from."""
        return tuple(map(ViewEntry, self.uuids, self._at, self.messages))

    @classmethod
    def restored(
        cls, entries: Sequence[ViewEntry], *, asked: int, unanswered: Collection[str]
    ) -> Self:
        """Return a view as it was, without what is not about messages.

        Raises:
            LookupError: If the message that asked does not have those calls.
        """
        view = cls()
        view.messages = [entry.message for entry in entries]
        view.uuids = [entry.uuid for entry in entries]
        view._at = [entry.at for entry in entries]
        view._asked = asked
        if unanswered:
            calls = {b.id: b for b in view.messages[asked].content if isinstance(b, ToolUseBlock)}
            view.unanswered = {call: calls[call] for call in unanswered}
        return view

    def copy(self) -> "View":
        """Return a view that changes on its own; the messages are shared."""
        view = View()
        view.messages, view.uuids, view._at = self.messages[:], self.uuids[:], self._at[:]
        view.unanswered, view._asked = self.unanswered.copy(), self._asked
        view.todos, view.compaction = self.todos, self.compaction
        return view

    def add(self, message: Message, *, uuid: str, at: int) -> None:
        """Add a message; ``at`` is its record's position in the file."""
        if isinstance(message, AssistantMessage):
            self._settle()
            fitted: Message | None = self._answer(message)
        else:
            fitted = self._user(message)
        if fitted is not None:
            self.messages.append(fitted)
            self.uuids.append(uuid)
            self._at.append(at)

    def for_model(self) -> list[Message]:
        """Return the messages, without calls that have no result.

        It is the list itself when nothing is open.
        """
        if not self.unanswered:
            return self.messages
        rest = _without_calls(self.messages[self._asked], set(self.unanswered))
        middle = [] if rest is None else [rest]
        return [*self.messages[: self._asked], *middle, *self.messages[self._asked + 1 :]]

    def compact(self, record: CompactionRecord, *, keep_from: int, clear_before: int) -> None:
        """Put a summary in the place of older messages.

        Args:
            record: The compaction.
            keep_from: Position of the first record that stays.
            clear_before: Position before which results lose their content.
        """
        old = list(zip(self.messages, self.uuids, self._at, strict=True))
        self.messages, self.uuids, self._at = [], [], []
        self.unanswered, self._asked = {}, -1
        self.compaction = record
        if record.summary:
            summary = summary_message(record.summary, record.uuid)
            self.add(summary, uuid=record.uuid, at=_SUMMARY_AT)
        for message, uuid, at in old:
            if at == _SUMMARY_AT and not record.summary:
                self.add(message, uuid=uuid, at=at)
            elif at >= keep_from:
                kept = without_results(message) if at < clear_before else message
                self.add(kept, uuid=uuid, at=at)

    def _answer(self, message: AssistantMessage) -> AssistantMessage | None:
        cut = message.stop_reason in ("error", "aborted")
        kept: list[Block] = []
        for raw in message.content:
            block = _readable(raw)
            if _is_empty(block):
                continue
            if isinstance(block, ToolUseBlock):
                if cut or block.id in self.unanswered:
                    continue  # never run, or twice the same call
                self.unanswered[block.id] = block
                self._asked = len(self.messages)
            kept.append(block)
        return _with_content(message, kept)

    def _user(self, message: UserMessage) -> UserMessage | None:
        kept: list[Block] = []
        for raw in message.content:
            block = _readable(raw)
            if _is_empty(block):
                continue
            if isinstance(block, ToolResultBlock):
                if block.tool_use_id not in self.unanswered:
                    continue  # answered already, or nobody asked
                del self.unanswered[block.tool_use_id]
            kept.append(block)
        return _with_content(message, kept)

    def _settle(self) -> None:
        """Drop the calls that never got a result: a new answer came without them."""
        if not self.unanswered:
            return
        rest = _without_calls(self.messages[self._asked], set(self.unanswered))
        self.unanswered = {}
        if rest is None:
            del self.messages[self._asked], self.uuids[self._asked], self._at[self._asked]
        else:
            self.messages[self._asked] = rest


def _with_content(message: AnyMessage, kept: list[Block]) -> AnyMessage | None:
    """Return the message itself if all of it was kept, a copy, or None if nothing was."""
    if not kept:
        return None
    if len(kept) == len(message.content) and all(map(operator.is_, kept, message.content)):
        return message
    return msgspec.structs.replace(message, content=tuple(kept))


def _readable(block: Block) -> Block:
    """Return a call or result with unknown fields as the known kind.

    Pairing calls with results must not depend on what a later version adds.
    """
    if isinstance(block, OpaqueBlock) and block.raw.get("type") in ("tool_use", "tool_result"):
        try:
            known: KnownBlock = msgspec.convert(block.raw, type=KnownBlock)
        except msgspec.ValidationError:
            return TextBlock("")  # unusable as either: left out
        return known
    return block


def _is_empty(block: Block) -> bool:
    return isinstance(block, TextBlock) and block.providerState is None and not block.text.strip()


def _without_calls(message: Message, ids: set[str]) -> Message | None:
    kept = [b for b in message.content if not (isinstance(b, ToolUseBlock) and b.id in ids)]
    return msgspec.structs.replace(message, content=tuple(kept)) if kept else None
