r"""Reads a constrained turn while it grows. Pure.

The turn is ``{"name": "read", "arguments": {…}}``. Its grammar fixes the order
of the two fields; spaces and line ends may be anywhere between them. The text
of an answer is decoded as it comes, a call's arguments are passed on as they
are written.
"""

import re
from typing import Literal, TypeAlias

from msgspec import Struct


class Said(Struct, frozen=True, gc=False):
    """More text of an answer in words."""

    text: str


class Called(Struct, frozen=True, gc=False):
    """A tool was chosen."""

    name: str


class Written(Struct, frozen=True, gc=False):
    """More of the JSON text of the chosen tool's arguments."""

    text: str


Piece: TypeAlias = Said | Called | Written

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"\\]*)"\s*,\s*"arguments"\s*:\s*(?=\{)')
_TEXT_HEAD = re.compile(r'\{\s*"text"\s*:\s*"')
_HEAD_LIMIT = 2_000
"""Characters in which the head must have come; names are short."""

_PLAIN = re.compile(r'[^"\\]+')
_STRUCTURE = re.compile(r'["{}]')
_STRING_PART = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
_ESCAPES = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}


class BrokenTurn(ValueError):
    """The text is not what the grammar allows."""


class StringDecoder:
    """Decodes the inside of one JSON string, cut anywhere.

    Attributes:
        ended: Whether the closing quote has come.
    """

    def __init__(self) -> None:
        self.ended = False
        self._kept = ""  # the beginning of an escape
        self._high = 0  # the first half of a surrogate pair

    def feed(self, raw: str) -> tuple[str, str]:
        """Take more of the string; return its text, and what follows the closing quote.

        Raises:
            BrokenTurn: If an escape is none.
        """
        data = self._kept + raw
        self._kept = ""
        out: list[str] = []
        at = 0
        while at < len(data) and not self.ended:
            if data[at] == '"':
                self.ended = True
                at += 1
            elif data[at] == "\\":
                step = self._escape(data, at, out)
                if not step:
                    self._kept = data[at:]
                    return "".join(out), ""
                at += step
            else:
                self._release(out)
                plain = _PLAIN.match(data, at)
                end = plain.end() if plain else at + 1
                out.append(data[at:end])
                at = end
        if self.ended:
            self._release(out)
        return "".join(out), data[at:]

    def _escape(self, data: str, at: int, out: list[str]) -> int:
        """Decode one escape; return its length, 0 if it is not whole yet."""
        letter = data[at + 1 : at + 2]
        if letter != "u":
            if not letter:
                return 0
            if letter not in _ESCAPES:
                raise BrokenTurn(f"\\{letter} is no escape")
            self._release(out)
            out.append(_ESCAPES[letter])
            return 2
        digits = data[at + 2 : at + 6]
        if len(digits) < 4:
            return 0
        try:
            unit = int(digits, 16)
        except ValueError:
            raise BrokenTurn(f"\\u{digits} is no escape") from None
        if self._high and 0xDC00 <= unit <= 0xDFFF:
            out.append(chr(0x10000 + ((self._high - 0xD800) << 10) + unit - 0xDC00))
            self._high = 0
            return 6
        self._release(out)
        if 0xD800 <= unit <= 0xDBFF:
            self._high = unit
        else:
            out.append("\N{REPLACEMENT CHARACTER}" if 0xDC00 <= unit <= 0xDFFF else chr(unit))
        return 6

    def _release(self, out: list[str]) -> None:
        """Give up waiting for the second half of a pair."""
        if self._high:
            out.append("\N{REPLACEMENT CHARACTER}")
            self._high = 0


class ObjectScanner:
    """Finds the end of one JSON object, cut anywhere; begins at its brace.

    Attributes:
        ended: Whether the closing brace has come.
    """

    def __init__(self) -> None:
        self.ended = False
        self._depth = 0
        self._inside = False  # a string
        self._escaped = False  # the last character was a backslash in a string

    def feed(self, raw: str) -> tuple[str, str]:
        """Take more text; return what belongs to the object, and what follows it."""
        at = 0
        while at < len(raw) and not self.ended:
            at = self._in_string(raw, at) if self._inside else self._between(raw, at)
        return raw[:at], raw[at:]

    def _in_string(self, raw: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            return at + 1
        part = _STRING_PART.match(raw, at)
        end = part.end() if part else at
        if end < len(raw):
            # Either the closing quote, or a backslash whose letter has not come.
            self._inside = raw[end] != '"'
            self._escaped = self._inside
            end += 1
        return end

    def _between(self, raw: str, at: int) -> int:
        found = _STRUCTURE.search(raw, at)
        if found is None:
            return len(raw)
        match found[0]:
            case '"':
                self._inside = True
            case "{":
                self._depth += 1
            case _:
                self._depth -= 1
                self.ended = self._depth == 0
        return found.end()


class TurnReader:
    """Reads one constrained turn.

    Attributes:
        complete: Whether the answer or the arguments have come whole.
    """

    def __init__(self, *, answer: str, answer_is_object: bool = False) -> None:
        """Begin a turn.

        Args:
            answer: Name of the branch that is no tool.
            answer_is_object: Whether the arguments of that branch are the
                answer as they are written, and not ``{"text": …}``.
        """
        self.complete = False
        self._answer = answer
        self._as_object = answer_is_object
        self._state: Literal["head", "text head", "text", "object", "tail"] = "head"
        self._buffer = ""
        self._say = False  # whether the object is said, or is a call's arguments
        self._string = StringDecoder()
        self._object = ObjectScanner()

    def feed(self, raw: str) -> list[Piece]:
        """Take more of the turn.

        Raises:
            BrokenTurn: If the text is not what the grammar allows.
        """
        pieces: list[Piece] = []
        if self._state in ("head", "text head"):
            raw = self._read_heads(self._buffer + raw, pieces)
        if self._state == "text":
            text, _ = self._string.feed(raw)
            if text:
                pieces.append(Said(text))
            self._finish(ended=self._string.ended)
        elif self._state == "object" and raw:
            part, _ = self._object.feed(raw)
            if part:
                pieces.append(Said(part) if self._say else Written(part))
            self._finish(ended=self._object.ended)
        return pieces

    def _finish(self, *, ended: bool) -> None:
        if ended:
            self.complete = True
            self._state = "tail"

    def _read_heads(self, data: str, pieces: list[Piece]) -> str:
        """Read up to the text or the arguments; return what follows, if that has come."""
        if self._state == "head":
            found = _HEAD.match(data)
            if found is None:
                return self._keep(data)
            data = data[found.end() :]
            self._choose(found[1], pieces)
        if self._state == "text head":
            found = _TEXT_HEAD.match(data)
            if found is None:
                return self._keep(data)
            data = data[found.end() :]
            self._state = "text"
        self._buffer = ""
        return data

    def _choose(self, name: str, pieces: list[Piece]) -> None:
        if name != self._answer:
            pieces.append(Called(name))
            self._state = "object"
        elif self._as_object:
            self._say = True
            self._state = "object"
        else:
            self._state = "text head"

    def _keep(self, data: str) -> str:
        if len(data) > _HEAD_LIMIT:
            raise BrokenTurn(f"the turn begins with {data[:80]!r}")
        self._buffer = data
        return ""
