"""What the side bar lists: projects with their sessions, filtered and paged. No Qt."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from desktop.bridge.messages import ProjectInfo, SessionRow

PAGE = 50
"""Sessions of a project that are listed before *Load more*, and by each of it."""


@dataclass(frozen=True)
class ProjectEntry:
    """Heading of a project."""

    project: ProjectInfo

    @property
    def key(self) -> str:
        """What the entry is, whatever it shows."""
        return f"project:{self.project.id}"


@dataclass(frozen=True)
class SessionEntry:
    """A session."""

    row: SessionRow

    @property
    def key(self) -> str:
        """What the entry is, whatever it shows."""
        return f"session:{self.row.id}"


@dataclass(frozen=True)
class MoreEntry:
    """Stands for sessions of a project that are not listed yet."""

    project_id: str
    hidden: int

    @property
    def key(self) -> str:
        """What the entry is, whatever it shows."""
        return f"more:{self.project_id}"


@dataclass(frozen=True)
class EmptyEntry:
    """Says that a project has no session yet."""

    project_id: str

    @property
    def key(self) -> str:
        """What the entry is, whatever it shows."""
        return f"empty:{self.project_id}"


Entry: TypeAlias = ProjectEntry | SessionEntry | MoreEntry | EmptyEntry


def build(
    projects: Sequence[ProjectInfo],
    sessions: Iterable[SessionRow],
    *,
    needle: str = "",
    limits: Mapping[str, int],
) -> list[Entry]:
    """Return the entries, top to bottom.

    Args:
        projects: In their order; sessions of no project are left out.
        sessions: In any order; newest first is shown.
        needle: Words that must all be in the title or the project's name; then
            projects without a hit are left out.
        limits: How many sessions to list, by project; ``PAGE`` for the others.
    """
    by_project: dict[str, list[SessionRow]] = {project.id: [] for project in projects}
    for row in sessions:
        if row.project_id in by_project:
            by_project[row.project_id].append(row)
    words = needle.casefold().split()
    entries: list[Entry] = []
    for project in projects:
        rows = by_project[project.id]
        if words:
            rows = [row for row in rows if _hit(words, row.title, project.name)]
            if not rows:
                continue
        rows.sort(key=lambda row: (row.last_used, row.id), reverse=True)
        entries.append(ProjectEntry(project))
        limit = limits.get(project.id, PAGE)
        entries += [SessionEntry(row) for row in rows[:limit]]
        if len(rows) > limit:
            entries.append(MoreEntry(project.id, len(rows) - limit))
        elif not rows:
            entries.append(EmptyEntry(project.id))
    return entries


def _hit(words: list[str], *texts: str) -> bool:
    whole = "\n".join(texts).casefold()
    return all(word in whole for word in words)


@dataclass(frozen=True)
class Change:
    """How one list becomes another: ``removed`` rows at ``at`` make way for ``added``.

    Attributes:
        at: First row that differs in key.
        removed: How many rows of the old list go.
        added: How many rows of the new list come.
        changed: Rows, by their new place, that stay but show something else.
    """

    at: int
    removed: int
    added: int
    changed: tuple[int, ...]


def difference(old: Sequence[Entry], new: Sequence[Entry]) -> Change:
    """Return the smallest single block that differs, and what else changed in place."""
    shortest = min(len(old), len(new))
    head = 0
    while head < shortest and old[head].key == new[head].key:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail].key == new[-1 - tail].key:
        tail += 1
    changed = [row for row in range(head) if old[row] != new[row]]
    changed += [
        len(new) - 1 - back for back in reversed(range(tail)) if old[-1 - back] != new[-1 - back]
    ]
    return Change(head, len(old) - head - tail, len(new) - head - tail, tuple(changed))
