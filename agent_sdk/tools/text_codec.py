"""Text files as bytes: their encoding and line endings, kept exactly. Pure.

A file is decoded to be read and searched, but changed only by splicing bytes,
so that whatever an edit does not touch stays what it was. A file that is
neither UTF-8 nor marked as UTF-16 is taken as ASCII with unknown bytes in
between: those can be kept, though not understood.
"""

import codecs
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import ToolError

Encoding: TypeAlias = Literal["utf-8", "utf-16-le", "utf-16-be", "unknown"]

_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_HIGH = ("\udc80", "\udcff")


class TextFile(Struct, frozen=True):
    """The contents of a text file.

    Attributes:
        text: Decoded, without the byte order mark, line endings as they are.
            Bytes of an unknown encoding are lone surrogates in it.
        encoding: How it is encoded.
        bom: The byte order mark, where there is one.
    """

    text: str
    encoding: Encoding
    bom: bytes = b""

    @property
    def printable(self) -> str:
        """The text to show; bytes that are no UTF-8 become U+FFFD."""
        if self.encoding != "unknown":
            return self.text
        return self.text.encode("ascii", "surrogateescape").decode("utf-8", "replace")


class Splice(Struct, frozen=True):
    """One change of a text: what lies from ``start`` to ``end`` becomes ``text``."""

    start: int
    end: int
    text: str


def decode(data: bytes) -> TextFile | None:
    """Return the text of a file, or None if it is no text (it contains NULs)."""
    if data.startswith(codecs.BOM_UTF8):
        bom, encoding = codecs.BOM_UTF8, "utf-8"
    elif data.startswith(_UTF32):
        return None
    elif data.startswith(codecs.BOM_UTF16_LE):
        return _utf16(data, "utf-16-le")
    elif data.startswith(codecs.BOM_UTF16_BE):
        return _utf16(data, "utf-16-be")
    else:
        bom, encoding = b"", "utf-8"
    if b"\0" in data:
        return None
    try:
        return TextFile(data[len(bom) :].decode(encoding), "utf-8", bom)
    except UnicodeDecodeError:
        return TextFile(data.decode("ascii", "surrogateescape"), "unknown")


def _utf16(data: bytes, encoding: Literal["utf-16-le", "utf-16-be"]) -> TextFile | None:
    try:
        text = data[2:].decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else TextFile(text, encoding, data[:2])


def encode(text: str, like: TextFile) -> bytes:
    """Return text in the encoding of a file, without a byte order mark.

    Raises:
        ToolError: If it has characters that cannot be written that way.
    """
    codec, errors = ("ascii", "surrogateescape") if like.encoding == "unknown" else _strict(like)
    try:
        return text.encode(codec, errors)
    except UnicodeEncodeError as error:
        character = text[error.start]
        if like.encoding == "unknown":
            raise ToolError(
                f"The file's encoding is unknown (it is not UTF-8), so {character!r} cannot be"
                " written to it.",
                hint="Use ASCII text only, or convert the file first, for instance with iconv.",
            ) from None
        raise ToolError(f"{character!r} is no valid character.") from None


def _strict(like: TextFile) -> tuple[str, str]:
    return like.encoding, "strict"


def splice(data: bytes, file: TextFile, splices: Sequence[Splice]) -> bytes:
    """Return the file's bytes with the changes made and all others untouched.

    Args:
        data: The whole file.
        file: The same, decoded.
        splices: Changes in ascending order that do not overlap.
    """
    kept_from = len(file.bom)
    at = 0
    parts = [file.bom]
    for change in splices:
        kept_to = kept_from + len(encode(file.text[at : change.start], file))
        parts += [data[kept_from:kept_to], encode(change.text, file)]
        kept_from = kept_to + len(encode(file.text[change.start : change.end], file))
        at = change.end
    parts.append(data[kept_from:])
    return b"".join(parts)


def apply(text: str, splices: Sequence[Splice]) -> str:
    """Return a text with the changes made; they ascend and do not overlap."""
    parts: list[str] = []
    at = 0
    for change in splices:
        parts += [text[at : change.start], change.text]
        at = change.end
    parts.append(text[at:])
    return "".join(parts)


def is_unknown_byte(character: str) -> bool:
    """Return whether a character of ``text`` stands for a byte of unknown meaning."""
    return _HIGH[0] <= character <= _HIGH[1]


def split_lines(text: str) -> list[str]:
    """Return the lines without their endings: LF, CRLF or a bare CR.

    A final ending does not begin another line, so ``""`` has none.
    """
    if not text:
        return []
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def only_ending(text: str) -> str:
    r"""Return the one line ending of a text; empty if it has none or several."""
    crlf = text.count("\r\n")
    lf = text.count("\n") - crlf
    cr = text.count("\r") - crlf
    used = [ending for ending, n in (("\r\n", crlf), ("\n", lf), ("\r", cr)) if n]
    return used[0] if len(used) == 1 else ""
