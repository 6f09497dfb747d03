"""The three standard streams, as the program finds them: open, closed, or with nobody behind them."""

import os
import select
import sys

from typing_extensions import override

STDIN, STDOUT, STDERR = 0, 1, 2


class OutputLost(Exception):
    """Standard output cannot be written.

    Attributes:
        gone: Whether its reader has left, who then need not be told of it.
        reason: What the system says.
    """

    def __init__(self, *, gone: bool, reason: str) -> None:
        super().__init__(f"Standard output cannot be written: {reason}.")
        self.gone = gone
        self.reason = reason


class Out:
    """A byte stream that is written whole, whatever the pipe takes at once.

    Args:
        fd: File descriptor to write to.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: bytes) -> None:
        """Write all of it.

        Raises:
            OutputLost: If it cannot be written.
        """
        view = memoryview(data)
        try:
            while view:
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:  # another program has set the pipe so
                    select.select([], [self._fd], [])
        except OSError as error:
            gone = isinstance(error, BrokenPipeError)
            raise OutputLost(gone=gone, reason=error.strerror or str(error)) from error


class Aside(Out):
    """A stream for remarks: whoever closed it does not want to hear them."""

    @override
    def write(self, data: bytes) -> None:
        """Write it, if somebody reads it."""
        try:
            super().write(data)
        except OutputLost:
            return


def settle_streams() -> None:
    """Put the null device where a standard stream is closed.

    Else the next file that is opened, a session for instance, would get the
    stream's number, and what is printed would go into it. To write to a
    standard output that is closed still fails.
    """
    for fd, flags in ((STDIN, os.O_RDONLY), (STDOUT, os.O_RDONLY), (STDERR, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, flags)  # gets the lowest number that is free: this one
    if sys.stderr is None:  # as Python has it for a stream that was closed
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the end


def flush_printed() -> None:
    """Write what was printed; if nobody reads it, let the end of the program not complain."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, STDOUT)
        os.close(null)


def standard_streams() -> tuple[Out, Out]:
    """Return standard output and standard error as byte streams."""
    return Out(STDOUT), Aside(STDERR)
