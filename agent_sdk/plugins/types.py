"""What a plugin is made of, and what its handlers are told and may answer.

A plugin contributes instructions, prompt commands, tools, replacements of
built-in tools, handlers of events, and blocks of context that may change.
Nothing here runs anything: ``merge`` puts plugins together, ``hook_runner``
runs handlers, ``session_hooks`` says what their answers mean to a session.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from agent_sdk.loop.types import Tool
from agent_sdk.providers.messages import Json

EventName: TypeAlias = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SessionEnd",
    "PreCompact",
    "SubagentStart",
    "SubagentStop",
]
EVENT_NAMES: tuple[EventName, ...] = get_args(EventName)
TOOL_EVENTS: frozenset[EventName] = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})
GATES: frozenset[EventName] = frozenset({"UserPromptSubmit", "PreToolUse"})
"""Events whose handlers may refuse, and so may also refuse by failing."""

DEFAULT_TIMEOUT = 60.0
"""Seconds that a handler has, unless it says otherwise."""
MAX_TIMEOUT = 300.0
"""Most seconds that a handler may ask for."""

# ------------------------------------------------------ what handlers are told


class _Input(Struct, frozen=True, kw_only=True, rename="camel", tag_field="event"):
    """What every event tells.

    As JSON (``msgspec.to_builtins``) names are in camel case, and ``event``
    is the event's name.

    Attributes:
        session_id: The session.
        cwd: Its folder, an absolute real path.
        invocation_id: Id of this one invocation of this one handler.
        transcript_path: Absolute path of the session's file; empty if it has none.
    """

    session_id: str
    cwd: str
    invocation_id: str = ""
    transcript_path: str = ""


class SessionStartInput(_Input, tag="SessionStart", frozen=True, kw_only=True):
    """The first input of a session is about to be taken in."""

    source: Literal["startup"] = "startup"


class UserPromptSubmitInput(_Input, tag="UserPromptSubmit", frozen=True, kw_only=True):
    """An input is about to be stored.

    Attributes:
        prompt: Its text.
        attachments: How many blocks it has beside text.
        origin: ``human``, ``queued`` or ``steered``.
    """

    prompt: str
    attachments: int = 0
    origin: Literal["human", "queued", "steered"] = "human"


class _ToolInput(_Input, frozen=True, kw_only=True):
    """What events about a call tell.

    Attributes:
        tool_call_id: Id of the call, unique in the session.
        tool_name: Native name of its tool.
        tool_input: Its input as it will run, or ran: with what earlier
            handlers have put in its place.
    """

    tool_call_id: str
    tool_name: str
    tool_input: Json


class PreToolUseInput(_ToolInput, tag="PreToolUse", frozen=True, kw_only=True):
    """A call's input has been checked; nobody has been asked for permission yet."""


class PostToolUseInput(_ToolInput, tag="PostToolUse", frozen=True, kw_only=True):
    """A call ran and its result is stored.

    Attributes:
        tool_response: ``content`` (text, or a list of blocks) as the model
            sees it, and ``details`` as front ends do.
    """

    tool_response: Json


class PostToolUseFailureInput(_ToolInput, tag="PostToolUseFailure", frozen=True, kw_only=True):
    """A call ran and failed; its result is stored.

    Attributes:
        error: The text that the model sees.
    """

    error: str


class StopInput(_Input, tag="Stop", frozen=True, kw_only=True):
    """The model has given a normal last answer; the run would end.

    Attributes:
        stop_hook_active: Whether the run goes on already because of a handler
            of this event.
        last_assistant_message: Text of the answer.
    """

    stop_hook_active: bool = False
    last_assistant_message: str = ""


class SessionEndInput(_Input, tag="SessionEnd", frozen=True, kw_only=True):
    """The session is being closed.

    Attributes:
        reason: Why, in a word.
    """

    reason: str = "other"


class PreCompactInput(_Input, tag="PreCompact", frozen=True, kw_only=True):
    """Older messages are about to be replaced for the model.

    Attributes:
        trigger: Whether someone asked for it.
        custom_instructions: What they want kept; may be empty.
    """

    trigger: Literal["manual", "auto"]
    custom_instructions: str = ""


class SubagentStartInput(_Input, tag="SubagentStart", frozen=True, kw_only=True):
    """A child session is about to begin its work.

    Attributes:
        agent_id: The child.
        agent_type: Its profile.
    """

    agent_id: str
    agent_type: str


class SubagentStopInput(_Input, tag="SubagentStop", frozen=True, kw_only=True):
    """A child session has given its last answer.

    Attributes:
        agent_id: The child.
        agent_type: Its profile.
        stop_hook_active: As for ``Stop``.
        last_assistant_message: Text of the answer.
    """

    agent_id: str
    agent_type: str
    stop_hook_active: bool = False
    last_assistant_message: str = ""


HookInput: TypeAlias = (
    SessionStartInput
    | UserPromptSubmitInput
    | PreToolUseInput
    | PostToolUseInput
    | PostToolUseFailureInput
    | StopInput
    | SessionEndInput
    | PreCompactInput
    | SubagentStartInput
    | SubagentStopInput
)

INPUTS: Mapping[EventName, type[HookInput]] = dict(
    zip(EVENT_NAMES, get_args(HookInput), strict=True)
)
"""What is told of each event."""

_EVENTS: Mapping[type[HookInput], EventName] = {told: name for name, told in INPUTS.items()}


def event_of(data: HookInput) -> EventName:
    """Return the name of the event that an input tells of."""
    return _EVENTS[type(data)]


# ----------------------------------------------------- what handlers may answer


class AddContext(Struct, frozen=True, kw_only=True):
    """Answer to ``SessionStart``, ``PostToolUse``, ``PostToolUseFailure``, ``SubagentStart``.

    Attributes:
        context: Told to the model, each as a part of one message.
    """

    context: tuple[str, ...] = ()


class PromptVerdict(Struct, frozen=True, kw_only=True):
    """Answer to ``UserPromptSubmit``.

    Attributes:
        refuse: Why the input is refused, for the user; empty to let it through.
        context: Told to the model behind the input.
    """

    refuse: str = ""
    context: tuple[str, ...] = ()


class ToolVerdict(Struct, frozen=True, kw_only=True):
    """Answer to ``PreToolUse``.

    Attributes:
        decision: ``deny`` refuses the call. ``allow`` says that this handler
            has nothing against it; it lifts no permission.
        reason: For ``deny``: what the model is told.
        tool_input: The whole input that takes the place of the call's; None
            leaves it as it is. It is checked like one that the model sent.
        context: Told to the model behind the results of the answer.
    """

    decision: Literal["allow", "deny"] | None = None
    reason: str = ""
    tool_input: Json | None = None
    context: tuple[str, ...] = ()


class StopVerdict(Struct, frozen=True, kw_only=True):
    """Answer to ``Stop`` and ``SubagentStop``.

    Attributes:
        feedback: What the model shall go on with; empty to let it end.
    """

    feedback: str = ""


HookResult: TypeAlias = AddContext | PromptVerdict | ToolVerdict | StopVerdict

ANSWERS: Mapping[EventName, type[HookResult] | None] = {
    "SessionStart": AddContext,
    "UserPromptSubmit": PromptVerdict,
    "PreToolUse": ToolVerdict,
    "PostToolUse": AddContext,
    "PostToolUseFailure": AddContext,
    "Stop": StopVerdict,
    "SessionEnd": None,
    "PreCompact": None,
    "SubagentStart": AddContext,
    "SubagentStop": StopVerdict,
}
"""What handlers may answer, beside nothing; None for events that they only observe."""

Handler: TypeAlias = Callable[..., Awaitable[HookResult | None]]
"""``async def handler(data: <the event's input>, signal: AbortSignal)``."""


class Hook(Struct, frozen=True, kw_only=True):
    """A handler of one event.

    Attributes:
        event: The event.
        handler: Called with its own copy of the input, and a signal that is
            set when it has to stop. Calls may overlap where the model's do.
        name: Its name in reports; by default its function's.
        matcher: For events about calls: names of tools, parted by ``|``, in
            either spelling, with ``*`` for any characters; empty for all.
        timeout: Seconds that it has.
        on_error: Whether its failure, or running out of time, is only told
            (``report``) or also refuses the call or the input (``block``).
    """

    event: EventName
    handler: Handler
    name: str = ""
    matcher: str = ""
    timeout: float = DEFAULT_TIMEOUT
    on_error: Literal["report", "block"] = "report"

    @property
    def label(self) -> str:
        """Its name in reports."""
        return self.name or getattr(self.handler, "__name__", type(self.handler).__name__)


class PluginCommand(Struct, frozen=True, kw_only=True):
    """A prompt command: what stands behind ``/name``.

    Attributes:
        name: Without the slash; may hold one ``:`` behind the plugin's name.
        description: What it does, in one line; may be empty.
        body: The prompt, with placeholders.
        argument_hint: What to type behind its name; may be empty.
    """

    name: str
    body: str
    description: str = ""
    argument_hint: str = ""


class SessionPlugin(Struct, frozen=True, kw_only=True):
    """What one plugin contributes to a session. Injected, never discovered.

    Attributes:
        id: Stable, such as ``zpi.memory``: lower-case letters, digits, and
            single ``.``, ``_`` or ``-`` between them.
        version: Of its implementation; not empty.
        instructions: Static texts for the system prompt.
        commands: Prompt commands.
        tools: Tools with names of their own.
        tool_overrides: Tools that take the place of the built-in ones of their names.
        hooks: Handlers, in the order in which they are called.
        context_instructions: Returns blocks for the model by local name, as
            they are now; asked before each request, so it must be quick.
    """

    id: str
    version: str
    instructions: tuple[str, ...] = ()
    commands: tuple[PluginCommand, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_overrides: tuple[Tool, ...] = ()
    hooks: tuple[Hook, ...] = ()
    context_instructions: Callable[[], Mapping[str, str]] | None = None


class BoundHook(Struct, frozen=True, kw_only=True):
    """A handler and the plugin that it belongs to.

    Attributes:
        plugin_id: The plugin.
        hook: The handler.
        index: Its place among the plugin's handlers, from 0.
    """

    plugin_id: str
    hook: Hook
    index: int = 0
