"""The prompt, from the command line and from standard input."""

import os
import select
import stat
import sys

from agent_sdk.core.errors import InvalidInput

WAIT_SECONDS = 3.0
_CHUNK = 1 << 16


def read_prompt(given: str | None, *, fd: int) -> tuple[str, bool]:
    """Return the prompt, and whether standard input was waited for in vain.

    Text that is piped in goes behind the words of the command line, so that
    ``git diff | zpi -p 'Review this.'`` does what it says. A pipe (or the
    socket that some programs use for one) that stays silent for three seconds
    is left alone: whoever started the program may just have let it inherit one.

    Args:
        given: The prompt of the command line; None if it has none.
        fd: Descriptor of standard input.

    Raises:
        InvalidInput: If there is no prompt, or it is not UTF-8.
    """
    if given is None:
        if os.isatty(fd):
            raise InvalidInput(
                "There is no prompt.", hint="Give one: zpi -p 'What is this project?'"
            )
        text = _decoded(_read(fd))
        if not text.strip():
            raise InvalidInput("The prompt on standard input is empty.", hint="Say what to do.")
        return text, False
    if not given.strip():
        raise InvalidInput("The prompt is empty.", hint="Say what shall be done.")
    kind = os.fstat(fd).st_mode
    waits = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
    if not (waits or stat.S_ISREG(kind)):
        return given, False
    if waits and not _ready(fd):
        return given, True
    text = _decoded(_read(fd))
    return (f"{given}\n\n{text}" if text.strip() else given), False


def _ready(fd: int) -> bool:
    if sys.platform == "win32":  # select() takes sockets only there
        return True
    return bool(select.select([fd], [], [], WAIT_SECONDS)[0])


def _read(fd: int) -> bytes:
    parts: list[bytes] = []
    while True:
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:  # another program has set the pipe so
            select.select([fd], [], [])
            continue
        except OSError as error:
            raise InvalidInput(
                f"Standard input cannot be read: {error.strerror}.",
                hint="Give the prompt behind -p.",
            ) from error
        if not chunk:
            return b"".join(parts)
        parts.append(chunk)


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"Standard input is not UTF-8 text (byte {error.start}).",
            hint="Save it as a file and name the file in the prompt.",
        ) from error
