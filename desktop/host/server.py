"""Speaks frames with one window: greeting, commands and their answers, what is sent."""

import asyncio
import logging
from typing import assert_never

import msgspec

from agent_sdk.events.wire import WIRE_VERSION
from agent_sdk.host import TaskOwner
from desktop.bridge.frames import (
    MAX_FRAME,
    PROTOCOL_VERSION,
    AnswerFrame,
    ChunkFrame,
    CommandFrame,
    EventFrame,
    Frame,
    FrameError,
    FrameReader,
    Hello,
    StateFrame,
)
from desktop.bridge.messages import ErrorInfo
from desktop.bridge.protocol import Answer, Command, CommandHandler, Failed
from desktop.host.channel import Channel, Outbox

logger = logging.getLogger("zpi.host.server")

NO_COMMAND = 0
"""``id`` of an answer that belongs to no command: a complaint about the channel itself."""

_LAST_WORDS = 1.0
"""Seconds that the window has to take what is still queued at the end."""


class VersionMismatch(Exception):
    """The window speaks another version; the text names both."""


class Server:
    """One window's connection.

    Args:
        channel: Carries the bytes.
        outbox: What waits to be sent.
        hello: The host's greeting.
    """

    def __init__(self, *, channel: Channel, outbox: Outbox, hello: Hello) -> None:
        self._channel = channel
        self._outbox = outbox
        self._hello = hello
        self._tasks = TaskOwner(name="server")
        self._handler: asyncio.Future[CommandHandler] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._greeted = False
        self._gone = False
        self._sending = False

    def send(self, frame: Frame) -> None:
        """Queue a frame; a window that does not read for too long counts as gone."""
        self._outbox.put(frame)
        if self._outbox.overflown:
            self._gone = True
            self._closing.set()

    def use(self, handler: CommandHandler) -> None:
        """Carry out commands by this from now on; those that came before have waited."""
        if not self._handler.done():
            self._handler.set_result(handler)

    def close(self) -> None:
        """Take no more commands; ``serve`` returns."""
        self._closing.set()

    async def serve(self) -> None:
        """Read frames until the window has gone or ``close`` is called.

        Raises:
            VersionMismatch: If the window's greeting has other versions.
        """
        self._tasks.start(self._write(), name="write")
        self.send(self._hello)
        closing = self._tasks.start(self._closing.wait(), name="closing")
        reading = self._tasks.start(self._read(), name="read")
        await asyncio.wait((closing, reading), return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()
        reading.cancel()

    async def aclose(self) -> None:
        """Let the commands at work end, send what is queued, and close the channel."""
        if not self._handler.done():
            self._handler.cancel()
        begun = asyncio.get_running_loop().time()
        while (self._outbox.size or self._sending) and not self._gone:
            if asyncio.get_running_loop().time() - begun > _LAST_WORDS:
                break
            await asyncio.sleep(0.005)
        await self._tasks.aclose()
        await self._channel.aclose()

    # ------------------------------------------------------------------ writing

    async def _write(self) -> None:
        while not self._gone:
            data = await self._outbox.take()
            self._sending = True
            if not await self._channel.send(data):
                self._gone = True
                self._closing.set()
            self._sending = False

    # ------------------------------------------------------------------ reading

    async def _read(self) -> None:
        rest = bytearray()
        reader = FrameReader()
        while data := await self._channel.receive():
            rest += data
            *lines, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in lines:
                reader = self._line(reader, line)
            if len(rest) > MAX_FRAME:
                self._complain("frame_too_long", f"A line is longer than {MAX_FRAME} bytes.")
                return

    def _line(self, reader: FrameReader, line: bytes) -> FrameReader:
        try:
            for frame in reader.feed(line + b"\n"):
                self._take(frame)
        except FrameError as error:
            self._refuse(line, str(error))
            return FrameReader()
        return reader

    def _take(self, frame: Frame) -> None:
        match frame:
            case Hello():
                self._greet(frame)
            case CommandFrame():
                if not self._greeted:
                    text = "A command came before the window's greeting."
                    self._answer(frame.id, Failed(error=ErrorInfo(code="not_greeted", text=text)))
                    return
                self._tasks.start(self._carry_out(frame.id, frame.command), name="command")
            case EventFrame() | StateFrame() | AnswerFrame():
                kind = type(frame).__name__
                self._complain("unexpected_frame", f"{kind} goes from the host to the window only.")
            case ChunkFrame():  # pragma: no cover - the reader puts them together
                pass
            case _:
                assert_never(frame)

    def _greet(self, hello: Hello) -> None:
        if (hello.protocol, hello.wire) != (PROTOCOL_VERSION, WIRE_VERSION):
            text = (
                f"The window speaks protocol {hello.protocol} and wire {hello.wire}, this host "
                f"protocol {PROTOCOL_VERSION} and wire {WIRE_VERSION}."
            )
            hint = "Close ZPI and start it again, so that both are of one version."
            self._complain("protocol_mismatch", text, hint=hint)
            raise VersionMismatch(text)
        self._greeted = True

    def _refuse(self, line: bytes, text: str) -> None:
        """Answer what could not be understood, under its own id if it has one."""
        try:
            head = msgspec.json.decode(line, type=_Head)
        except msgspec.DecodeError:
            head = _Head()
        if head.frame == "command" and head.id:
            self._answer(head.id, Failed(error=ErrorInfo(code="unknown_command", text=text)))
        else:
            self._complain("unknown_frame", text)

    def _complain(self, code: str, text: str, *, hint: str = "") -> None:
        logger.warning("%s: %s", code, text)
        self._answer(NO_COMMAND, Failed(error=ErrorInfo(code=code, text=text, hint=hint)))

    async def _carry_out(self, number: int, command: Command) -> None:
        handler = await asyncio.shield(self._handler)
        # No wait between the two: an answer that shows a session comes before its events.
        self._answer(number, await handler.handle(command))

    def _answer(self, number: int, answer: Answer) -> None:
        self.send(AnswerFrame(id=number, answer=answer))


class _Head(msgspec.Struct):
    frame: str = ""
    id: int = 0
