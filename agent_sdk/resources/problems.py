"""What is wrong with a file or folder of the user's or the project's, and what to do.

A resource that cannot be used never stops a session: it is left out and
listed, so that somebody can see it.
"""

import os
from typing import Literal, TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import ZpiError

Source: TypeAlias = Literal["builtin", "user", "project"]
"""Whose a resource is; extra folders count as the user's."""

Kind: TypeAlias = Literal["instructions", "skill", "command", "agent", "source"]
Level: TypeAlias = Literal["error", "warning"]


class ResourceProblem(Struct, frozen=True, kw_only=True):
    """One thing to put right.

    Attributes:
        kind: What it would be, or ``source`` for a whole source.
        source: Whose it is.
        path: The file or folder, as text that can be shown.
        text: What is wrong, a sentence.
        hint: What to do about it, a sentence.
        level: ``error`` if the resource is left out, ``warning`` if it is
            used all the same.
    """

    kind: Kind
    source: Source
    path: str
    text: str
    hint: str
    level: Level = "error"


class Overridden(Struct, frozen=True, kw_only=True):
    """A resource that lost its name to a later one.

    Attributes:
        kind: What both are.
        name: Their name.
        path: The file that lost; empty for one that ships with ZPI.
        source: Whose it is.
        by: The file that won.
    """

    kind: Kind
    name: str
    path: str
    source: Source
    by: str


class Remark(Struct, frozen=True):
    """Something about a file that is used all the same: what, and what to do."""

    text: str
    hint: str


class Unusable(ZpiError):
    """A file or folder cannot be used as a resource; becomes a ``ResourceProblem``."""

    code = "resource_unusable"


def shown(path: str | os.PathLike[str]) -> str:
    """Return a path as text, whatever bytes its name consists of."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
