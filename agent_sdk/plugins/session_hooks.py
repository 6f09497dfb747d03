"""What handlers' answers mean to a session; a ``RunExtension`` for its runs.

Answers become messages of their own, in the order of the handlers, which the
loop stores where the conversation is whole. No handler changes what was said,
what a call returned, or what is allowed.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import InputRefused, ToolError
from agent_sdk.loop.extension import Reviewed
from agent_sdk.loop.types import Notice, PreparedCall, ToolResult
from agent_sdk.plugins.hook_runner import HookRunner, Outcome
from agent_sdk.plugins.matching import matches
from agent_sdk.plugins.types import (
    TOOL_EVENTS,
    AddContext,
    BoundHook,
    EventName,
    HookInput,
    PostToolUseFailureInput,
    PostToolUseInput,
    PreCompactInput,
    PreToolUseInput,
    PromptVerdict,
    SessionEndInput,
    SessionStartInput,
    StopInput,
    StopVerdict,
    ToolVerdict,
    UserPromptSubmitInput,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    Json,
    Origin,
    TextBlock,
    ToolResultBlock,
    UserMessage,
)

MOST_STOPS = 3
"""So often in a row may handlers of ``Stop`` let a run go on."""

_PROMPTS = ("human", "queued", "steered")

Revise: TypeAlias = Callable[[Json], PreparedCall]


class SessionHooks:
    """The handlers of one session's plugins.

    Args:
        hooks: In the order in which they are called.
        runner: Calls them.
        session_id: The session.
        cwd: Its folder, an absolute real path.
        transcript_path: Absolute path of its file; empty if it has none.
        has_prompts: Whether an input was ever stored with the session.
        emit: Takes notices for the user.
    """

    def __init__(
        self,
        *,
        hooks: Sequence[BoundHook],
        runner: HookRunner,
        session_id: str,
        cwd: str,
        transcript_path: str = "",
        has_prompts: Callable[[], bool],
        emit: Callable[[Notice], None],
    ) -> None:
        self._hooks = tuple(hooks)
        self._runner = runner
        self._session_id = session_id
        self._cwd = cwd
        self._transcript_path = transcript_path
        self._has_prompts = has_prompts
        self._emit = emit
        self._started = False
        self._greetings: dict[tuple[str, int], tuple[UserMessage, ...]] = {}
        self._stops = 0
        self._ended = False

    @property
    def reviews_calls(self) -> bool:
        """Whether there are handlers of events about calls."""
        return any(bound.hook.event in TOOL_EVENTS for bound in self._hooks)

    # ------------------------------------------------------------------- inputs

    async def admit(self, message: UserMessage, signal: AbortSignal) -> tuple[UserMessage, ...]:
        """Return what is stored for an input; see the port.

        Before the first one ``SessionStart`` is told, and what its handlers
        add is stored together with the input, or not at all. A handler that
        has answered is not asked again when the input is sent again.

        Raises:
            InputRefused: If a handler does not let it through.
        """
        match message.origin.kind:
            case "human" | "queued" | "steered" as origin:
                data = UserPromptSubmitInput(
                    **self._facts(),
                    prompt="".join(b.text for b in message.content if isinstance(b, TextBlock)),
                    attachments=sum(not isinstance(b, TextBlock) for b in message.content),
                    origin=origin,
                )
            case _:
                return (message,)
        self._stops = 0
        before = await self._start(signal)
        behind: list[UserMessage] = []
        for bound in self._for("UserPromptSubmit"):
            outcome = await self._invoke(bound, data, signal)
            verdict = outcome.result
            if outcome.blocks:
                raise InputRefused(_failed(outcome, "The prompt was not sent."))
            if isinstance(verdict, PromptVerdict):
                if verdict.refuse:
                    raise InputRefused(f"Plugin {bound.plugin_id!r} refused it: {verdict.refuse}")
                behind += _context(outcome, verdict.context)
        return (*before, message, *behind)

    async def _start(self, signal: AbortSignal) -> list[UserMessage]:
        if self._started:
            return []
        if self._has_prompts():
            self._started = True  # only now: an input that could not be stored was none
            self._greetings.clear()
            return []
        data = SessionStartInput(**self._facts())
        context: list[UserMessage] = []
        for bound in self._for("SessionStart"):
            key = (bound.plugin_id, bound.index)
            if key not in self._greetings:
                outcome = await self._invoke(bound, data, signal)
                if outcome.failed:
                    continue
                self._greetings[key] = _added(outcome)
            context += self._greetings[key]
        return context

    # -------------------------------------------------------------------- calls

    async def before_tool(
        self, prepared: PreparedCall, revise: Revise, signal: AbortSignal
    ) -> Reviewed:
        """Let handlers of ``PreToolUse`` look at a call; see the port.

        Each one sees the input as the ones before it left it. The first that
        denies ends the review. An input that does not fit the tool refuses
        the call: the one that it replaced was not wanted.
        """
        context: list[UserMessage] = []
        for bound in self._for("PreToolUse", prepared.tool.name):
            data = PreToolUseInput(**self._facts(), **_call(prepared))
            outcome = await self._invoke(bound, data, signal)
            verdict = outcome.result if isinstance(outcome.result, ToolVerdict) else ToolVerdict()
            context += _context(outcome, verdict.context)
            refused = ""
            if outcome.blocks:
                refused = _failed(outcome, "The call was not run.")
            elif verdict.decision == "deny":
                refused = verdict.reason or f"Refused by the plugin {bound.plugin_id!r}."
            elif verdict.tool_input is not None:
                try:
                    prepared = revise(verdict.tool_input)
                except ToolError as error:
                    who = f"The plugin {bound.plugin_id!r} changed the input of this call"
                    refused = f"Not run. {who} to one that does not fit: {error}"
            if refused:
                return Reviewed(prepared=prepared, refused=refused, context=tuple(context))
        return Reviewed(prepared=prepared, context=tuple(context))

    async def after_tool(
        self, prepared: PreparedCall, result: ToolResult, signal: AbortSignal
    ) -> tuple[UserMessage, ...]:
        """Tell handlers of ``PostToolUse`` or ``PostToolUseFailure``; see the port."""
        data: HookInput
        facts, call = self._facts(), _call(prepared)
        event: Literal["PostToolUse", "PostToolUseFailure"]
        content = msgspec.to_builtins(result.content)
        if result.is_error:
            event = "PostToolUseFailure"
            text = content if isinstance(content, str) else _text_of(content)
            data = PostToolUseFailureInput(**facts, **call, error=text)
        else:
            event = "PostToolUse"
            response = {"content": content, "details": result.details}
            data = PostToolUseInput(**facts, **call, tool_response=response)
        context: list[UserMessage] = []
        for bound in self._for(event, prepared.tool.name):
            context += _added(await self._invoke(bound, data, signal))
        return tuple(context)

    # ---------------------------------------------------------------------- end

    async def on_stop(
        self, message: AssistantMessage, signal: AbortSignal
    ) -> tuple[UserMessage, ...]:
        """Return the feedback of handlers of ``Stop``; at most three times in a row."""
        data = StopInput(
            **self._facts(),
            stop_hook_active=self._stops > 0,
            last_assistant_message=message.text,
        )
        feedback: list[UserMessage] = []
        for bound in self._for("Stop"):
            outcome = await self._invoke(bound, data, signal)
            if isinstance(outcome.result, StopVerdict):
                feedback += _context(outcome, (outcome.result.feedback,))
        if not feedback:
            self._stops = 0
        elif self._stops >= MOST_STOPS:
            self._stops = 0
            text = f"Plugins wanted to go on {MOST_STOPS + 1} times in a row; the run ends here."
            self._emit(Notice("warning", "stop_limit", text))
            return ()
        else:
            self._stops += 1
        return tuple(feedback)

    async def pre_compact(
        self,
        trigger: Literal["manual", "auto"],
        signal: AbortSignal,
        *,
        custom_instructions: str = "",
    ) -> None:
        """Tell handlers of ``PreCompact`` that older messages are about to be replaced.

        Raises:
            Aborted: If the signal was set.
        """
        data = PreCompactInput(
            **self._facts(), trigger=trigger, custom_instructions=custom_instructions
        )
        for bound in self._for("PreCompact"):
            await self._invoke(bound, data, signal)

    async def aclose(self, reason: str = "other") -> None:
        """Tell handlers of ``SessionEnd``, once, and end what still runs."""
        try:
            if not self._ended:
                self._ended = True
                data = SessionEndInput(**self._facts(), reason=reason)
                for bound in self._for("SessionEnd"):
                    await self._invoke(bound, data, AbortSignal())
        finally:
            await self._runner.aclose()

    # ------------------------------------------------------------------ helpers

    def _facts(self) -> Json:
        return {
            "session_id": self._session_id,
            "cwd": self._cwd,
            "transcript_path": self._transcript_path,
        }

    def _for(self, event: EventName, tool_name: str = "") -> list[BoundHook]:
        return [
            bound
            for bound in self._hooks
            if bound.hook.event == event
            and (event not in TOOL_EVENTS or matches(bound.hook.matcher, tool_name))
        ]

    async def _invoke(self, bound: BoundHook, data: HookInput, signal: AbortSignal) -> Outcome:
        outcome = await self._runner.invoke(bound, data, signal)
        if outcome.failed:
            self._emit(Notice("warning", "hook_failed", _failed(outcome, "")))
        return outcome


def _failed(outcome: Outcome, so: str) -> str:
    report = outcome.report
    who = f"The handler {report.handler!r} of the plugin {report.plugin_id!r}"
    text = f"{who} failed on {report.event}: {report.error}"
    return f"{so} {text} Switch the plugin off if it keeps failing." if so else text


def _call(prepared: PreparedCall) -> Json:
    call = prepared.call
    return {"tool_call_id": call.id, "tool_name": prepared.tool.name, "tool_input": call.input}


def _added(outcome: Outcome) -> tuple[UserMessage, ...]:
    if not isinstance(outcome.result, AddContext):
        return ()
    return tuple(_context(outcome, outcome.result.context))


def _context(outcome: Outcome, texts: Sequence[str]) -> list[UserMessage]:
    """Return the message that tells the model what a handler adds; none if it is nothing."""
    kept = [text for text in texts if text.strip()]
    if not kept:
        return []
    report = outcome.report
    inside = "\n\n".join(kept).replace("</hook", "<\\/hook")
    text = f'<hook event="{report.event}" plugin="{report.plugin_id}">\n{inside}\n</hook>'
    origin = Origin("hook", f"{report.event}/{report.plugin_id}/{report.invocation_id}")
    return [UserMessage(content=(TextBlock(text),), origin=origin)]


def _text_of(blocks: Sequence[Json]) -> str:
    return "".join(str(block.get("text", "")) for block in blocks)


def has_prompts(messages: Sequence[UserMessage | AssistantMessage]) -> bool:
    """Whether an input of a person is among the messages."""
    return any(
        isinstance(message, UserMessage)
        and message.origin.kind in _PROMPTS
        and not all(isinstance(block, ToolResultBlock) for block in message.content)
        for message in messages
    )
