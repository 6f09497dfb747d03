"""What the model, and through it the user, is told about a refusal. Pure.

A refusal says what was refused, that nothing was done, and what would allow
it, so that the model need not guess and the user need not search.
"""

from collections.abc import Sequence

from agent_sdk.loop.types import PermissionRequest
from agent_sdk.permissions.commands import COMMAND_KEYS, is_plain

ASKER_GONE = "Whoever could have answered is gone. Nothing was done."
OTHER_INPUT = "The answer was given for another input than the call's. Nothing was done."

_LONGEST = 200


def denied(request: PermissionRequest) -> str:
    """Return the reason for what a rule denies."""
    return (
        f"A permission rule denies {_what(request)}. Nothing was done. "
        "Do not try to reach the same by other means; tell the user if it is needed."
    )


def rejected(reason: str) -> str:
    """Return the reason for what a person rejected."""
    said = f" They said: {reason}" if reason else ""
    return f"The user refused this call. Nothing was done.{said}"


def withdrawn(reason: str) -> str:
    """Return the reason for a question that nobody answered in time."""
    return f"The question was withdrawn: {reason or 'the session is closed'}. Nothing was done."


def nobody_to_ask(requests: Sequence[PermissionRequest], mode: str) -> str:
    """Return the reason where a question would be needed and nobody can answer it."""
    listed = "; ".join(_what(request) for request in requests)
    text = f"Permission is needed for {listed}, and nobody can be asked here. Nothing was done."
    if any(request.protected for request in requests):
        return (
            f"{text} This is protected: only a person can allow it, one call at a time, "
            "and no rule or mode can."
        )
    if any(
        request.permission in COMMAND_KEYS and not all(map(is_plain, request.patterns))
        for request in requests
    ):
        text += (
            " Rules with a wildcard, such as 'git *', cover single plain commands only: "
            "none with ;, &, |, $, <, > or brackets, and none that runs another program."
        )
    keys = ",".join(dict.fromkeys(request.permission for request in requests))
    return (
        f"{text} The user can allow it with --allowed-tools '{keys}' or, for single cases, "
        "with a pattern as in 'bash(git *)' or a rule in the settings; "
        f"the permission mode is {mode!r}."
    )


def _what(request: PermissionRequest) -> str:
    shown = ", ".join(repr(_short(pattern)) for pattern in request.patterns[:3])
    more = len(request.patterns) - 3
    rest = f" and {more} more" if more > 0 else ""
    return f"{request.permission} {shown}{rest}" if shown else request.permission


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
