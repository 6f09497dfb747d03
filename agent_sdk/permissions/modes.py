"""Permission modes: what becomes of a call that the rules would ask about. Pure.

A mode never lifts a denial, and never answers for a protected request.
"""

import os
from collections.abc import Sequence
from typing import Literal, TypeAlias, assert_never, get_args

from agent_sdk.core.errors import InvalidInput
from agent_sdk.loop.types import Action, Notice, PermissionRequest
from agent_sdk.tools.path_text import within

PermissionMode: TypeAlias = Literal[
    "default", "acceptEdits", "dontAsk", "bypassPermissions", "plan", "auto"
]
"""``default``: ask. ``acceptEdits``: edits inside the session's folders need no
answer. ``dontAsk``: refuse instead of asking. ``bypassPermissions``: do not ask.
``plan``: only tools that change nothing. ``auto``: like ``default`` for now."""

PERMISSION_MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)

PLAN_REASON = (
    "The session is in plan mode: only tools that read may be used. Nothing was changed. "
    "Describe what you would do, and let the user leave plan mode to have it done."
)

DONT_ASK_REASON = (
    "The session refuses whatever would need a question (permission mode 'dontAsk'). "
    "Nothing was done. Go on without it, or tell the user what needs to be allowed."
)


def parse_mode(text: str) -> PermissionMode:
    """Return the mode of that name.

    Raises:
        InvalidInput: If there is none.
    """
    for mode in PERMISSION_MODES:
        if text == mode:
            return mode
    raise InvalidInput(
        f"{text!r} is no permission mode.", hint=f"Known: {', '.join(PERMISSION_MODES)}."
    )


def mode_notice(mode: PermissionMode) -> Notice | None:
    """Return what the user should know about the mode, if anything."""
    if mode == "auto":
        return Notice(
            "warning",
            "permission_mode_auto",
            "Permission mode 'auto' does not decide by itself yet: it asks like 'default'.",
        )
    if mode == "bypassPermissions":
        return Notice(
            "warning",
            "permission_mode_bypass",
            "Permission mode 'bypassPermissions': commands and edits run without a question. "
            "Denying rules and protected files still hold.",
        )
    return None


def resolve_ask(mode: PermissionMode, request: PermissionRequest, roots: Sequence[str]) -> Action:
    """Return what the mode makes of a request that the rules would ask about.

    Args:
        mode: The mode in force.
        request: What is wanted; a protected one is always asked about.
        roots: The session's folders, absolute, real and portable.
    """
    if request.protected:
        return "deny" if mode == "dontAsk" else "ask"
    match mode:
        case "default" | "auto" | "plan":
            return "ask"
        case "acceptEdits":
            inside = all(is_inside(pattern, roots) for pattern in request.patterns)
            return "allow" if request.permission == "edit" and inside else "ask"
        case "dontAsk":
            return "deny"
        case "bypassPermissions":
            return "allow"
        case _:
            assert_never(mode)


def is_inside(path: str, roots: Sequence[str]) -> bool:
    """Return whether a real path is one of the folders or lies below one.

    Compares text only: all must be absolute, resolved and portable (with ``/``).
    """
    plain = os.path.normcase(path)
    if ".." in plain.split(os.sep):  # noqa: PTH206 - text only
        return False
    return any(within(plain, os.path.normcase(root)) for root in roots if root)
