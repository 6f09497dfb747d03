"""The side bar: new session, search, projects with their sessions."""

from collections.abc import Callable

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent, QKeySequence, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemDelegate,
    QAbstractItemView,
    QHBoxLayout,
    QLineEdit,
    QListView,
    QMenu,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from desktop.bridge.messages import ProjectInfo, SessionRow
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.sidebar_delegate import SidebarDelegate
from desktop.gui.sidebar_model import ENTRY, SidebarModel, title_of
from desktop.gui.sidebar_rows import MoreEntry, ProjectEntry, SessionEntry
from desktop.gui.state import WORKING, ShellState
from desktop.gui.widgets.base import IconButton, PlainLabel, TranslatedWidget, button
from desktop.gui.widgets.confirm import confirm, tell
from desktop.gui.widgets.ime import ENTER

_TURN_MS = 80
_TURN = 30


class SessionList(QListView):
    """The list; while something runs, and only then, its glyph turns."""

    chosen = Signal(str)
    rename_wanted = Signal(str, str)
    delete_wanted = Signal(object)
    new_wanted = Signal(str)
    close_wanted = Signal(object)

    def __init__(self, *, icons: Icons, model: SidebarModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model
        self._drawn = SidebarDelegate(icons=icons, parent=self)
        self.setModel(model)
        self.setItemDelegate(self._drawn)
        self.setObjectName("sessions")
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.DoubleClicked
        )
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._menu)
        self.clicked.connect(self._clicked)
        self._drawn.new_wanted.connect(self.new_wanted)
        self._drawn.editing.connect(lambda: model.hold(held=True))
        self._drawn.commitData.connect(self._commit)
        self._drawn.closeEditor.connect(self._edited)
        self._clock = QTimer(self)
        self._clock.setInterval(_TURN_MS)
        self._clock.timeout.connect(self._turn)

    @property
    def turning(self) -> bool:
        """Whether a glyph moves at present."""
        return self._clock.isActive()

    def marked(self) -> str:
        """Return the session whose row is chosen; empty if none."""
        entry = self.currentIndex().data(ENTRY)
        return entry.row.id if isinstance(entry, SessionEntry) else ""

    def mark(self, session_id: str) -> None:
        """Select the row of a session, or none, without opening anything."""
        row = self._model.row_of(session_id)
        index = self._model.index(row) if row >= 0 else QModelIndex()
        self.selectionModel().setCurrentIndex(
            index, QItemSelectionModel.SelectionFlag.ClearAndSelect
        )

    def animate(self) -> None:
        """Start or stop what moves, after rows have changed or the list came into sight."""
        wanted = self.isVisible() and bool(self._model.working_rows())
        if wanted and not self._clock.isActive():
            self._clock.start()
        elif not wanted and self._clock.isActive():
            self._clock.stop()

    @override
    def showEvent(self, event: QShowEvent, /) -> None:
        super().showEvent(event)
        self.animate()

    @override
    def hideEvent(self, event: QHideEvent, /) -> None:
        super().hideEvent(event)
        self.animate()

    @override
    def keyPressEvent(self, event: QKeyEvent, /) -> None:
        entry = self.currentIndex().data(ENTRY)
        editing = self.state() == QAbstractItemView.State.EditingState
        if not editing and event.key() in ENTER:
            self._clicked(self.currentIndex())
        elif not editing and event.key() == Qt.Key.Key_Delete and isinstance(entry, SessionEntry):
            self.delete_wanted.emit(entry.row)
        else:
            super().keyPressEvent(event)

    def menu_for(self, index: QModelIndex) -> QMenu | None:
        """Return the menu of a row; None if it has none."""
        entry = index.data(ENTRY)
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if isinstance(entry, SessionEntry):
            row = entry.row
            _add(menu, tr("Rename"), lambda: self.edit(index))
            _add(menu, tr("Delete…"), lambda: self.delete_wanted.emit(row))
            return menu
        if isinstance(entry, ProjectEntry):
            project = entry.project
            _add(menu, tr("New session"), lambda: self.new_wanted.emit(project.id))
            _add(menu, tr("Remove from the list…"), lambda: self.close_wanted.emit(project))
            return menu
        menu.deleteLater()
        return None

    def _menu(self, where: QPoint) -> None:
        menu = self.menu_for(self.indexAt(where))
        if menu is not None:
            menu.popup(self.viewport().mapToGlobal(where))

    def _clicked(self, index: QModelIndex) -> None:
        match index.data(ENTRY):
            case SessionEntry(row=row):
                self.chosen.emit(row.id)
            case MoreEntry(project_id=project_id):
                self._model.load_more(project_id)

    def _commit(self, editor: QWidget) -> None:
        entry = self.currentIndex().data(ENTRY)
        if isinstance(entry, SessionEntry) and isinstance(editor, QLineEdit):
            title = " ".join(editor.text().split())
            if title and title != entry.row.title:
                self.rename_wanted.emit(entry.row.id, title)

    def _edited(self, _editor: QWidget, _hint: QAbstractItemDelegate.EndEditHint) -> None:
        self._model.hold(held=False)

    def _turn(self) -> None:
        rows = self._model.working_rows()
        if not rows or not self.isVisible():
            self._clock.stop()
            return
        self._drawn.turn = (self._drawn.turn + _TURN) % 360
        for row in rows:
            self.viewport().update(self.visualRect(self._model.index(row)))


class Sidebar(TranslatedWidget):
    """Shows the projects and sessions that the state holds."""

    session_chosen = Signal(str)
    new_wanted = Signal(str)
    """In a project, or anywhere when empty."""
    folder_wanted = Signal()
    settings_wanted = Signal()
    rename_wanted = Signal(str, str)
    delete_wanted = Signal(str)
    close_wanted = Signal(str)

    def __init__(self, *, icons: Icons, state: ShellState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._state = state
        self._current = ""
        self.new = button("ghost", parent=self)
        self.new.setIcon(icons.icon("plus", "text"))
        self.folder = IconButton(icons=icons, name="folder", parent=self)
        self.search = QLineEdit(self)
        self.search.setClearButtonEnabled(True)
        self.search.setObjectName("search")
        self.model = SidebarModel(self)
        self.list = SessionList(icons=icons, model=self.model, parent=self)
        self.nothing = PlainLabel(kind="muted", wrap=True, parent=self)
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
        self.settings = button("ghost", parent=self)
        self.settings.setIcon(icons.icon("settings", "muted"))
        self._icons = icons
        self._lay_out()
        self._connect()
        self.retranslate()
        self._refresh()

    def select(self, session_id: str) -> None:
        """Mark the session that is shown."""
        self._current = session_id
        self.list.mark(session_id)

    def neighbour(self, step: int) -> str:
        """Return the session ``step`` rows below the current one, round the end; empty if none."""
        ids = [
            entry.row.id
            for row in range(self.model.rowCount())
            if isinstance(entry := self.model.entry(row), SessionEntry)
        ]
        if not ids:
            return ""
        if self._current not in ids:
            return ids[0] if step > 0 else ids[-1]
        return ids[(ids.index(self._current) + step) % len(ids)]

    @override
    def retranslate(self) -> None:
        self.new.setText(tr("New session"))
        self.new.setToolTip(_keyed(tr("New session"), "Ctrl+N"))
        self.folder.name_it(tr("Open a folder"), _keys("Ctrl+O"))
        self.search.setPlaceholderText(tr("Search sessions"))
        self.search.setAccessibleName(tr("Search sessions"))
        self.list.setAccessibleName(tr("Sessions"))
        self.settings.setText(tr("Settings"))
        self.settings.setToolTip(_keyed(tr("Settings"), "Ctrl+,"))
        self._say_nothing()

    def _lay_out(self) -> None:
        top = QHBoxLayout()
        top.setSpacing(4)
        top.addWidget(self.new, 1)
        top.addWidget(self.folder)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 10, 0, 8)
        layout.setSpacing(6)
        for part in (top, self.search, self.settings):
            row = QHBoxLayout()
            row.setContentsMargins(10, 0, 10, 0)
            if isinstance(part, QHBoxLayout):
                row.addLayout(part)
            else:
                row.addWidget(part)
            layout.addLayout(row)
        layout.insertWidget(2, self.list, 1)
        layout.insertWidget(3, self.nothing, 1)

    def _connect(self) -> None:
        self.new.clicked.connect(lambda: self.new_wanted.emit(""))
        self.folder.clicked.connect(self.folder_wanted)
        self.settings.clicked.connect(self.settings_wanted)
        self.search.textChanged.connect(self._search)
        self.list.chosen.connect(self.session_chosen)
        self.list.new_wanted.connect(self.new_wanted)
        self.list.rename_wanted.connect(self.rename_wanted)
        self.list.delete_wanted.connect(self.ask_delete)
        self.list.close_wanted.connect(self.ask_close)
        self._state.projects_changed.connect(self._refresh)
        self._state.sessions_changed.connect(self._refresh)
        self._icons.theme.changed.connect(self._redraw)

    def ask_delete(self, row: SessionRow) -> None:
        """Ask whether a session is to be deleted, naming what goes."""
        if row.status in WORKING:
            text = tr("It is running. Stop it first, then delete it.")
            tell(self, title=tr("This session is running"), text=text)
            return
        project = self._state.project(row.project_id)
        text = tr(
            "The transcript of “{title}” and everything kept with it are deleted for good. "
            "Files in {folder} stay as they are.",
            title=title_of(row),
            folder=project.path if project else tr("its folder"),
        )
        confirm(
            self,
            title=tr("Delete this session?"),
            text=text,
            action=tr("Delete"),
            on_yes=lambda: self.delete_wanted.emit(row.id),
            danger=True,
        )

    def ask_close(self, project: ProjectInfo) -> None:
        """Ask whether a project is to leave the list."""
        text = tr(
            "{folder} leaves the list. The folder and its sessions stay on the disk; "
            "open the folder again to see them.",
            folder=project.path,
        )
        confirm(
            self,
            title=tr("Remove this folder from the list?"),
            text=text,
            action=tr("Remove"),
            on_yes=lambda: self.close_wanted.emit(project.id),
        )

    def _search(self, text: str) -> None:
        marked = self.list.marked()
        self.model.set_needle(text)
        self._after_change(marked)

    def _refresh(self) -> None:
        marked = self.list.marked()
        self.model.set_data(self._state.projects or (), self._state.sessions.values())
        self._after_change(marked)

    def _after_change(self, marked: str) -> None:
        """Keep the chosen row chosen where it has moved to."""
        wanted = marked or self._current
        if self.list.marked() != wanted and self.model.row_of(wanted) >= 0:
            self.list.mark(wanted)
        self.list.animate()
        empty = self.model.rowCount() == 0
        self.list.setVisible(not empty)
        self.nothing.setVisible(empty)
        self._say_nothing()

    def _say_nothing(self) -> None:
        if self.search.text():
            self.nothing.setText(tr("No session matches."))
        else:
            self.nothing.setText(tr("Open a folder to begin."))

    def _redraw(self) -> None:
        self.new.setIcon(self._icons.icon("plus", "text"))
        self.settings.setIcon(self._icons.icon("settings", "muted"))
        self.model.layoutChanged.emit()


def _add(menu: QMenu, text: str, act: Callable[[], object]) -> None:
    menu.addAction(text).triggered.connect(lambda _checked: act())


def _keys(keys: str) -> str:
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)


def _keyed(text: str, keys: str) -> str:
    return f"{text} ({_keys(keys)})"
