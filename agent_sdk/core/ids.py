"""Where ids and time come from, behind protocols so that tests can fix both.

Time for timeouts and durations is monotonic; the wall clock is only shown and
stored, never compared for correctness.
"""

import asyncio
import os
import time
from datetime import UTC, datetime
from typing import Protocol


class Ids(Protocol):
    """A source of ids that are unique across machines and time."""

    def new(self) -> str:
        """Return a new id: 36 characters, the form of a UUID version 4."""
        ...


class Clock(Protocol):
    """A source of time."""

    def iso(self) -> str:
        """Return the wall clock as UTC ISO 8601 with milliseconds and ``Z``."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellable at once."""
        ...


class RandomIds:
    """UUID version 4 from the operating system's randomness."""

    def new(self) -> str:
        """Return a new UUID version 4."""
        # uuid.uuid4() does the same at five times the cost and an import.
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        h = raw.hex()
        return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


class SystemClock:
    """The machine's clocks."""

    def iso(self) -> str:
        """Return the wall clock as UTC ISO 8601 with milliseconds and ``Z``."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellable at once."""
        await asyncio.sleep(seconds)
