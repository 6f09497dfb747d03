"""What a program wrote to a terminal, as plain text.

Control sequences can move the cursor, hide text, set the clipboard or the
window's title. They are recognised by their grammar (ECMA-48), across any
division into pieces, and left out.
"""

import codecs
import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INTERMEDIATES = re.compile(r"[\x20-\x2f]*")
_PARAMETERS = re.compile(r"[\x20-\x3f]*")
_STRING_END = re.compile("[\x07\x18\x1a\x1b\x9c]")

_MAX_SEQUENCE = 256
_MAX_STRING = 1024 * 1024

_TEXT, _ESCAPE, _INTERMEDIATE, _CSI, _STRING = range(5)

_OPENS = {"\x1b": _ESCAPE, "\x9b": _CSI} | dict.fromkeys("\x90\x98\x9d\x9e\x9f", _STRING)
_AFTER_ESCAPE = {"[": _CSI} | dict.fromkeys("]PX^_", _STRING)


class TerminalText:
    r"""Turns a stream of bytes into text without control characters.

    Bytes that are no UTF-8 become U+FFFD. ``\n`` and ``\t`` stay; ``\r\n`` and
    a ``\r`` that returns to the start of a line (a progress bar) become ``\n``;
    all other control characters and all control sequences are dropped. One
    that never ends is given up after a megabyte, so that it cannot swallow
    everything that follows.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state = _TEXT
        self._length = 0
        self._returned = False

    def feed(self, data: bytes) -> str:
        """Return the text of further bytes, as far as it is complete."""
        return self._clean(self._decoder.decode(data))

    def end(self) -> str:
        """Return what was held back for its missing end."""
        return self._clean(self._decoder.decode(b"", final=True))

    def _clean(self, text: str) -> str:
        out: list[str] = []
        at = 0
        while at < len(text):
            if self._state == _TEXT:
                at = self._plain(text, at, out)
            elif self._state == _STRING:
                at = self._string(text, at)
            else:
                at = self._sequence(text, at)
        return "".join(out)

    def _plain(self, text: str, at: int, out: list[str]) -> int:
        found = _CONTROL.search(text, at)
        end = found.start() if found else len(text)
        if end > at:
            if self._returned and text[at] != "\n":
                out.append("\n")
            self._returned = False
            out.append(text[at:end])
        if found is None:
            return end
        self._returned = self._returned or found[0] == "\r"
        self._enter(_OPENS.get(found[0], _TEXT))
        return found.end()

    def _enter(self, state: int) -> None:
        self._state = state
        self._length = 0

    def _string(self, text: str, at: int) -> int:
        found = _STRING_END.search(text, at)
        self._length += (found.start() if found else len(text)) - at
        if found is None:
            if self._length > _MAX_STRING:
                self._enter(_TEXT)
            return len(text)
        # ESC \ ends a string too; any other ESC ends it and begins its own sequence.
        self._enter(_ESCAPE if found[0] == "\x1b" else _TEXT)
        return found.end()

    def _sequence(self, text: str, at: int) -> int:
        """Go on in an escape sequence; what breaks its grammar is text again."""
        if self._state == _ESCAPE:
            if text[at] in _AFTER_ESCAPE:
                self._enter(_AFTER_ESCAPE[text[at]])
                return at + 1
            self._state = _INTERMEDIATE
        middle, lowest = (_PARAMETERS, "@") if self._state == _CSI else (_INTERMEDIATES, "0")
        end = at + _span(middle, text, at)
        self._length += end - at
        if end < len(text):
            self._enter(_TEXT)
            return end + 1 if lowest <= text[end] <= "~" else end
        if self._length > _MAX_SEQUENCE:
            self._enter(_TEXT)
        return end


def _span(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() - at if found else 0
