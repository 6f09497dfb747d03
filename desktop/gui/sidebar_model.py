"""The side bar's list as Qt's model: only what changed is repainted."""

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from typing_extensions import override

from desktop.bridge.messages import ProjectInfo, SessionRow, SessionStatusKind
from desktop.gui.i18n import tr
from desktop.gui.sidebar_rows import (
    PAGE,
    EmptyEntry,
    Entry,
    MoreEntry,
    ProjectEntry,
    SessionEntry,
    build,
    difference,
)
from desktop.gui.widgets.plain import plain_tip

ENTRY = Qt.ItemDataRole.UserRole
Index = QModelIndex | QPersistentModelIndex


def status_text(status: SessionStatusKind) -> str:
    """Return what a session's glyph means; empty for an idle one."""
    return {
        "idle": "",
        "running": tr("Running"),
        "retry": tr("Waiting to try again"),
        "waiting": tr("Waits for your answer"),
        "interrupted": tr("Interrupted"),
        "failed": tr("Failed"),
    }[status]


def title_of(row: SessionRow) -> str:
    """Return a session's title, or what stands for it."""
    return " ".join(row.title.split()) or tr("New session")


class SidebarModel(QAbstractListModel):
    """Entries of the side bar; ``ENTRY`` is an entry itself."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: list[Entry] = []
        self._projects: Sequence[ProjectInfo] = ()
        self._sessions: Sequence[SessionRow] = ()
        self._needle = ""
        self._limits: dict[str, int] = {}
        self._held = False

    @override
    def rowCount(self, parent: Index | None = None, /) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._entries)

    @override
    def data(self, index: Index, /, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry = self._entries[index.row()]
        match role:
            case Qt.ItemDataRole.UserRole:
                return entry
            case Qt.ItemDataRole.DisplayRole:
                return _text(entry)
            case Qt.ItemDataRole.EditRole:
                return entry.row.title if isinstance(entry, SessionEntry) else ""
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(_tip(entry))
            case Qt.ItemDataRole.AccessibleTextRole:
                return _spoken(entry)
        return None

    @override
    def flags(self, index: Index, /) -> Qt.ItemFlag:
        entry = self._entries[index.row()] if index.isValid() else None
        match entry:
            case SessionEntry():
                flags = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable
                return Qt.ItemFlag.ItemIsEnabled | flags
            case ProjectEntry() | MoreEntry():
                return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
            case _:
                return Qt.ItemFlag.NoItemFlags

    def entry(self, row: int) -> Entry:
        """Return the entry of a row."""
        return self._entries[row]

    def row_of(self, session_id: str) -> int:
        """Return the row of a session; −1 if it is not listed."""
        key = f"session:{session_id}"
        return next((row for row, entry in enumerate(self._entries) if entry.key == key), -1)

    def working_rows(self) -> list[int]:
        """Return the rows whose glyph moves."""
        return [
            row
            for row, entry in enumerate(self._entries)
            if isinstance(entry, SessionEntry) and entry.row.status in ("running", "retry")
        ]

    def set_data(self, projects: Iterable[ProjectInfo], sessions: Iterable[SessionRow]) -> None:
        """Show these projects and sessions."""
        self._projects, self._sessions = tuple(projects), tuple(sessions)
        self._rebuild()

    def set_needle(self, needle: str) -> None:
        """Show only what has these words."""
        self._needle = needle
        self._rebuild()

    def load_more(self, project_id: str) -> None:
        """List another page of a project's sessions."""
        self._limits[project_id] = self._limits.get(project_id, PAGE) + PAGE
        self._rebuild()

    def hold(self, *, held: bool) -> None:
        """Keep the rows in their places while one is being edited, then catch up."""
        self._held = held
        if not held:
            self._rebuild()

    def _rebuild(self) -> None:
        if self._held:
            return
        new = build(self._projects, self._sessions, needle=self._needle, limits=self._limits)
        change = difference(self._entries, new)
        root = QModelIndex()
        if change.removed:
            self.beginRemoveRows(root, change.at, change.at + change.removed - 1)
            del self._entries[change.at : change.at + change.removed]
            self.endRemoveRows()
        if change.added:
            self.beginInsertRows(root, change.at, change.at + change.added - 1)
            self._entries[change.at : change.at] = new[change.at : change.at + change.added]
            self.endInsertRows()
        for row in change.changed:
            self._entries[row] = new[row]
            self.dataChanged.emit(self.index(row), self.index(row))


def _text(entry: Entry) -> str:
    match entry:
        case ProjectEntry():
            return entry.project.name
        case SessionEntry():
            return title_of(entry.row)
        case MoreEntry():
            return tr("Load more ({count})", count=entry.hidden)
        case EmptyEntry():
            return tr("No sessions yet")


def _tip(entry: Entry) -> str:
    match entry:
        case ProjectEntry():
            missing = tr("This folder cannot be found.")
            return (
                f"{entry.project.path}\n{missing}" if entry.project.missing else entry.project.path
            )
        case SessionEntry():
            lines = (title_of(entry.row), status_text(entry.row.status), entry.row.problem)
            return "\n".join(line for line in lines if line)
        case _:
            return ""


def _spoken(entry: Entry) -> str:
    if not isinstance(entry, SessionEntry):
        return _text(entry)
    parts = [title_of(entry.row), status_text(entry.row.status)]
    if entry.row.unread:
        parts.append(tr("unread"))
    return ", ".join(part for part in parts if part)
