"""The ``bash`` tool: one command line in a shell, its output as it comes.

Whatever the command starts ends with the session at the latest; on a time-out
or a stop all of it ends at once. What it left running after an ordinary end
(a development server, say) goes on, but is no longer listened to.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sdk.core.errors import InvalidToolInput, ProcessError, ToolError
from agent_sdk.core.process import (
    Child,
    ExitStatus,
    ProcessOwner,
    SpawnSpec,
    WorkingFolderError,
)
from agent_sdk.loop.types import PermissionRequest, ToolContext, ToolMetadata, ToolResult
from agent_sdk.providers.messages import Json
from agent_sdk.tools.artifacts import BoundedText, OutputCollector, output_limit
from agent_sdk.tools.inputs import check_input
from agent_sdk.tools.path_text import visible
from agent_sdk.tools.shell import Shell, always_rules, find_shell

logger = logging.getLogger("zpi.tools")

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000

_MAX_COMMAND = 100_000
"""Bytes; Linux takes at most 128 KiB in one argument."""

_OWN_LINES = 512
"""Bytes of the result kept free for what the tool itself has to say."""

_UPDATE_SECONDS = 0.1
_UPDATE_CHARACTERS = 8 * 1024

_DESCRIPTION = """\
Runs a command line with bash in the session's folder and returns its output, errors included.
Each call starts a new shell: variables and `cd` do not carry over to the next call.
There is no terminal and no input: commands that ask questions get none answered.
Output over the limit is cut in the middle; the full output is then saved to a file that is named.
To keep something running, end the command with `&` and redirect its output to a file.
Use the read, write and edit tools for files instead of cat, echo or sed."""


class BashInput(Struct, frozen=True):
    """A command, the milliseconds it may take, and what it is for."""

    command: str
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    description: str = ""


class BashTool:
    """Runs shell commands as children of a ``ProcessOwner``."""

    name = "bash"
    description = _DESCRIPTION
    metadata = ToolMetadata(destructive=True, side_effects="system")

    def __init__(
        self,
        *,
        processes: ProcessOwner,
        environment: Mapping[str, str],
        artifacts: str | Path | None,
        shell: Shell | None = None,
    ) -> None:
        """Make the tool.

        Args:
            processes: Starts the commands; closed by whoever made it.
            environment: The commands' environment, see ``child_environment``.
            artifacts: Folder for output that is too long; None saves none.
            shell: What runs the commands; found at the first one if omitted.
        """
        self._processes = processes
        self._environment = environment
        self._artifacts = artifacts
        self._shell = shell

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of the input."""
        return _PARAMETERS

    def parse(self, raw: Json) -> BashInput:
        """Check the input.

        Raises:
            InvalidToolInput: If a field is missing, unknown or out of range.
        """
        fields = check_input(raw, _PARAMETERS, tool=self.name)
        command, timeout = fields["command"], fields.get("timeout", DEFAULT_TIMEOUT_MS)
        if not command.strip() or "\0" in command:
            raise InvalidToolInput("bash: 'command' must not be empty or hold NUL characters.")
        if len(command.encode(errors="replace")) > _MAX_COMMAND:
            raise InvalidToolInput(
                f"bash: 'command' is longer than {_MAX_COMMAND} bytes.",
                hint="Write it to a file and run that.",
            )
        if timeout > MAX_TIMEOUT_MS:
            raise InvalidToolInput(
                f"bash: 'timeout' must be at most {MAX_TIMEOUT_MS} milliseconds, not {timeout}."
            )
        return BashInput(command, timeout, fields.get("description", ""))

    def permissions(self, args: BashInput, cwd: str) -> tuple[PermissionRequest, ...]:
        """Return the one request: to run exactly this command."""
        return (
            PermissionRequest(
                permission="bash",
                patterns=(args.command,),
                always=always_rules(args.command),
                title=visible(args.command),
            ),
        )

    async def execute(self, args: BashInput, context: ToolContext) -> ToolResult:
        """Run the command.

        Raises:
            ToolError: If the shell cannot be started, or its end is not known.
        """
        if self._shell is None:
            self._shell = find_shell(self._environment, project=context.cwd)
        live = _LiveOutput(context.update)
        collector = OutputCollector(
            limit=max(0, output_limit(context.model) - _OWN_LINES),
            folder=self._artifacts,
            name="bash",
            on_text=live.add,
        )
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            argv = (self._shell.path, *self._shell.options, args.command)
            child = await self._start(argv, context.cwd, collector)
            status, timed_out = await _finish(child, args.timeout_ms / 1000)
        except ProcessError as error:
            raise ToolError(f"The command was lost: {error.message}", hint=error.hint) from error
        finally:
            live.close()
            collector.close()
        milliseconds = round((loop.time() - started) * 1000)
        output = collector.finish()
        lines = _remarks(status, args.timeout_ms if timed_out else None, held=child.output_held)
        return ToolResult(
            content=_joined(output.text, lines),
            is_error=timed_out or not status.ok,
            details=_details(status, output, timed_out=timed_out, milliseconds=milliseconds),
        )

    async def _start(self, argv: tuple[str, ...], cwd: str, collector: OutputCollector) -> Child:
        spec = SpawnSpec(argv=argv, cwd=cwd, env=self._environment)
        try:
            return await self._processes.spawn(spec, on_output=collector.feed)
        except WorkingFolderError as error:
            raise ToolError(
                f"The session's folder {cwd!r} cannot be entered: it was removed, or its"
                " permissions have changed.",
                hint="Nothing can be run until it is back.",
            ) from error
        except ProcessError as error:
            raise ToolError(error.message, hint=error.hint) from error


async def _finish(child: Child, seconds: float) -> tuple[ExitStatus, bool]:
    """Wait for the child; return how it ended, and whether its time ran out."""
    try:
        async with asyncio.timeout(seconds):
            return await child.wait(), False
    except TimeoutError:
        await child.kill_tree()
        return await child.wait(), True
    except asyncio.CancelledError:
        try:
            await child.kill_tree()
        except ProcessError as error:
            logger.warning("a stopped command left something behind: %s", error.message)
        raise


def _remarks(status: ExitStatus, timeout_ms: int | None, *, held: bool) -> list[str]:
    lines = []
    if held:
        lines.append(
            "[Something that the command started in the background still holds its output."
            " Nothing it writes from now on is shown; redirect it to a file to read it.]"
        )
    if timeout_ms is not None:
        lines.append(
            f"The command did not end within {timeout_ms} milliseconds;"
            " it and everything it had started were stopped."
        )
    elif status.signal is not None:
        lines.append(f"ended by signal {status.signal}")
    elif status.code:
        lines.append(f"exit code {status.code}")
    return lines


def _joined(text: str, lines: list[str]) -> str:
    if not lines:
        return text or "(no output)"
    if text and not text.endswith("\n"):
        text += "\n"
    return text + "\n".join(lines)


def _details(
    status: ExitStatus, output: BoundedText, *, timed_out: bool, milliseconds: int
) -> Json:
    return {
        "exitCode": status.code,
        "signal": status.signal,
        "timedOut": timed_out,
        "durationMs": milliseconds,
        "omittedBytes": output.omitted,
        "artifact": output.artifact or None,
    }


class _LiveOutput:
    """Passes text on as it comes, at most ten times a second and 8 Ki characters each."""

    def __init__(self, update: Callable[[str], None]) -> None:
        self._update = update
        self._loop = asyncio.get_running_loop()
        self._text: list[str] = []
        self._length = 0
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        self._text.append(text)
        self._length += len(text)
        if self._length > 64 * _UPDATE_CHARACTERS:  # a flood: only its end will be shown
            self._text = ["".join(self._text)[-_UPDATE_CHARACTERS:]]
            self._length = len(self._text[0])
        if self._timer is None:
            self._timer = self._loop.call_at(max(self._next, self._loop.time()), self._flush)

    def _flush(self) -> None:
        self._timer = None
        self._next = self._loop.time() + _UPDATE_SECONDS
        text = "".join(self._text)
        self._text.clear()
        self._length = 0
        if len(text) > _UPDATE_CHARACTERS:
            text = f"[…]\n{text[-_UPDATE_CHARACTERS:]}"
        if text:
            self._update(text)

    def close(self) -> None:
        """Show what is left; nothing is shown afterwards."""
        if self._timer:
            self._timer.cancel()
            self._flush()


_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "The command line to run."},
        "timeout": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_TIMEOUT_MS,
            "description": (
                f"Milliseconds it may take; {DEFAULT_TIMEOUT_MS} unless given,"
                f" at most {MAX_TIMEOUT_MS}."
            ),
        },
        "description": {
            "type": "string",
            "description": "What it does, in five to ten words, for the user.",
        },
    },
    "required": ["command"],
    "additionalProperties": False,
}
