"""The three output formats of the command line.

Standard output carries the answer and nothing else; what the agent does and
what goes wrong is told on standard error. In ``stream-json`` a line is
written after what it tells is durable.
"""

from collections.abc import Mapping
from typing import Any, Protocol, assert_never

import msgspec
from typing_extensions import override

from agent_sdk.cli.i18n import Translator
from agent_sdk.cli.streams import Out
from agent_sdk.core.usage import Usage
from agent_sdk.loop.types import (
    AgentEvent,
    AssistantMessageAdded,
    Notice,
    RunEnded,
    StreamProgress,
    ToolFinished,
    ToolStarted,
)
from agent_sdk.providers.base import (
    StreamDone,
    StreamRetry,
    StreamStart,
    StreamWaiting,
    TextDelta,
)
from agent_sdk.providers.messages import result_text
from agent_sdk.query.adapter import SdkAdapter


class Writer(Protocol):
    """Renders one run."""

    def start(self, init: dict[str, Any]) -> None:
        """Say that the run begins."""
        ...

    def event(self, event: AgentEvent) -> None:
        """Take one event of the run."""
        ...

    def end(self, end: RunEnded, *, seconds: float, spent: Mapping[str, Usage]) -> None:
        """Say how it ended."""
        ...


class StreamJsonWriter:
    """One SDK message a line.

    Args:
        out: Where lines go.
        adapter: Folds events into messages.
    """

    def __init__(self, *, out: Out, adapter: SdkAdapter) -> None:
        self._out = out
        self._adapter = adapter
        self._encode = msgspec.json.Encoder().encode

    def _line(self, message: dict[str, Any]) -> None:
        self._out.write(self._encode(message) + b"\n")

    def start(self, init: dict[str, Any]) -> None:
        """Write the ``system/init`` message."""
        self._line(init)

    def event(self, event: AgentEvent) -> None:
        """Write the messages that the event makes."""
        messages = self._adapter.fold(event)
        if messages:
            self._out.write(b"".join([self._encode(m) + b"\n" for m in messages]))

    def end(self, end: RunEnded, *, seconds: float, spent: Mapping[str, Usage]) -> None:
        """Write the ``result`` message."""
        self._line(self._adapter.result(end, seconds=seconds, spent=spent))


class JsonWriter(StreamJsonWriter):
    """The ``result`` message alone, at the end."""

    @override
    def start(self, init: dict[str, Any]) -> None:
        """Write nothing."""

    @override
    def event(self, event: AgentEvent) -> None:
        """Fold the event; the result is made of what was seen."""
        self._adapter.fold(event)


class TextWriter:
    """The answer's text as it comes; what happens besides on standard error.

    Args:
        out: Standard output.
        err: Standard error.
        tr: The user's language.
        colour: Whether standard error is a terminal that shows colours.
    """

    def __init__(self, *, out: Out, err: Out, tr: Translator, colour: bool) -> None:
        self._out = out
        self._err = err
        self._tr = tr
        self._dim, self._plain = ("\x1b[2m", "\x1b[0m") if colour else ("", "")
        self._open_line = False
        self._counter = False

    def start(self, init: dict[str, Any]) -> None:
        """Say nothing: the answer is enough."""

    def event(self, event: AgentEvent) -> None:
        """Write the event, if it is one that a reader cares for."""
        match event:
            case StreamProgress():
                self._progress(event)
            case AssistantMessageAdded():
                self._close_line()
            case ToolStarted():
                self._tell(f"› {event.call.name} {_short(event.call.input)}")
            case ToolFinished() if event.denied:
                self._tell(f"✗ {result_text(event.result)}")
            case ToolFinished() if event.result.is_error:
                first = result_text(event.result).strip().split("\n")
                self._tell(f"✗ {event.call.name}: {first[-1][:200]}")
            case Notice():
                self._tell(event.text)
            case _:
                pass  # the rest is for other front ends

    def _progress(self, event: StreamProgress) -> None:
        match event.event:
            case TextDelta(text=text):
                self._clear_counter()
                if text:
                    self._out.write(text.encode("utf-8", "replace"))
                    self._open_line = not text.endswith("\n")
            case StreamRetry() as retry:
                self._tell(
                    self._tr(
                        "{error} Trying again in {delay} s (attempt {attempt} of {most}).",
                        error=retry.error.message,
                        delay=round(retry.delay, 1),
                        attempt=retry.attempt,
                        most=retry.max_attempts,
                    )
                )
            case StreamWaiting() as wait:
                self._count(wait)
            case StreamStart() | StreamDone():
                self._clear_counter()
            case _:
                pass

    def _count(self, wait: StreamWaiting) -> None:
        text = self._tr(
            "Waiting for the model: {seconds} s (gives up after {limit} s).",
            seconds=round(wait.seconds),
            limit=round(wait.limit),
        )
        if self._dim:
            self._err.write(f"\r{self._dim}{text}{self._plain}\x1b[K".encode())
            self._counter = True
        elif round(wait.seconds) % 10 == 0:
            self._tell(text)

    def _clear_counter(self) -> None:
        if self._counter:
            self._err.write(b"\r\x1b[K")
            self._counter = False

    def _close_line(self) -> None:
        if self._open_line:
            self._out.write(b"\n")
            self._open_line = False

    def _tell(self, text: str) -> None:
        self._clear_counter()
        self._close_line()
        self._err.write(f"{self._dim}{text}{self._plain}\n".encode("utf-8", "replace"))

    def end(self, end: RunEnded, *, seconds: float, spent: Mapping[str, Usage]) -> None:
        """Say what went wrong, if anything did."""
        self._clear_counter()
        self._close_line()
        match end.status:
            case "completed":
                if end.denials:
                    self._tell(
                        self._tr(
                            "{count} calls were refused for want of permission.", count=end.denials
                        )
                    )
            case "aborted":
                self._tell(self._tr("Stopped. zpi --continue goes on from here."))
            case "max_turns":
                self._tell(
                    self._tr("Stopped after {count} requests (--max-turns).", count=end.turns)
                )
            case "error":
                self._tell(self._tr.error(end.error_code, end.error))
            case _:
                assert_never(end.status)


def _short(value: dict[str, Any]) -> str:
    """Return a call's input in one line of at most 120 characters, escapes visible."""
    first = next((str(v) for v in value.values() if isinstance(v, str)), "")
    line = "".join(c if c.isprintable() else " " for c in first)
    return line if len(line) <= 120 else line[:119] + "…"
