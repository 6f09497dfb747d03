"""What a scan of folders comes to, and who wins a name. Pure but for real paths."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from agent_sdk.core.errors import ZpiError
from agent_sdk.resources.places import Folder
from agent_sdk.resources.problems import (
    Kind,
    Level,
    Overridden,
    Remark,
    ResourceProblem,
    Source,
    shown,
)


class Named(Protocol):
    """Something that is called by a name and came from a file."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def path(self) -> str:
        """Its file; empty if it ships with ZPI."""
        ...

    @property
    def source(self) -> Source:
        """Whose it is."""
        ...


T = TypeVar("T", bound=Named)


class Found(Struct, Generic[T], frozen=True, kw_only=True):
    """What the folders of one kind hold.

    Attributes:
        items: What can be used, by name.
        overridden: What lost its name.
        problems: What is wrong.
        folders: Folders that were listed; a change in them may change the rest.
    """

    items: tuple[T, ...] = ()
    overridden: tuple[Overridden, ...] = ()
    problems: tuple[ResourceProblem, ...] = ()
    folders: tuple[Path, ...] = ()


def last_wins(kind: Kind, items: Iterable[T]) -> tuple[tuple[T, ...], tuple[Overridden, ...]]:
    """Give each name to the last one that has it.

    Returns:
        The winners by name, and the losers. One file found twice, by a link,
        is no loser.
    """
    winners: dict[str, T] = {}
    beaten: list[T] = []
    for item in items:
        if (loser := winners.get(item.name)) is not None:
            beaten.append(loser)
        winners[item.name] = item
    overridden = tuple(
        Overridden(
            kind=kind,
            name=loser.name,
            path=shown(loser.path),
            source=loser.source,
            by=shown(winners[loser.name].path),
        )
        for loser in beaten
        if not _one_file(loser.path, winners[loser.name].path)
    )
    return tuple(winners[name] for name in sorted(winners)), overridden


def problem(
    kind: Kind, folder: Folder, path: Path, *, about: ZpiError | Remark, level: Level = "error"
) -> ResourceProblem:
    """Return the problem with one path of a folder."""
    text = about.text if isinstance(about, Remark) else about.message
    return ResourceProblem(
        kind=kind, source=folder.source, path=shown(path), text=text, hint=about.hint, level=level
    )


def remarks(
    kind: Kind, folder: Folder, path: Path, *, about: Sequence[Remark]
) -> list[ResourceProblem]:
    """Return the warnings about a file that is used all the same."""
    return [problem(kind, folder, path, about=remark, level="warning") for remark in about]


def _one_file(one: str, other: str) -> bool:
    return bool(one) and os.path.realpath(one) == os.path.realpath(other)
