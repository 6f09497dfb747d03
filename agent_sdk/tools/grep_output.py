"""What a searching program writes, read as it comes. Pure.

Memory stays bounded whatever comes: a line is kept only in part, and of the
files only those that can still be shown, which are the first ones by name.
"""

import base64
import os
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from agent_sdk.tools.grep_program import GrepMode
from agent_sdk.tools.path_text import portable, visible

MAX_COLUMNS = 500
"""Characters of a line that are shown."""

MAX_LINE = 2 * 1024 * 1024
"""Bytes of the program's output for one line; a longer line is left out."""

_KEPT = 20_000
_LEAD = 150
"""Characters shown before a match in a line that is cut."""


class _Text(Struct):
    text: str | None = None
    bytes: str | None = None


class _Place(Struct):
    start: int


class _Data(Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    submatches: list[_Place] = []


class _Message(Struct):
    type: str
    data: _Data


class FoundLine(Struct, frozen=True):
    """A line to show: its number, whether it matches, and as much of it as is shown."""

    number: int
    matches: bool
    text: str


class FoundFile(Struct):
    """A file with matches.

    Attributes:
        matches: How many lines match.
        lines: The lines to show; None if they were dropped.
    """

    matches: int = 0
    lines: list[FoundLine] | None = msgspec.field(default_factory=list)


class GrepOutput:
    """Takes the output of all programs of one search.

    Attributes:
        files: What was found, by path relative to the folder.
        too_long: Lines that match or surround a match, but are too long.
    """

    def __init__(self, *, mode: GrepMode, need: int, is_text: Callable[[str], bool]) -> None:
        """Start with nothing.

        Args:
            mode: What the programs write.
            need: Lines that will be shown at most, from the first on.
            is_text: Whether a file is no binary one; asked once for each.
        """
        self.files: dict[str, FoundFile] = {}
        self.too_long = 0
        self._mode = mode
        self._need = need
        self._is_text = is_text
        self._texts: dict[str, bool] = {}
        self._rest = bytearray()
        self._skipping = False
        self._kept = 0
        self._decoder = msgspec.json.Decoder(_Message)

    def feed(self, data: bytes) -> None:
        """Take further output of the program that runs."""
        if self._mode == "count":
            self._feed_counts(data)
            return
        end = b"\0" if self._mode == "files" else b"\n"
        pieces = data.split(end)
        for piece in pieces[:-1]:
            self._extend(piece)
            if not self._skipping:
                self._take(bytes(self._rest))
            self._rest.clear()
            self._skipping = False
        self._extend(pieces[-1])

    def _feed_counts(self, data: bytes) -> None:
        # A name may hold line feeds; only behind its NUL does one end the entry.
        self._rest += data
        at = 0
        while (
            end := self._rest.find(b"\n", self._rest.find(b"\0", at) + 1 or len(self._rest))
        ) >= 0:
            name, _, count = bytes(self._rest[at:end]).partition(b"\0")
            self._count(name, int(count))
            at = end + 1
        del self._rest[:at]

    def end_program(self) -> None:
        """Forget what the program left unfinished."""
        self._rest.clear()
        self._skipping = False

    @property
    def results(self) -> int:
        """How many results there are: files, or matching lines."""
        if self._mode == "content":
            return sum(file.matches for file in self.files.values())
        return len(self.files)

    @property
    def binary(self) -> int:
        """How many files that match are left out, since they are binary."""
        return sum(not text for text in self._texts.values())

    def in_order(self) -> Iterator[tuple[str, FoundFile]]:
        """Yield the files by path, and their lines by number."""
        for path in sorted(self.files):
            yield path, self.files[path]

    def _extend(self, piece: bytes) -> None:
        if self._skipping:
            return
        self._rest += piece
        if len(self._rest) > MAX_LINE:
            self._rest.clear()
            self._skipping = True
            self.too_long += 1

    def _take(self, line: bytes) -> None:
        if self._mode == "content":
            self._take_message(line)
        else:
            self._count(line, 1)

    def _count(self, name: bytes, matches: int) -> None:
        path = _relative(os.fsdecode(name))
        if self._accepts(path):
            self.files[path] = FoundFile(matches, None)

    def _take_message(self, line: bytes) -> None:
        data = self._message(line)
        if data is None or data.path is None or data.lines is None or data.line_number is None:
            return
        path = _relative(os.fsdecode(_bytes(data.path)))
        if not self._accepts(path):
            return
        file = self.files.setdefault(path, FoundFile())
        matches = bool(data.submatches)
        place = data.submatches[0].start if matches else 0
        texts = _bytes(data.lines).removesuffix(b"\n").split(b"\n")
        for number, text in enumerate(texts, data.line_number):
            file.matches += matches
            if file.lines is not None:
                file.lines.append(FoundLine(number, matches, shown_text(text, place)))
                self._kept += 1
            place = 0
        if self._kept > self._need + _KEPT:
            self._drop()

    def _message(self, line: bytes) -> _Data | None:
        try:
            message = self._decoder.decode(line)
        except msgspec.DecodeError:
            return None  # a summary, which has other fields
        return message.data if message.type in ("match", "context") else None

    def _accepts(self, path: str) -> bool:
        known = self._texts.get(path)
        if known is None:
            known = self._texts[path] = self._is_text(path)
        return known

    def _drop(self) -> None:
        """Drop the lines that cannot be shown any more."""
        kept = 0
        for _, file in self.in_order():
            if kept >= self._need:
                file.lines = None
            kept += len(file.lines or ())
        self._kept = kept


def shown_text(line: bytes, place: int) -> str:
    """Return a line as it is shown: cut around the match if it is long.

    Args:
        line: The line without its end.
        place: Where the match begins, in bytes.
    """
    text = line.removesuffix(b"\r").decode(errors="replace")
    if len(text) <= MAX_COLUMNS:
        return text
    start = len(line[:place].decode(errors="replace"))
    begin = max(0, min(start - _LEAD, len(text) - MAX_COLUMNS))
    end = begin + MAX_COLUMNS
    head = f"[{begin:,} characters…]" if begin else ""
    tail = f"[…{len(text) - end:,} characters]" if end < len(text) else ""
    return f"{head}{text[begin:end]}{tail}"


def content_lines(output: GrepOutput, prefix: str, *, context: bool) -> list[str]:
    """Return the lines that were found as ``path:12:text``, those around as ``path-13-text``."""
    lines: list[str] = []
    for path, file in output.in_order():
        name = visible(portable(prefix + path))
        last = 0
        for found in sorted(file.lines or (), key=lambda line: line.number):
            if context and lines and found.number != last + 1:
                lines.append("--")
            sign = ":" if found.matches else "-"
            lines.append(f"{name}{sign}{found.number}{sign}{found.text}")
            last = found.number
    return lines


def _relative(path: str) -> str:
    path = path.replace(os.sep, "/") if os.sep != "/" else path
    return path.removeprefix("./")


def _bytes(value: _Text) -> bytes:
    if value.bytes is not None:
        return base64.b64decode(value.bytes)
    return (value.text or "").encode()
