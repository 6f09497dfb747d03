"""The text of a part as it streams, cut into segments. Pure, no Qt, no parsing.

``Flow`` takes text as it comes and cuts it, line by line, into segments of
prose of some kilobytes and fenced blocks of code; each segment is a row of the
transcript, so that no document grows large. Only the last segment can change.
"""

import re
from typing import Literal, TypeAlias

from desktop.gui.text import LONGEST_LINE, pieces

SEGMENT = 4096
"""Characters after which prose is cut at the next place that allows it."""

HARD_SEGMENT = 3 * SEGMENT
"""Characters after which prose is cut at the next line, whatever it is."""

SegmentKind: TypeAlias = Literal["prose", "code"]

_FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")
_BEGIN = re.compile(r"(#{1,6} |[-*+] |\d{1,9}[.)] |> ?|(?:[-*_] ?){3,}$)")


class Segment:
    """A piece of a part's text that is shown as one row.

    Attributes:
        kind: Prose, or a fenced block of code.
        info: For code, what follows the fence, such as ``python``.
        source: The text; for code without the fences.
        tail: The line that is still arriving, if it may be shown already.
        closed: Whether it cannot change any more.
        revision: Counts changes.
    """

    __slots__ = ("closed", "info", "kind", "revision", "source", "tail")

    def __init__(self, kind: SegmentKind, info: str = "") -> None:
        self.kind: SegmentKind = kind
        self.info = info
        self.source = ""
        self.tail = ""
        self.closed = False
        self.revision = 0

    @property
    def text(self) -> str:
        """What is to be shown now."""
        return self.source + self.tail


class Flow:
    """The text of one part, cut into segments as it grows.

    Args:
        text: What there is already.
        finished: Whether that is all of it.
    """

    def __init__(self, text: str = "", *, finished: bool = False) -> None:
        self._chunks: list[str] = []
        self._line = ""
        self._fence: tuple[str, int, bool] | None = None  # character, length, own segment
        self._cut = False
        self.segments: list[Segment] = []
        if text:
            self.append(text)
        if finished:
            self.finish()

    @property
    def text(self) -> str:
        """Everything that was appended."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def append(self, text: str) -> None:
        """Take more text."""
        if not text:
            return
        self._chunks.append(text)
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._take(line)
        if len(self._line) > LONGEST_LINE and not self._in_code:
            *whole, self._line = pieces(self._line)
            for piece in whole:
                self._prose(piece, end="")
        self._show_tail()

    def finish(self) -> None:
        """Take note that no more text comes."""
        if self._line:
            line, self._line = self._line, ""
            self._take(line, end="")
        if self.segments:
            last = self.segments[-1]
            last.tail = ""
            self._close(last)

    # ---------------------------------------------------------------- lines

    @property
    def _in_code(self) -> bool:
        return self._fence is not None and self._fence[2]

    def _take(self, line: str, end: str = "\n") -> None:
        if self._fence is not None and _ends(self._fence, line):
            self._end_fence(line, end)
        elif self._in_code:
            self._add(self.segments[-1], line + end)
        elif self._fence is None and (match := _FENCE.fullmatch(line)) and _opens(match):
            self._begin_fence(match, line + end)
        else:
            self._prose(line, end)

    def _begin_fence(self, match: re.Match[str], line: str) -> None:
        own = not match[1]
        self._fence = (match[2][0], len(match[2]), own)
        if own:
            self._next("code", match[3].strip())
        else:
            self._prose(line, end="")

    def _end_fence(self, line: str, end: str) -> None:
        own = self._in_code
        self._fence = None
        if own:
            self.segments[-1].tail = ""
            self._close(self.segments[-1])
        else:
            self._prose(line, end)

    def _prose(self, line: str, end: str) -> None:
        for piece in pieces(line)[:-1]:
            self._prose_piece(piece, "")
            line = line[len(piece) :]
        self._prose_piece(line, end)

    def _prose_piece(self, line: str, end: str) -> None:
        last = self.segments[-1] if self.segments else None
        if last is None or last.closed or last.kind == "code":
            if not line.strip():
                return  # nothing to show between two blocks
            last = self._next("prose")
        elif self._may_cut(last, line):
            last = self._next("prose")
        self._add(last, line + end)
        self._cut = not line.strip()

    def _may_cut(self, last: Segment, line: str) -> bool:
        size = len(last.source)
        if size < SEGMENT or self._fence is not None:
            return size >= HARD_SEGMENT
        if size >= HARD_SEGMENT:
            return True
        starts = line[:1] not in ("", " ", "\t")
        return starts and (self._cut or _BEGIN.match(line) is not None)

    # ------------------------------------------------------------- segments

    def _next(self, kind: SegmentKind, info: str = "") -> Segment:
        if self.segments and not self.segments[-1].closed:
            self.segments[-1].tail = ""
            self._close(self.segments[-1])
        segment = Segment(kind, info)
        self.segments.append(segment)
        self._cut = False
        return segment

    @staticmethod
    def _add(segment: Segment, text: str) -> None:
        segment.source += text
        segment.tail = ""
        segment.revision += 1

    @staticmethod
    def _close(segment: Segment) -> None:
        if not segment.closed:
            segment.closed = True
            segment.revision += 1

    def _show_tail(self) -> None:
        tail = "" if self._maybe_fence(self._line) else self._line
        last = self.segments[-1] if self.segments else None
        if last is None or last.closed:
            if not tail.strip():
                return
            last = self._next("prose")
        if last.tail != tail:
            last.tail = tail
            last.revision += 1

    def _maybe_fence(self, line: str) -> bool:
        """Return whether a line that is arriving may turn out to be a fence."""
        mark = line.lstrip(" ")
        if not mark:
            return False
        if self._fence is not None:
            return self._in_code and set(mark) == {self._fence[0]}
        return mark.startswith(("```", "~~~")) or mark in ("`", "``", "~", "~~")


def _opens(match: re.Match[str]) -> bool:
    return not (match[2][0] == "`" and "`" in match[3])


def _ends(fence: tuple[str, int, bool], line: str) -> bool:
    character, length, _ = fence
    mark = line.strip()
    return len(mark) >= length and set(mark) == {character}
