r"""One dialect of regular expressions for the two programs that search. Pure.

ripgrep and Python differ in what they take and in what it means to them. A
pattern is therefore read here, and written anew so that both understand it
alike: what both can do in the same way is taken, what only one can do
(look-around, back-references) is refused with what to do instead. Braces that
count nothing and escaped punctuation mean themselves.
"""

import re

from msgspec import Struct

from agent_sdk.core.errors import InvalidToolInput

MAX_PATTERN = 1_024
"""Characters of a pattern."""

_MAX_REPEAT = 1_000
_MAX_DEPTH = 50

_COUNT = re.compile(r"\{(\d{0,4})(,?)(\d{0,4})\}")
_FLAGS = re.compile(r"\(\?([ims]+)\)")
_GROUP = re.compile(r"\(\?(?:P?<([A-Za-z_]\w*)>|([ims]*(?:-[ims]+)?):)", re.ASCII)
_HEX = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|[xu]\{([0-9A-Fa-f]{1,6})\}")
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")
_POSIX_SETS = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\t\x20",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`\{-~",
    "space": r"\t-\r\x20",
    "upper": "A-Z",
    "word": "0-9A-Z_a-z",
    "xdigit": "0-9A-Fa-f",
}
_META = frozenset("\\.+*?()|[]{}^$#&-~")
_CLASSES = frozenset("dDwWsSbB")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_QUANTIFIERS = frozenset("*+?")


class Expression(Struct, frozen=True):
    """A pattern that is valid and means the same in both dialects.

    Attributes:
        text: The pattern.
        newline: Whether it asks for a line feed, so that it can match only
            across lines.
    """

    text: str
    newline: bool


def read_expression(text: str) -> Expression:
    """Read a pattern and return it as both dialects understand it.

    Raises:
        InvalidToolInput: If it is not valid, or not in the common dialect.
    """
    if not text:
        raise InvalidToolInput("grep: 'pattern' must not be empty.")
    if len(text) > MAX_PATTERN:
        raise InvalidToolInput(f"grep: the pattern is longer than {MAX_PATTERN:,} characters.")
    reader = _Reader(text)
    written = reader.read()
    try:
        re.compile(written)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidToolInput(f"grep: the pattern {text!r} is not valid: {error}.") from None
    return Expression(written, reader.newline)


class _Reader:
    """Reads one pattern from left to right.

    What it writes is valid and means the same in both dialects.
    """

    def __init__(self, text: str) -> None:
        self.newline = False
        self._text = text
        self._at = 0
        self._depth = 0
        self._repeatable = False

    def read(self) -> str:
        flags = _FLAGS.match(self._text)
        written = []
        if flags:
            written.append(flags[0])
            self._at = flags.end()
        while self._at < len(self._text):
            written.append(self._next())
        if self._depth:
            raise self._bad("a bracket '(' is not closed", "Write one that is meant as '\\('.")
        return "".join(written)

    def _bad(self, what: str, hint: str = "") -> InvalidToolInput:
        return InvalidToolInput(f"grep: in the pattern {self._text!r}, {what}.", hint=hint)

    def _next(self) -> str:
        char = self._text[self._at]
        if char == "(":
            return self._open()
        if char == ")":
            return self._close()
        if char == "[":
            self._repeatable = True
            return self._set()
        if char == "\\":
            return self._escape()
        if char in _QUANTIFIERS or (char == "{" and _COUNT.match(self._text, self._at)):
            return self._quantifier()
        self._at += 1
        if char in "^$|":
            self._repeatable = False
            return char
        self._repeatable = True
        self.newline = self.newline or char == "\n"
        return char if char == "." else _literal(char)

    def _open(self) -> str:
        self._depth += 1
        self._repeatable = False
        if self._depth > _MAX_DEPTH:
            raise self._bad(f"brackets are nested more than {_MAX_DEPTH} deep")
        if not self._text.startswith("(?", self._at):
            self._at += 1
            return "("
        group = _GROUP.match(self._text, self._at)
        if group is None:
            kind = self._text[self._at : self._at + 4]
            raise self._bad(
                f"{kind!r} is not supported",
                "Look-around, atomic groups and comments cannot be used: match more, and look at"
                " what is found.",
            )
        self._at = group.end()
        return "(?:" if group[1] else group[0]

    def _close(self) -> str:
        self._depth -= 1
        if self._depth < 0:
            raise self._bad("a bracket ')' was not opened", "Write one that is meant as '\\)'.")
        self._at += 1
        self._repeatable = True
        return ")"

    def _quantifier(self) -> str:
        count = _COUNT.match(self._text, self._at)
        if count and not count[1] and not count[3]:
            self._at += 1  # "{}" and "{,}" count nothing
            self._repeatable = True
            return r"\{"
        if not self._repeatable:
            raise self._bad(
                f"there is nothing that {self._text[self._at]!r} could repeat",
                f"Write it as '\\{self._text[self._at]}' if it is meant itself.",
            )
        self._repeatable = False
        if count is None:
            written = self._text[self._at]
            self._at += 1
        else:
            written = self._count(count)
            self._at = count.end()
        if self._text.startswith("?", self._at):
            self._at += 1
            return written + "?"
        return written

    def _count(self, count: re.Match[str]) -> str:
        least, comma, most = int(count[1] or 0), count[2], count[3]
        if max(least, int(most or 0)) > _MAX_REPEAT:
            raise self._bad(f"{count[0]!r} repeats more than {_MAX_REPEAT:,} times")
        if most and int(most) < least:
            raise self._bad(f"{count[0]!r} ends before it begins")
        return f"{{{least}{comma}{most}}}"

    def _escape(self) -> str:
        self._repeatable = True
        char = self._text[self._at + 1 : self._at + 2]
        if char in _CLASSES and char:
            self._at += 2
            self._repeatable = char not in "bB"
            return "\\" + char
        return _literal(self._escaped())

    def _escaped(self) -> str:
        """Return the one character that an escape stands for, and go past it."""
        char = self._text[self._at + 1 : self._at + 2]
        code = _HEX.match(self._text, self._at + 1)
        if code:
            self._at = code.end()
            value = int(code[1] or code[2] or code[3], 16)
            if value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
                raise self._bad(f"'\\{code[0]}' is no character")
            found = chr(value)
        elif char in _CONTROLS and char:
            self._at += 2
            found = _CONTROLS[char]
        elif char and not (char.isalnum() and char.isascii()):
            self._at += 2
            found = char
        else:
            raise self._unknown(char)
        self.newline = self.newline or found == "\n"
        return found

    def _unknown(self, char: str) -> InvalidToolInput:
        if not char:
            return self._bad("nothing follows the last backslash", "Write '\\\\' for one.")
        if char.isdigit():
            return self._bad(f"the back-reference '\\{char}' is not supported")
        hint = {
            "A": "Use ^.",
            "Z": "Use $.",
            "z": "Use $.",
            "p": "Name a range, such as [\\u4e00-\\u9fff] or [a-z].",
            "h": "Use [ \\t].",
        }.get(char, "")
        return self._bad(f"'\\{char}' is not supported", hint)

    # ----------------------------------------------------------------- sets

    def _set(self) -> str:
        start = self._at
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        members: list[str] = []
        while True:
            char = self._text[self._at : self._at + 1]
            if not char:
                self._at = start
                raise self._bad("a bracket '[' is not closed", "Write one that is meant as '\\['.")
            if char == "]" and members:
                self._at += 1
                return f"[{'^' if negated else ''}{''.join(members)}]"
            members.append(self._member())

    def _member(self) -> str:
        posix = _POSIX.match(self._text, self._at)
        if posix:
            known = _POSIX_SETS.get(posix[2])
            if known is None or posix[1]:
                raise self._bad(f"there is no class {posix[0]!r}")
            self._at = posix.end()
            return known
        char = self._text[self._at + 1 : self._at + 2] if self._text[self._at] == "\\" else ""
        if char and char in "dDwWsS":
            self._at += 2
            return "\\" + char
        low = self._member_char()
        if self._text[self._at : self._at + 1] != "-" or self._text[
            self._at + 1 : self._at + 2
        ] in ("]", ""):
            return _literal(low)
        self._at += 1
        high = self._member_char()
        if high < low:
            raise self._bad(f"the range '{low}-{high}' ends before it begins")
        return f"{_literal(low)}-{_literal(high)}"

    def _member_char(self) -> str:
        char = self._text[self._at]
        if char == "\\":
            if self._text.startswith("\\b", self._at):
                raise self._bad("'\\b' in a set is not supported")
            return self._escaped()
        self._at += 1
        self.newline = self.newline or char == "\n"
        return char


def _literal(char: str) -> str:
    """Return a character so that both dialects take it for itself, also in a set."""
    if char in _META:
        return "\\" + char
    return f"\\x{ord(char):02x}" if char < " " or char == "\x7f" else char
