"""Tool output, cut to what a model can take; the whole of it goes to a file.

Memory stays bounded whatever comes: the start and the end of the text are
kept, and the bytes as they came are written to an artifact once there are more
than would be shown.
"""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from agent_sdk.core.errors import StorageError
from agent_sdk.core.fsio_capture import CaptureFile
from agent_sdk.core.output import TerminalText
from agent_sdk.providers.models import Model

OUTPUT_LIMIT = 48 * 1024
"""Most bytes of one tool output that go to a model."""

ARTIFACT_LIMIT = 64 * 1024 * 1024
"""Most bytes of one output that are saved."""

_BYTES_PER_TOKEN = 3
"""A cautious mean: English takes about four bytes a token, code about three."""

_NOTICE = 320
"""Bytes kept free for the line that says what was left out, without the path."""


class BoundedText(Struct, frozen=True):
    """Output that fits.

    Attributes:
        text: The text, with a line where something was left out.
        omitted: Bytes of text that were left out.
        artifact: Real path of the file with the whole output; empty if
            nothing was left out, or nothing could be saved.
    """

    text: str
    omitted: int = 0
    artifact: str = ""


def output_limit(model: Model) -> int:
    """Return how many bytes of output one call may give to the model.

    48 KiB, and never more than a quarter of its window.
    """
    return min(OUTPUT_LIMIT, model.context_window * _BYTES_PER_TOKEN // 4)


def bound_text(
    text: str, *, limit: int, folder: str | Path | None, name: str = "output"
) -> BoundedText:
    """Cut a text that is there as a whole; see ``OutputCollector``."""
    collector = OutputCollector(limit=limit, folder=folder, name=name)
    collector.feed(text.encode(errors="replace"))
    return collector.finish()


class OutputCollector:
    """Takes output as it comes and keeps of it what may be shown.

    The text is cleaned of control sequences (see ``TerminalText``); the file
    gets the bytes as they came.
    """

    def __init__(
        self,
        *,
        limit: int,
        folder: str | Path | None,
        name: str = "output",
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        """Start with nothing.

        Args:
            limit: Most bytes of the resulting text, UTF-8, notice included.
            folder: Where the whole output is saved; made when needed. None
                saves nothing.
            name: Start of the file's name.
            on_text: Gets every piece of cleaned text as it comes.
        """
        self._limit = limit
        self._folder = folder
        self._name = name
        self._on_text = on_text
        self._terminal = TerminalText()
        self._head_size = limit // 4
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._raw = bytearray()
        self._file: CaptureFile | None = None
        self._trouble = "" if folder is not None else "it was not saved"

    def feed(self, data: bytes) -> None:
        """Take further bytes; never raises."""
        self._save(data)
        self._take(self._terminal.feed(data))

    def close(self) -> None:
        """Let go of the file without a result; it stays."""
        if self._file:
            self._file.close()

    def finish(self) -> BoundedText:
        """Return what may be shown. Nothing may be fed afterwards."""
        self._take(self._terminal.end())
        kept = bytes(self._head + self._tail)
        if not self._dropped and len(kept) <= self._limit:
            if self._file:
                self._file.discard()  # longer only by its control sequences
            return BoundedText(kept.decode())
        if self._file is None:
            self._spill()
        self.close()
        total = self._dropped + len(kept)
        where = self._where()
        room = self._limit - _NOTICE - len(where.encode())
        head = _cut_end(bytes(self._head[: max(0, room // 4)]))
        tail = _cut_start(kept[len(kept) - max(0, room - len(head)) :])
        omitted = total - len(head) - len(tail)
        notice = f"[… {omitted} of {total} bytes of output left out here; {where} …]"
        text = f"{_line(head)}{notice}\n{tail.decode()}"
        return BoundedText(text, omitted, self._file.path if self._file else "")

    def _take(self, text: str) -> None:
        if not text:
            return
        if self._on_text:
            self._on_text(text)
        data = text.encode()
        if room := self._head_size - len(self._head):
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        excess = len(self._tail) - self._limit
        if excess > self._limit:  # seldom: moving the tail has its price
            self._dropped += excess
            del self._tail[:excess]

    def _save(self, data: bytes) -> None:
        if self._trouble:
            return
        if self._file is None:
            self._raw += data
            if len(self._raw) > self._limit:
                self._spill()
            return
        try:
            self._file.write(data)
        except StorageError as error:
            self._trouble = f"saving it failed: {error.message}"

    def _spill(self) -> None:
        if self._trouble or self._folder is None:
            return
        raw, self._raw = self._raw, bytearray()
        try:
            self._file = CaptureFile(
                self._folder, prefix=self._name, suffix=".log", limit=ARTIFACT_LIMIT
            )
            self._file.write(raw)
        except StorageError as error:
            self._trouble = f"saving it failed: {error.message}"

    def _where(self) -> str:
        if self._file is None:
            return self._trouble
        if self._trouble:
            return f"its first {self._file.size} bytes are in {self._file.path}, {self._trouble}"
        if self._file.full:
            return f"its first {self._file.size} bytes are in {self._file.path}"
        return f"the whole output is in {self._file.path}"


def _line(data: bytes) -> str:
    text = data.decode()
    return text if not text or text.endswith("\n") else text + "\n"


def _cut_end(data: bytes) -> bytes:
    """Cut at the last end of a line, if that costs little; else at a character."""
    end = data.rfind(b"\n") + 1
    return data[:end] if end * 2 > len(data) else data.decode(errors="ignore").encode()


def _cut_start(data: bytes) -> bytes:
    """Cut at the first start of a line, if that costs little; else at a character."""
    start = data.find(b"\n") + 1
    return data[start:] if 0 < start * 2 < len(data) else data.decode(errors="ignore").encode()
