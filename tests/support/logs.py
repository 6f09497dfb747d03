"""Fails a test for log records of level ERROR or above that it does not expect."""

import logging
import re
from dataclasses import dataclass

from typing_extensions import override


@dataclass
class Expected:
    """A record that a test says will come."""

    pattern: str
    level: int
    seen: bool = False

    def matches(self, record: logging.LogRecord) -> bool:
        """Whether this is such a record."""
        return record.levelno >= self.level and bool(re.search(self.pattern, record.getMessage()))


class LogGuard(logging.Handler):
    """Collects error records of one test and judges them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._expected: list[Expected] = []
        self._unexpected: list[str] = []

    def expect(self, pattern: str, *, level: int = logging.ERROR) -> None:
        """Say that a record whose text holds ``pattern`` (a regex) must come.

        Say it before the record is written.
        """
        self._expected.append(Expected(pattern, level))

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        known = [each for each in self._expected if each.matches(record)]
        for each in known:
            each.seen = True
        if not known:
            cause = f" ({record.exc_info[1]!r})" if record.exc_info else ""
            self._unexpected.append(
                f"{record.levelname} {record.name}: {record.getMessage()}{cause}"
            )

    def verdict(self, *, final: bool) -> str:
        """Return what is wrong so far, or nothing; each complaint is made once.

        Args:
            final: Whether the test and its fixtures are through, so that
                expected records that did not come are missing.
        """
        complaints = [f"unexpected log record: {text}" for text in self._unexpected]
        self._unexpected.clear()
        if final:
            missing = [each.pattern for each in self._expected if not each.seen]
            complaints += [f"expected log record did not come: {text!r}" for text in missing]
        return "\n".join(complaints)
