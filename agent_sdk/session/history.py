"""The fold: what a session's records come to.

Pure and incremental: applying one more record equals folding all again. The
state is mutable and owned by the session's manager, which applies a record
when it is durable and not before.

A rewind takes the conversation back (messages, compaction, to-do list). What
the user has set (model, reasoning level, permissions, title) and what has
happened (usage, runs, started calls, the prompt that was sent) stays: going
back in the talk must not loosen a permission.
"""

from collections.abc import Iterable
from typing import TypeAlias, assert_never

from msgspec import UNSET

from agent_sdk.core.usage import Usage
from agent_sdk.loop.types import Rule
from agent_sdk.providers.base import PromptSection
from agent_sdk.providers.messages import (
    Message,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_sdk.session.records import (
    AssistantRecord,
    CompactionRecord,
    CustomRecord,
    FileChangeRecord,
    ModelChangeRecord,
    PermissionModeChangeRecord,
    PermissionRuleRecord,
    Record,
    RewindRecord,
    RunRecord,
    SessionHeader,
    SessionInfoRecord,
    StoredRule,
    SystemRecord,
    ThinkingLevelChangeRecord,
    TodoItem,
    TodoRecord,
    ToolJournalRecord,
    UnknownRecord,
    UserRecord,
    message_of,
)
from agent_sdk.session.view import View

Effect: TypeAlias = Message | CompactionRecord | TodoRecord
"""What a record does to the conversation."""


Setting: TypeAlias = (
    PermissionRuleRecord
    | PermissionModeChangeRecord
    | ModelChangeRecord
    | ThinkingLevelChangeRecord
    | SessionInfoRecord
    | SystemRecord
)


class SessionState:
    """Everything that a session's records say, as of the last one.

    Attributes:
        header: The first record; None before it was applied.
        last_uuid: Id of the last record; None before the first.
        timestamp: Wall clock of the last record, ISO 8601; empty before.
        model: ``provider/id`` in force; empty if none was named.
        thinking_level: Reasoning level in force; empty for none.
        permission_mode: Mode in force; empty if none was set.
        permission_rules: The session's rules, oldest first.
        title: Title that was set; empty for none.
        tag: Tag that was set; empty for none.
        first_prompt: Text of the first prompt.
        usage: Tokens of all requests, summed.
        sections: The system prompt that was stored last.
        tools: Tools in force, as far as records say.
        open_calls: Calls that were started and have no result, by id.
        open_run: Id of the run that has not ended; empty for none.
    """

    def __init__(self) -> None:
        self.header: SessionHeader | None = None
        self.last_uuid: str | None = None
        self.timestamp = ""
        self.model = ""
        self.thinking_level = ""
        self.permission_mode = ""
        self.permission_rules: list[Rule] = []
        self.title = ""
        self.tag = ""
        self.first_prompt = ""
        self.usage = Usage()
        self.sections: tuple[PromptSection, ...] = ()
        self.tools: tuple[str, ...] = ()
        self.open_calls: dict[str, ToolJournalRecord] = {}
        self.open_run = ""
        self._view = View()
        # One entry a record, so that a rewind finds its way: where it is,
        # which record is before it in the conversation, and what it did.
        self._index: dict[str, int] = {}
        self._uuids: list[str] = []
        self._before: list[int] = []
        self._effects: list[Effect | None] = []

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self._before)

    @property
    def cwd(self) -> str:
        """The session's folder; empty before the header."""
        return self.header.cwd if self.header else ""

    @property
    def messages(self) -> list[Message]:
        """The conversation in view; a live list, not to be changed.

        Calls that still wait for their result are in it.
        """
        return self._view.messages

    @property
    def message_uuids(self) -> list[str]:
        """Id of the record of each message in view."""
        return self._view.uuids

    @property
    def unanswered(self) -> dict[str, ToolUseBlock]:
        """Calls of the last answer that have no result yet, by id, in order."""
        return self._view.unanswered

    @property
    def todos(self) -> tuple[TodoItem, ...]:
        """The list of things to do."""
        return self._view.todos

    @property
    def compaction(self) -> CompactionRecord | None:
        """The compaction in force."""
        return self._view.compaction

    def model_messages(self) -> list[Message]:
        """Return what the model may see: the messages, every call paired.

        It is ``messages`` itself unless a call waits for its result.
        """
        return self._view.for_model()

    def knows(self, uuid: str) -> bool:
        """Whether there is a record of that id."""
        return uuid in self._index

    def apply(self, record: Record) -> None:
        """Take the next record."""
        at = len(self._before)
        before = at - 1
        effect: Effect | None = None
        if isinstance(record, RewindRecord):
            before = self._index.get(record.to_uuid, before)
        elif isinstance(record, CompactionRecord | TodoRecord):
            effect = record
        elif isinstance(record, UserRecord | AssistantRecord):
            effect = message_of(record)
        self._index[record.uuid] = at
        self._uuids.append(record.uuid)
        self._before.append(before)
        self._effects.append(effect)
        self.last_uuid = record.uuid
        self.timestamp = record.timestamp or self.timestamp
        if before != at - 1:
            self._rebuild(at)
        elif effect is not None:
            self._act(effect, uuid=record.uuid, at=at, view=self._view)
        self._note(record)

    def _rebuild(self, at: int) -> None:
        """Build the view again along the records that are still in it."""
        path = []
        while at >= 0:
            if self._effects[at] is not None:
                path.append(at)
            at = self._before[at]
        self._view = View()
        for step in reversed(path):
            effect = self._effects[step]
            if effect is not None:
                self._act(effect, uuid=self._uuids[step], at=step, view=self._view)

    def _act(self, effect: Effect, *, uuid: str, at: int, view: View) -> None:
        if isinstance(effect, CompactionRecord):
            view.compact(
                effect,
                keep_from=self._index.get(effect.keep_from_uuid or "", at),
                clear_before=self._index.get(effect.clear_tool_results_before_uuid or "", -1),
            )
        elif isinstance(effect, TodoRecord):
            view.todos = effect.items
        else:
            view.add(effect, uuid=uuid, at=at)

    def _note(self, record: Record) -> None:
        """Take from a record what no rewind takes back."""
        match record:
            case UserRecord():
                self._note_user(record)
            case AssistantRecord():
                self.usage = self.usage + record.usage
                self.model = f"{record.provider}/{record.model}"
            case RunRecord():
                self._note_run(record)
            case ToolJournalRecord():
                self.open_calls[record.tool_use_id] = record
            case SessionHeader():
                self.header = self.header or record
            case (
                PermissionRuleRecord()
                | PermissionModeChangeRecord()
                | ModelChangeRecord()
                | ThinkingLevelChangeRecord()
                | SessionInfoRecord()
                | SystemRecord()
            ):
                self._note_setting(record)
            case CompactionRecord():
                self.usage = self.usage + record.usage
            case FileChangeRecord() | TodoRecord() | RewindRecord() | CustomRecord():
                pass  # nothing beside the conversation
            case UnknownRecord():
                pass  # kept in the file, for whoever knows it
            case _:
                assert_never(record)

    def _note_user(self, record: UserRecord) -> None:
        for block in record.message.content:
            if isinstance(block, ToolResultBlock):
                self.open_calls.pop(block.tool_use_id, None)
            elif isinstance(block, OpaqueBlock) and block.raw.get("type") == "tool_result":
                self.open_calls.pop(str(block.raw.get("tool_use_id")), None)
        if not self.first_prompt and is_prompt(record):
            self.first_prompt = prompt_text(record)

    def _note_run(self, record: RunRecord) -> None:
        if record.event == "start":
            self.open_run = record.run_id
        elif record.event == "end" and record.run_id == self.open_run:
            self.open_run = ""

    def _note_setting(self, record: Setting) -> None:
        match record:
            case PermissionRuleRecord():
                rules = [_rule(stored) for stored in record.rules]
                if record.removed:
                    self.permission_rules = [r for r in self.permission_rules if r not in rules]
                else:
                    self.permission_rules = [*self.permission_rules, *rules]
            case PermissionModeChangeRecord():
                self.permission_mode = record.mode
            case ModelChangeRecord():
                self.model = f"{record.provider}/{record.model}"
            case ThinkingLevelChangeRecord():
                self.thinking_level = record.thinking_level
            case SessionInfoRecord():
                self.title = self.title if record.title is UNSET else record.title or ""
                self.tag = self.tag if record.tag is UNSET else record.tag or ""
            case SystemRecord():
                self._note_system(record)
            case _:
                assert_never(record)

    def _note_system(self, record: SystemRecord) -> None:
        if record.sections is not UNSET:
            self.sections = tuple(PromptSection(s.name, s.text) for s in record.sections)
        kept = [name for name in self.tools if name not in record.tools_removed]
        added = [name for name in record.tools_added if name not in kept]
        self.tools = (*kept, *added)


def is_prompt(record: UserRecord) -> bool:
    """Whether a person wrote it, as a prompt."""
    return record.origin is not None and record.origin.kind in ("human", "queued", "steered")


def prompt_text(record: UserRecord) -> str:
    """Return the text of a user record."""
    return "".join(b.text for b in record.message.content if isinstance(b, TextBlock))


def _rule(stored: StoredRule) -> Rule:
    """Return the rule; an action that this version does not know asks."""
    match stored.action:
        case "allow" | "deny" as action:
            return Rule(stored.permission, stored.pattern, action)
        case _:
            return Rule(stored.permission, stored.pattern, "ask")


def fold(records: Iterable[Record]) -> SessionState:
    """Return the state that the records come to."""
    state = SessionState()
    for record in records:
        state.apply(record)
    return state
