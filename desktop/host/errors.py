"""What the host itself refuses, and how any failure is told to the window."""

from agent_sdk.host import ZpiError
from desktop.bridge.messages import ErrorInfo


class SessionBusy(ZpiError):
    """The session runs, and what was asked has to wait for that."""

    code = "session_busy"


class UnknownQuestion(ZpiError):
    """No question of that id, with that input, waits for an answer."""

    code = "unknown_question"


class UnknownThing(ZpiError):
    """A project, session or prompt that was named is not there (any more)."""

    code = "not_found"


class WrongPassphrase(ZpiError):
    """The passphrase does not open the stored keys."""

    code = "wrong_passphrase"


class HostOccupied(ZpiError):
    """Another host has the data folder."""

    code = "host_occupied"


def error_info(error: ZpiError) -> ErrorInfo:
    """Return the error as the window is told of it."""
    return ErrorInfo(code=error.code, text=error.message, hint=error.hint)
