"""One run of the program, from the parsed words to the exit code."""

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, assert_never

import agent_sdk
from agent_sdk.cli import compose, listing
from agent_sdk.cli.args import Args
from agent_sdk.cli.ask import StandardInput, TerminalAsker
from agent_sdk.cli.i18n import Translator
from agent_sdk.cli.output import JsonWriter, StreamJsonWriter, TextWriter, Writer
from agent_sdk.cli.stdin import read_prompt
from agent_sdk.cli.streams import STDERR, STDIN, Out, OutputLost
from agent_sdk.loop.types import AgentEvent, Notice, RunEnded
from agent_sdk.query.adapter import SdkAdapter
from agent_sdk.session.agent_session import AgentSession

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Program:
    """One run of ``zpi``.

    Args:
        args: The command line.
        tr: The user's language.
        out: Standard output.
        err: Standard error.
    """

    def __init__(self, args: Args, *, tr: Translator, out: Out, err: Out) -> None:
        self._args = args
        self._tr = tr
        self._out = out
        self._err = err
        self._signal = 0
        self._lost: OutputLost | None = None
        self._stop: Callable[[str], object] | None = None

    async def run(self) -> int:
        """Do what was asked and return the exit code.

        Raises:
            ZpiError: If it could not start.
        """
        self._listen(asyncio.current_task())
        try:
            return await self._command()
        except asyncio.CancelledError:
            if not self._signal:
                raise
            return 128 + self._signal

    async def _command(self) -> int:
        around = compose.look_around(self._args)
        match self._args.command:
            case "models":
                self._out.write(await listing.models_text(around, tr=self._tr))
                return 0
            case "sessions":
                self._out.write(
                    listing.sessions_text(around, tr=self._tr, every=self._args.every_project)
                )
                return 0
            case "run":
                return await self._prompt(around)
            case _:
                assert_never(self._args.command)

    async def _prompt(self, around: compose.Surroundings) -> int:
        prompt, in_vain = self._read_prompt()
        async with AsyncExitStack() as stack:
            manager = await compose.open_history(self._args, around)
            stack.push_async_callback(manager.close)
            built = await compose.build_session(
                self._args, around, manager=manager, asker=self._asker(), stack=stack
            )
            session = built.created.session
            prompt = built.created.assembly.expand(prompt)
            writer = self._writer(session, around)
            if self._lost is not None:
                raise self._lost  # nothing has begun, and nobody would hear of it
            session.subscribe(lambda event: self._show(writer, event))
            self._stop = session.abort
            if in_vain:
                text = self._tr("Nothing came on standard input for 3 s; going on without it.")
                self._show(writer, Notice("info", "stdin_silent", text))
            for notice in built.notices:
                self._show(writer, notice)
            begun = around.clock.monotonic()
            end = await session.prompt(prompt)
            seconds = around.clock.monotonic() - begun
            self._stop = None
            spent = manager.state.spending.models
            self._write(lambda: writer.end(end, seconds=seconds, spent=spent))
        return self._code(end)

    def _read_prompt(self) -> tuple[str, bool]:
        """Read the prompt; nothing has begun yet, so that a signal may end the program at once.

        Reading holds up the event loop, which could not hear of a signal.
        """
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        try:
            return read_prompt(self._args.prompt, fd=STDIN)
        finally:
            self._listen(asyncio.current_task())

    def _show(self, writer: Writer, event: AgentEvent) -> None:
        if self._lost is None:
            try:
                writer.event(event)
            except OutputLost as error:
                # Nobody reads any more: what is running is stopped, and stays in the session.
                self._lost = error
                if self._stop is not None:
                    self._stop("the reader of the output has gone")

    def _write(self, write: "Callable[[], object]") -> None:
        """Write how it begins or ends, and notice if that cannot be done."""
        if self._lost is None:
            try:
                write()
            except OutputLost as error:
                self._lost = error

    def _writer(self, session: AgentSession, around: compose.Surroundings) -> Writer:
        adapter = SdkAdapter(
            session_id=session.session_id,
            model=session.model,
            ids=around.ids,
            models=around.registry.known,
            partial=self._args.partial,
        )
        writer: Writer
        match self._args.output_format:
            case "text":
                writer = TextWriter(
                    out=self._out,
                    err=self._err,
                    tr=self._tr,
                    colour=os.isatty(STDERR) and "NO_COLOR" not in os.environ,
                )
            case "json":
                writer = JsonWriter(out=self._out, adapter=adapter)
            case "stream-json":
                writer = StreamJsonWriter(out=self._out, adapter=adapter)
            case _:
                assert_never(self._args.output_format)
        init = adapter.init(
            cwd=os.fsencode(session.manager.cwd).decode("utf-8", "replace"),  # JSON has no bytes
            tools=list(session.tool_names),
            permission_mode=session.permissions.mode,
            version=agent_sdk.__version__,
        )
        self._write(lambda: writer.start(init))
        return writer

    def _asker(self) -> TerminalAsker | None:
        """Return who can be asked: the person at the terminal, if there is one."""
        answers = os.isatty(STDIN) and os.isatty(STDERR)
        if self._args.output_format != "text" or not answers:
            return None
        return TerminalAsker(err=self._err, lines=StandardInput(), tr=self._tr)

    def _code(self, end: RunEnded) -> int:
        if self._signal:
            return 128 + self._signal
        if self._lost is not None:
            raise self._lost
        match end.status:
            case "completed":
                return 3 if end.denials else 0
            case "max_turns":
                return 4
            case "aborted" | "error":
                return 1
            case _:
                assert_never(end.status)

    # ----------------------------------------------------------------- signals

    def _listen(self, task: "asyncio.Task[int] | None") -> None:
        """Let the first signal stop the run in good order; a second one ends it at once."""
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            self._signal = number
            for each in SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            if self._stop is not None:
                self._stop(self._tr("stopped by a signal"))
            elif task is not None:
                task.cancel()

        for number in SIGNALS:
            if sys.platform == "win32":
                signal.signal(number, lambda n, _: loop.call_soon_threadsafe(stop, n))
            else:
                loop.add_signal_handler(number, stop, number)
