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
from agent_sdk.session.spending import Spending
from agent_sdk.session.trail import Effect, Trail
from agent_sdk.session.view import View

Setting: TypeAlias = (
    PermissionRuleRecord
    | PermissionModeChangeRecord
    | ModelChangeRecord
    | ThinkingLevelChangeRecord
    | SessionInfoRecord
    | SystemRecord
)


class OlderNeeded(Exception):
    """A record points further back than a partial state can see."""


class SessionState:
    """Everything that a session's records say, as of the last one.

    A state that was restored from a snapshot, or was told to forget, is *partial*: it knows what the
    records before came to and those in view, not the others. It takes every
    record but one that points to what it does not know; ``lacks`` says which.

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
        spending: Tokens of all requests, by model.
        sections: The system prompt that was stored last.
        tools: Tools in force, as far as records say.
        open_calls: Calls that were started and have no result, by id.
        open_run: Id of the run that has not ended; empty for none.
        view: The conversation in view; not to be changed.
        trail: The way through the records; not to be changed.
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
        self.spending = Spending()
        self.sections: tuple[PromptSection, ...] = ()
        self.tools: tuple[str, ...] = ()
        self.open_calls: dict[str, ToolJournalRecord] = {}
        self.open_run = ""
        self.view = View()
        self.trail = Trail()

    @property
    def count(self) -> int:
        """How many records there are."""
        return self.trail.count

    @property
    def usage(self) -> Usage:
        """Tokens of all requests, summed."""
        return self.spending.usage

    @property
    def cwd(self) -> str:
        """The session's folder; empty before the header."""
        return self.header.cwd if self.header else ""

    @property
    def messages(self) -> list[Message]:
        """The conversation in view; a live list, not to be changed.

        Calls that still wait for their result are in it.
        """
        return self.view.messages

    @property
    def message_uuids(self) -> list[str]:
        """Id of the record of each message in view."""
        return self.view.uuids

    @property
    def unanswered(self) -> dict[str, ToolUseBlock]:
        """Calls of the last answer that have no result yet, by id, in order."""
        return self.view.unanswered

    @property
    def todos(self) -> tuple[TodoItem, ...]:
        """The list of things to do."""
        return self.view.todos

    @property
    def compaction(self) -> CompactionRecord | None:
        """The compaction in force."""
        return self.view.compaction

    def model_messages(self) -> list[Message]:
        """Return what the model may see: the messages, every call paired.

        It is ``messages`` itself unless a call waits for its result.
        """
        return self.view.for_model()

    @property
    def partial(self) -> int:
        """How many of the oldest records are known by what they come to only."""
        return self.trail.base

    def knows(self, uuid: str) -> bool:
        """Whether there is a record of that id; of a partial state, as far as it knows."""
        return self.trail.knows(uuid)

    def lacks(self, record: Record) -> bool:
        """Whether a record points further back than this partial state can see."""
        return self.trail.lacks(record)

    def put_before(self, head: "SessionState") -> None:
        """Make a partial state whole.

        Args:
            head: The fold of exactly those records that were not in memory.
        """
        self.trail.put_before(head.trail)

    def landmarks(self) -> dict[str, int]:
        """Return the positions of the records that a partial state knows, by id.

        Those in view, the compaction in force, the header and the last one.
        """
        ends = (self.header, self.compaction)
        names = {record.uuid for record in ends if record is not None} | {self.last_uuid or ""}
        at = self.trail.at
        return {uuid: at[uuid] for uuid in (*self.view.uuids, *names) if uuid in at}

    def forget(self) -> None:
        """Become partial: let go of the records that are not in view.

        For a state whose records can be read again.
        """
        self.trail = Trail(base=self.count, known=self.landmarks(), view=self.view.copy())

    def apply(self, record: Record) -> None:
        """Take the next record.

        Raises:
            OlderNeeded: If it points further back than a partial state can
                see; nothing has changed.
        """
        if self.trail.lacks(record):
            raise OlderNeeded(record.uuid)
        last = self.trail.count - 1
        before = last
        effect: Effect | None = None
        if isinstance(record, RewindRecord):
            before = self.trail.find(record.to_uuid, before)
        elif isinstance(record, CompactionRecord | TodoRecord):
            effect = record
        elif isinstance(record, UserRecord | AssistantRecord):
            effect = message_of(record)
        at = self.trail.add(record.uuid, effect, before=before)
        self.last_uuid = record.uuid
        self.timestamp = record.timestamp or self.timestamp
        if before != last:
            self.view = self.trail.view_at(at)
        elif effect is not None:
            self.trail.act(at, self.view)
        self._note(record)

    def _note(self, record: Record) -> None:
        """Take from a record what no rewind takes back."""
        match record:
            case UserRecord():
                self._note_user(record)
            case AssistantRecord():
                self.model = f"{record.provider}/{record.model}"
                self.spending.add(self.model, record.usage)
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
                self.spending.add(record.model or self.model, record.usage)
            case CustomRecord():
                self.spending.add_child(record)
            case FileChangeRecord() | TodoRecord() | RewindRecord() | UnknownRecord():
                pass  # nothing beside the conversation, or kept for whoever knows it
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
                rules = [stored_rule(stored) for stored in record.rules]
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


def stored_rule(stored: StoredRule) -> Rule:
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
