"""What the loop and its neighbours say to each other.

Tools, the permission requests they declare, the ports by which a session
takes part in a run, and the closed union of events that a run emits. Rules
and requests live here so that permissions, resources and events need not
know each other.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import ProviderError
from agent_sdk.core.usage import Usage
from agent_sdk.loop.owner import Inbox, SessionHandle
from agent_sdk.providers.base import (
    ModelRequest,
    PromptSection,
    StreamEvent,
    ToolSpec,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    Json,
    Message,
    ResultContent,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model

# ------------------------------------------------------------- permissions

Action: TypeAlias = Literal["allow", "deny", "ask"]


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One permission rule; the last one that matches wins.

    Attributes:
        permission: The key it is about, such as ``edit``; ``*`` for every key.
        pattern: Wildcard over the request's pattern: ``*`` matches any
            characters including ``/``, ``?`` exactly one.
        action: What is done with a match.
    """

    permission: str
    pattern: str
    action: Action


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """What one call needs to be allowed, as its tool declares it.

    Attributes:
        permission: Key, such as ``read``, ``edit``, ``bash``.
        patterns: What it touches: for files the resolved real paths, for bash
            the command itself. Every one of them must be allowed.
        aliases: Other spellings of the same things (the path as given, links
            on the way); a deny that matches one of them applies too.
        always: The rules that an answer of *always* would store; empty where
            *always* must not be offered.
        title: One line for the person who is asked.
        protected: Whether it touches something that no rule may allow for
            good (``.git``, ZPI's own settings, shell start-up files …).
    """

    permission: str
    patterns: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    always: tuple[Rule, ...] = ()
    title: str = ""
    protected: bool = False


class Decision(Struct, frozen=True, kw_only=True):
    """The outcome of ``authorize`` for one call.

    Attributes:
        allowed: Whether the call may run.
        reason: For a refusal, what the model is told.
        by: What decided: ``rule``, ``mode``, ``user``, ``protected``,
            ``no_asker``, ``hook`` or ``expired``.
        input_hash: SHA-256 of the call's canonical input; a decision is good
            for exactly this input.
    """

    allowed: bool
    reason: str = ""
    by: str = "rule"
    input_hash: str = ""


# ------------------------------------------------------------------- tools

SideEffects: TypeAlias = Literal["none", "workspace", "git", "network", "system", "session", "user"]


class ToolMetadata(Struct, frozen=True, kw_only=True):
    """What a tool does to the world; decides how its calls are scheduled.

    Attributes:
        read_only: Changes nothing anywhere.
        concurrent: Calls may overlap with other concurrent calls.
        destructive: May lose something.
        interactive: Waits for a person.
        side_effects: Where its effects lie.
    """

    read_only: bool = False
    concurrent: bool = False
    destructive: bool = False
    interactive: bool = False
    side_effects: SideEffects = "workspace"

    @property
    def early(self) -> bool:
        """Whether a call may start before the model's answer has ended."""
        return (
            self.read_only
            and self.concurrent
            and not self.interactive
            and self.side_effects == "none"
        )


class ToolResult(Struct, frozen=True, kw_only=True):
    """What a tool returns.

    Attributes:
        content: Text, or blocks, for the model.
        is_error: Whether the model should see it as a failure.
        details: Facts for the front end (diff, exit code, counts); stored
            beside the result, never sent to the model.
    """

    content: str | tuple[ResultContent, ...]
    is_error: bool = False
    details: Json = msgspec.field(default_factory=dict)


def file_changes(details: Json) -> list[Json]:
    """Return the changes of files that a result's details tell of.

    A tool that changes one file has it under ``fileChange``, one that changes
    several has a list under ``fileChanges``. Each has ``path``, ``operation``,
    ``beforeHash`` and ``afterHash`` (None for no file), and the diff.
    """
    several = details.get("fileChanges")
    found = several if isinstance(several, list) else [details.get("fileChange")]
    return [change for change in found if isinstance(change, dict)]


class ToolContext(Struct, frozen=True, kw_only=True):
    """What a tool may know and use during one call.

    Attributes:
        call_id: Id of the call, unique in the session.
        cwd: The session's folder, an absolute real path.
        model: The model that made the call.
        signal: Set when the run is stopped; the call's task is then also
            cancelled, and clean-up must not take more than two seconds.
        update: Shows progress: text that was added since the last update.
        tool_names: Names of the tools in the session.
        thinking_level: Reasoning level in force; empty for none.
        session: The session that the call belongs to; None outside of one.
    """

    call_id: str
    cwd: str
    model: Model
    signal: AbortSignal
    update: Callable[[str], None]
    tool_names: tuple[str, ...] = ()
    thinking_level: str = ""
    session: SessionHandle | None = None


class Tool(Protocol):
    """A tool that the model can call.

    ``parse`` and ``permissions`` are quick and change nothing; ``execute``
    runs only with a decision for exactly the parsed input. A failure that the
    model should hear about is a ``ToolError`` or a result with ``is_error``;
    anything else is a bug and is reported to the model without its text.
    """

    @property
    def name(self) -> str:
        """Native name, lower case, such as ``read``."""
        ...

    @property
    def description(self) -> str:
        """What the model is told it does."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of the input, an object."""
        ...

    @property
    def metadata(self) -> ToolMetadata:
        """What it does to the world."""
        ...

    def parse(self, raw: Json) -> Any:  # noqa: ANN401 - each tool has its own input type
        """Check the input and return it in the tool's own form.

        Raises:
            InvalidToolInput: If it does not fit; the text names the field.
        """
        ...

    def permissions(self, args: Any, cwd: str) -> tuple[PermissionRequest, ...]:  # noqa: ANN401
        """Return what the call needs to be allowed; empty if nothing."""
        ...

    async def execute(self, args: Any, context: ToolContext) -> ToolResult:  # noqa: ANN401
        """Do it."""
        ...


class PreparedCall(Struct, frozen=True, kw_only=True):
    """A call whose input has been checked."""

    call: ToolUseBlock
    tool: Tool
    args: Any
    requests: tuple[PermissionRequest, ...]
    input_hash: str


# ------------------------------------------------------------------ events

RunStatus: TypeAlias = Literal["completed", "aborted", "error", "max_turns"]


class RunStarted(Struct, frozen=True):
    """A run began."""

    run_id: str


class TurnStarted(Struct, frozen=True):
    """A request to the model is about to be made; counted from 1 in the run."""

    turn: int


class UserMessageAdded(Struct, frozen=True):
    """A user message (prompt, context, synthetic) is durable."""

    uuid: str
    message: UserMessage


class StreamProgress(Struct, frozen=True):
    """Something of the model's answer arrived; transient, never stored."""

    event: StreamEvent


class AssistantMessageAdded(Struct, frozen=True):
    """The model's answer is durable, whole or cut (see its stop reason)."""

    uuid: str
    message: AssistantMessage


class ToolStarted(Struct, frozen=True):
    """A call is about to run (``early``: before the answer has ended)."""

    call: ToolUseBlock
    early: bool = False


class ToolProgress(Struct, frozen=True, gc=False):
    """Output that a running call has produced; transient."""

    call_id: str
    text: str


class ToolFinished(Struct, frozen=True):
    """A call's result is durable.

    Attributes:
        uuid: Id of the result's record.
        call: The call.
        result: What the model will see.
        details: Facts for the front end.
        seconds: How long it ran; 0 when it was not run at all.
        ran: Whether the tool was executed.
        denied: Whether permission was refused.
    """

    uuid: str
    call: ToolUseBlock
    result: ToolResultBlock
    details: Json
    seconds: float
    ran: bool
    denied: bool = False


class PermissionAsked(Struct, frozen=True):
    """Someone is asked whether a call may run."""

    request_id: str
    call: ToolUseBlock
    requests: tuple[PermissionRequest, ...]
    input_hash: str


class PermissionReplied(Struct, frozen=True):
    """A question was answered, or expired."""

    request_id: str
    call_id: str
    reply: Literal["once", "always", "reject", "expired"]
    reason: str = ""


class Notice(Struct, frozen=True):
    """Something the user should know; never sent to the model."""

    level: Literal["info", "warning", "error"]
    code: str
    text: str


CompactionReason: TypeAlias = Literal["threshold", "queries", "overflow", "manual"]
"""Why a conversation is compacted: it has come near the window, it has too many
queries, the provider said that it does not fit, or someone asked for it."""


class CompactionStarted(Struct, frozen=True):
    """Older messages are about to be replaced for the model.

    Attributes:
        reason: Why.
        tokens_before: How full the context is, measured as far as it can be.
    """

    reason: CompactionReason
    tokens_before: int


class CompactionEnded(Struct, frozen=True, kw_only=True):
    """A compaction ended; unless it is ``completed``, the context is as it was.

    Attributes:
        status: ``skipped`` means that there was nothing worth doing, or that
            someone who was asked did not want it.
        uuid: Id of its record, for ``completed`` in a stored session.
        summary: What stands for the older messages; empty if results were
            only cleared.
        tokens_before: How full the context was.
        tokens_after: Estimate of how full it is; 0 if not known.
        usage: What the summary cost, failed attempts included.
        error_code: Stable code, for ``failed``.
        error: Why, for ``failed`` and ``skipped``.
    """

    status: Literal["completed", "skipped", "failed", "aborted"]
    uuid: str = ""
    summary: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    usage: Usage = Usage()
    error_code: str = ""
    error: str = ""


class TurnEnded(Struct, frozen=True):
    """An answer and all its calls have settled."""

    turn: int


class RunEnded(Struct, frozen=True, kw_only=True):
    """A run ended; nothing more comes of it.

    Attributes:
        run_id: The run.
        status: How it ended.
        turns: Requests that were answered.
        usage: Tokens of the run's requests, summed.
        error_code: Stable code of the error, for ``error``.
        error: Its text.
        denials: Calls that were refused for want of permission.
    """

    run_id: str
    status: RunStatus
    turns: int
    usage: Usage = Usage()
    error_code: str = ""
    error: str = ""
    denials: int = 0


AgentEvent: TypeAlias = (
    RunStarted
    | TurnStarted
    | UserMessageAdded
    | StreamProgress
    | AssistantMessageAdded
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | PermissionAsked
    | PermissionReplied
    | Notice
    | CompactionStarted
    | CompactionEnded
    | TurnEnded
    | RunEnded
)


# ------------------------------------------------------------------- ports


class LoopPorts(Protocol):
    """How the owner of a run takes part in it.

    The loop calls these and nothing else. Unless said otherwise a port may
    raise ``ZpiError``, which ends the run as ``error``; cancellation passes
    through. ``add_*`` return when the record is durable.
    """

    @property
    def inbox(self) -> Inbox:
        """What waits to be put into the run."""
        ...

    def messages(self) -> Sequence[Message]:
        """Return the conversation as the model shall see it; never raises."""
        ...

    def system(self) -> tuple[PromptSection, ...]:
        """Return the system prompt's sections; byte-stable between requests."""
        ...

    async def before_request(self, turn: int) -> None:
        """Check and prepare before a model request (budget, compaction)."""
        ...

    async def on_overflow(self, error: ProviderError) -> bool:
        """Make room after the provider said that a request does not fit the model.

        Called at most once for each turn.

        Returns:
            Whether there is room now, so that the request is made again.
        """
        ...

    def context(self) -> Sequence[UserMessage]:
        """Return what the model must be told before its next request; often nothing.

        Asked for after ``before_request``, when every call has its result.
        Never raises.
        """
        ...

    def request(self, base: ModelRequest) -> ModelRequest:
        """Return the request with the owner's dynamic options."""
        ...

    async def add_user(self, *messages: UserMessage) -> list[str]:
        """Store user messages, all or none; return their records' ids."""
        ...

    async def add_assistant(
        self,
        message: AssistantMessage,
        *,
        starting: ToolUseBlock | None = None,
        results: Sequence[tuple[ToolResultBlock, Json]] = (),
    ) -> list[str]:
        """Store an answer, and with it what is known already: all or nothing.

        One write for what would else be several, each of which waits for the
        disk.

        Args:
            message: The answer.
            starting: Its call with side effects that starts as soon as this
                returns, as by ``journal``.
            results: Results of its calls that have run early, with details.

        Returns:
            Ids of the records of the answer and of the results.
        """
        ...

    async def journal(self, call: ToolUseBlock) -> None:
        """Store that a call with side effects is about to start."""
        ...

    async def add_result(self, result: ToolResultBlock, details: Json) -> str:
        """Store a call's result; return its record's id."""
        ...

    def decide(self, prepared: PreparedCall) -> Decision | None:
        """Decide without asking anybody; None if a person would be asked.

        Used for calls that may start before the answer has ended. Never raises.
        """
        ...

    async def authorize(self, prepared: PreparedCall, signal: AbortSignal) -> Decision:
        """Decide whether a call may run; may ask a person and wait."""
        ...

    def bound(self, call: ToolUseBlock, result: ToolResult) -> ToolResult:
        """Return the result cut to what the model may be sent. Never raises."""
        ...

    def emit(self, event: AgentEvent) -> None:
        """Publish an event. Never raises: a failing display is a diagnostic."""
        ...


class LoopConfig(Struct, frozen=True, kw_only=True):
    """What stays fixed during one run.

    Attributes:
        run_id: Id of the run.
        cwd: The session's folder, absolute and real.
        model: Model in force.
        thinking_level: Reasoning level in force; empty for none.
        tools: Tools by name.
        specs: Their declarations, in order.
        max_turns: Most requests; None for no limit.
        early_execution: Whether read-only calls may start before the answer ends.
        session_id: For prompt caching.
        session: The session, as tools may use it; None outside of one.
    """

    run_id: str
    cwd: str
    model: Model
    thinking_level: str = ""
    tools: Mapping[str, Tool] = {}
    specs: tuple[ToolSpec, ...] = ()
    max_turns: int | None = None
    early_execution: bool = True
    session_id: str = ""
    session: SessionHandle | None = None
