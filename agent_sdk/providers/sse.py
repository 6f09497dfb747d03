r"""Server-sent events from bytes.

The standard ends lines at ``\n``, ``\r\n`` and ``\r`` and nowhere else. The
line readers of str and of HTTP libraries also split at U+2028, U+0085 and
others, which tears JSON apart; so this works on bytes and looks for two bytes
only. Whatever the network cuts the stream into, the events are the same.
"""

from typing import Final, TypeAlias

MAX_EVENT_BYTES: Final = 8 * 1024 * 1024
"""Most bytes of one event, with its field names."""

ServerEvent: TypeAlias = tuple[bytes, bytes]
"""Name of an event, possibly empty, and its data."""

_BOM: Final = b"\xef\xbb\xbf"


class SseParser:
    """Reads one stream of server-sent events, piece by piece.

    Attributes:
        overflow: Set when an event is larger than the limit. Nothing more is
            read then; the events before it have been returned.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.overflow = False
        self._max = max_event_bytes
        self._pieces: list[bytes] = []  # the unfinished event, in pieces: joined once
        self._size = 0
        self._after_cr = False
        self._head: bytes | None = b""  # the first bytes, until it is known if they are a BOM

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Take the next bytes of the stream.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            The events that are complete now, in order. Events without data,
            comments and unknown fields are left out.
        """
        if self._head is not None:
            data = self._without_bom(data)
        if self._after_cr or b"\r" in data:
            data = self._plain_lines(data)
        if not data or self.overflow:
            return []
        pieces = self._pieces
        if pieces:
            if b"\n\n" not in data and not (data[0] == 10 and pieces[-1][-1] == 10):
                pieces.append(data)
                self._size += len(data)
                self._check_tail()
                return []
            pieces.append(data)
            data = b"".join(pieces)
            pieces.clear()
        texts = data.split(b"\n\n")
        rest = texts.pop()
        if rest:
            pieces.append(rest)
        self._size = len(rest)
        events = self._events(texts) if texts else []
        self._check_tail()
        return events

    def _events(self, texts: list[bytes]) -> list[ServerEvent]:
        events: list[ServerEvent] = []
        add = events.append
        limit = self._max
        for text in texts:
            if len(text) > limit:
                self.overflow = True
                break
            # The two forms that servers send nearly always, without a loop over lines.
            if text.startswith(b"event: "):
                at = text.find(b"\n", 7)
                if text.startswith(b"\ndata: ", at) and text.find(b"\n", at + 7) < 0 < at:
                    add((text[7:at], text[at + 7 :]))
                    continue
            elif text.startswith(b"data: ") and text.find(b"\n", 6) < 0:
                add((b"", text[6:]))
                continue
            event = _fields(text)
            if event is not None:
                add(event)
        return events

    def _check_tail(self) -> None:
        # One more than the limit may still turn out to be half of a blank line.
        if self._size > self._max + 1:
            self.overflow = True
        if self.overflow:
            self._pieces.clear()
            self._size = 0

    def _plain_lines(self, data: bytes) -> bytes:
        """Turn every line end into a line feed, also one that is cut in two."""
        if not data:
            return data
        if self._after_cr and data[0] == 10:
            data = data[1:]
            self._after_cr = False
            if not data:
                return data
        self._after_cr = data[-1] == 13
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _without_bom(self, data: bytes) -> bytes:
        data = (self._head or b"") + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._head = data
            return b""
        self._head = None
        return data.removeprefix(_BOM)


def _fields(text: bytes) -> ServerEvent | None:
    """Read the lines of one event; None if it has no data."""
    name = b""
    data: list[bytes] = []
    for line in text.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return (name, b"\n".join(data)) if data else None
