"""Frames of the channel: one JSON object a line, at most 256 KiB.

Down come ``event`` (transcripts) and ``state`` (topics), up go commands, which
are answered. The first frame of each side is ``hello`` with its versions. A
frame that the other side does not know, or that has a field it does not know,
is an error that names it. What is larger than a frame goes in ``chunk``
frames, which carry nothing but pieces of one encoded frame.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec
from msgspec import Struct

from agent_sdk.events.wire import WIRE_VERSION, Event
from desktop.bridge.messages import StateBody
from desktop.bridge.protocol import Answer, Command

PROTOCOL_VERSION = 2
MAX_FRAME = 256 * 1024
"""Bytes of one line, newline included."""

_SECRETS = re.compile(rb'("(?:key|passphrase|new_passphrase)"\s*:\s*)"(?:[^"\\]|\\.)*"?', re.DOTALL)
"""Fields of commands whose values are shown nowhere."""

_CHUNK_TEXT = 120 * 1024
"""Characters of JSON text in one chunk; escaping may double them."""

MAX_WHOLE = 64 * 1024 * 1024
"""Bytes of one frame put together from chunks."""


class _Frame(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class Hello(_Frame, tag_field="frame", tag="hello", frozen=True):
    """The first frame of either side.

    Attributes:
        protocol: Version of commands and state.
        wire: Version of the transcript's model.
        version: Version of the program.
        epoch: Of the host: seqs of another epoch mean nothing.
        language: Of the window: ``en`` or ``zh``.
    """

    protocol: int = PROTOCOL_VERSION
    wire: int = WIRE_VERSION
    version: str = ""
    epoch: str = ""
    language: str = ""


class EventFrame(_Frame, tag_field="frame", tag="event", frozen=True):
    """One event of a session that is shown."""

    event: Event


class StateFrame(_Frame, tag_field="frame", tag="state", frozen=True):
    """A topic's state; ``version`` counts up within the topic."""

    version: int
    state: StateBody


class CommandFrame(_Frame, tag_field="frame", tag="command", frozen=True):
    """A command of the window; ``id`` ties the answer to it."""

    id: int
    command: Command


class AnswerFrame(_Frame, tag_field="frame", tag="answer", frozen=True):
    """The answer to a command."""

    id: int
    answer: Answer


class ChunkFrame(_Frame, tag_field="frame", tag="chunk", frozen=True):
    """A piece of a frame that is too large for one line."""

    text: str
    last: bool = False


Frame: TypeAlias = Hello | EventFrame | StateFrame | CommandFrame | AnswerFrame | ChunkFrame


class FrameError(Exception):
    """A line that is no frame of this version; the text names what is wrong."""


def encode(frame: Frame) -> bytes:
    """Return the line, or lines, of a frame, each with its newline."""
    line = msgspec.json.encode(frame)
    if len(line) < MAX_FRAME:
        return line + b"\n"
    return b"".join(_chunks(line.decode()))


def _chunks(text: str) -> Iterator[bytes]:
    at = 0
    while at < len(text):
        size = _CHUNK_TEXT
        while True:
            piece = text[at : at + size]
            last = at + size >= len(text)
            line = msgspec.json.encode(ChunkFrame(text=piece, last=last)) + b"\n"
            if len(line) <= MAX_FRAME:
                break
            size //= 2  # text of many bytes a character
        yield line
        at += size


class FrameReader:
    """Turns what arrives into frames, whatever pieces it arrives in. Pure."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(Frame).decode
        self._rest = bytearray()
        self._pieces: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes and return the frames that are complete now.

        Raises:
            FrameError: If a line is no frame, or is too long.
        """
        self._rest += data
        frames: list[Frame] = []
        start = 0
        while (end := self._rest.find(b"\n", start)) >= 0:
            frame = self._frame(bytes(self._rest[start:end]))
            start = end + 1
            if frame is not None:
                frames.append(frame)
        del self._rest[:start]
        if len(self._rest) > MAX_FRAME:
            raise FrameError(f"A line is longer than {MAX_FRAME} bytes.")
        return frames

    def _frame(self, line: bytes) -> Frame | None:
        frame = self._decoded(line)
        if not isinstance(frame, ChunkFrame):
            if self._pieces:
                raise FrameError("A frame came in the middle of a chunked one.")
            return frame
        self._pieces.append(frame.text)
        self._size += len(frame.text)
        if self._size > MAX_WHOLE:
            raise FrameError(f"A chunked frame is larger than {MAX_WHOLE} bytes.")
        if not frame.last:
            return None
        whole = "".join(self._pieces)
        self._pieces, self._size = [], 0
        put_together = self._decoded(whole.encode())
        if isinstance(put_together, ChunkFrame):
            raise FrameError("A chunked frame holds a chunk.")
        return put_together

    def _decoded(self, line: bytes) -> Frame:
        try:
            return self._decode(line)
        except msgspec.DecodeError as error:
            shown = _SECRETS.sub(rb'\1"[hidden]"', line)[:200].decode("utf-8", "replace")
            raise FrameError(
                f"Not a frame of protocol {PROTOCOL_VERSION}: {error} in {shown!r}"
            ) from error
