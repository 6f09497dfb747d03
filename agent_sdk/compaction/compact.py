"""Asks the model for the summary, and accepts none that may not be used.

A summary that was cut off, says nothing, calls tools, or is as large as what
it would replace is refused. What is too long for one request is summarised
in pieces, each with the summary of those before it.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TypeAlias, assert_never

from msgspec import Struct

from agent_sdk.compaction.estimate import text_tokens
from agent_sdk.compaction.plan import CompactionPlan
from agent_sdk.compaction.rewrite import CLEARED, Parts, summary_text
from agent_sdk.compaction.transcript import CLOSE, OPEN, entries, pieces
from agent_sdk.core.errors import CompactionFailed
from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    ModelRequest,
    PromptSection,
    Provider,
    StreamDone,
    StreamFailed,
    StreamRetry,
    StreamStart,
    StreamWaiting,
    TextDelta,
    ThinkingDelta,
)
from agent_sdk.providers.messages import AssistantMessage, Message, TextBlock, UserMessage
from agent_sdk.providers.models import Model

DATA = Path(__file__).resolve().parent / "data"
_PROMPT_TOKENS = 600
"""Room for the prompt around the conversation."""
_ATTEMPTS = 3
"""How often a request that does not fit is made again with half as much in it."""


class SummaryRequest(Struct, frozen=True, kw_only=True):
    """What to summarise, and by whom.

    Attributes:
        messages: The conversation that ``plan`` is about.
        plan: What of it is summarised.
        model: The model that writes the summary.
        thinking_level: Its reasoning level; empty to send nothing about it.
        instructions: What the summary should heed besides, in the user's
            words; may be empty.
    """

    messages: Sequence[Message]
    plan: CompactionPlan
    model: Model
    thinking_level: str = ""
    instructions: str = ""


class SummaryDelta(Struct, frozen=True, gc=False):
    """More text of a summary that is being written; transient.

    Attributes:
        text: What was added.
        piece: Which piece of the conversation it covers, counted from 1; each
            piece's summary takes the place of the one before.
        pieces: How many pieces there are.
    """

    text: str
    piece: int = 1
    pieces: int = 1


class Summary(Struct, frozen=True):
    """A summary that may be used.

    Attributes:
        text: The whole text that stands for the older messages.
        usage: Tokens of all requests that it took.
    """

    text: str
    usage: Usage


class SummaryFailed(Struct, frozen=True):
    """None came, or one that may not be used.

    Attributes:
        error: Why.
        usage: Tokens of the requests that were answered.
    """

    error: CompactionFailed
    usage: Usage


SummaryEvent: TypeAlias = SummaryDelta | Summary | SummaryFailed


class _TooLong(Exception):
    """The request for a piece did not fit the model."""


def read_prompt(name: str) -> str:
    """Return a packaged prompt without its final newline; ``name`` is without ``.md``."""
    return (DATA / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


async def summarize(
    request: SummaryRequest, *, provider: Provider
) -> AsyncGenerator[SummaryEvent, None]:
    """Ask for the summary; yield its text as it comes, then one last event.

    The last event is ``Summary`` or ``SummaryFailed``; cancellation passes.

    Args:
        request: What to summarise.
        provider: The connection to the model; no other request of it is open.
    """
    plan, model = request.plan, request.model
    told = entries(request.messages[plan.fold_from : plan.cut])
    room = model.context_window - min(model.max_output, model.context_window // 4)
    room -= _PROMPT_TOKENS + text_tokens(plan.previous)
    writer = _Writer(request, provider)
    for _ in range(_ATTEMPTS):
        try:
            async with aclosing(writer.write(pieces(told, room=max(room, 100)))) as written:
                async for delta in written:
                    yield delta
        except _TooLong:
            room //= 2
            continue
        except CompactionFailed as error:
            yield SummaryFailed(error, writer.usage)
            return
        yield _checked(writer, plan)
        return
    text = "The conversation is too long for a summary, also in pieces."
    hint = "Go back to an earlier message, or use a model with a larger context window."
    yield SummaryFailed(CompactionFailed(text, hint=hint), writer.usage)


def _checked(writer: "_Writer", plan: CompactionPlan) -> SummaryEvent:
    if not writer.text:
        return SummaryFailed(CompactionFailed("There is nothing to summarise."), writer.usage)
    text = summary_text(Parts(writer.text, plan.queries))
    size = text_tokens(text)
    if size < plan.tokens_replaced:
        return Summary(text, writer.usage)
    error = CompactionFailed(
        f"The summary is not shorter than what it would replace: about {size:,} tokens"
        f" for {plan.tokens_replaced:,}.",
        hint="Nothing was changed.",
    )
    return SummaryFailed(error, writer.usage)


class _Writer:
    """Has one piece after the other summarised."""

    def __init__(self, request: SummaryRequest, provider: Provider) -> None:
        self.usage = Usage()
        self.text = ""
        self._request = request
        self._provider = provider

    async def write(self, told: Sequence[str]) -> AsyncGenerator[SummaryDelta, None]:
        """Fill ``text``.

        Raises:
            CompactionFailed: If one of the summaries may not be used.
            _TooLong: If a request does not fit the model.
        """
        self.text = self._request.plan.previous
        for number, piece in enumerate(told, 1):
            async with aclosing(self._ask(piece)) as deltas:
                async for delta in deltas:
                    yield SummaryDelta(delta, number, len(told))

    async def _ask(self, piece: str) -> AsyncGenerator[str, None]:
        stream = self._provider.stream(self._model_request(piece))
        async with aclosing(stream):
            async for event in stream:
                match event:
                    case TextDelta():
                        yield event.text
                    case StreamDone():
                        self.usage = self.usage + event.message.usage
                        self.text = _usable(event.message)
                        return
                    case StreamFailed():
                        if event.error.kind == "context_overflow":
                            raise _TooLong
                        raise CompactionFailed(
                            f"The model gave no summary: {event.error.message}",
                            hint=event.error.hint,
                        )
                    case (
                        StreamStart()
                        | BlockStart()
                        | BlockEnd()
                        | ThinkingDelta()
                        | ArgsDelta()
                        | StreamWaiting()
                        | StreamRetry()
                    ):
                        pass
                    case _:
                        assert_never(event)
        raise CompactionFailed("The model's stream ended without a summary.")

    def _model_request(self, piece: str) -> ModelRequest:
        parts = [f"{OPEN}\n{piece}\n{CLOSE}"]
        if self.text:
            parts.append(f"<summary>\n{self.text}\n</summary>")
        parts.append(read_prompt("update" if self.text else "first"))
        if self._request.instructions:
            parts.append(f"Heed this in particular: {self._request.instructions}")
        message = UserMessage(content=(TextBlock("\n\n".join(parts)),))
        return ModelRequest(
            model=self._request.model,
            system=(PromptSection("compaction", read_prompt("system")),),
            messages=(message,),
            thinking_level=self._request.thinking_level,
        )


def _usable(message: AssistantMessage) -> str:
    text = message.text.strip()
    if message.tool_calls:
        raise CompactionFailed("The model called tools in the place of a summary.")
    if message.stop_reason == "max_tokens":
        raise CompactionFailed(
            "The summary was cut off at the model's output limit.",
            hint="Use a model with a larger output limit.",
        )
    if message.stop_reason not in ("end_turn", "stop_sequence"):
        raise CompactionFailed(f"The model gave no summary: it ended by {message.stop_reason!r}.")
    if not text or text == CLEARED:
        raise CompactionFailed("The model's summary is empty.")
    return text
