"""The window's frame: side bar, chat, settings. It puts parts together and hands on; no more."""

from PySide6.QtCore import QDir, QStandardPaths, Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QMainWindow,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from desktop.bridge.messages import ErrorInfo, OpenedSession
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.chat_like import ChatLike
from desktop.gui.empty_page import EmptyPage
from desktop.gui.first_run import page, trial_folder
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.navigator import Navigator
from desktop.gui.session_area import SessionArea
from desktop.gui.settings.settings_page import MODELS, SettingsPage
from desktop.gui.shortcuts import ShortcutSheet, install
from desktop.gui.sidebar import Sidebar
from desktop.gui.sidebar_model import title_of
from desktop.gui.state import ShellState
from desktop.gui.theme import DEFAULT_FONT_SIZE
from desktop.gui.welcome import WelcomePage
from desktop.gui.widgets.confirm import Confirmation, confirm
from desktop.gui.widgets.notices import NoticeBar
from desktop.gui.window_header import WindowHeader
from desktop.gui.window_notices import WindowNotices
from desktop.gui.window_settings import WindowSettings

NARROW = 700
"""Pixels; below, the side bar makes way unless it is asked for."""

SIDEBAR = 264
SIDEBAR_MIN, SIDEBAR_MAX = 200, 420
_FONT_STEP = 1


class MainWindow(QMainWindow):
    """One window.

    Attributes:
        quitting: Signal: the user closes the window, and agreed to stop what runs.
    """

    quitting = Signal()

    def __init__(
        self,
        *,
        bridge: BridgeLike,
        state: ShellState,
        icons: Icons,
        settings: WindowSettings,
        chat: ChatLike,
    ) -> None:
        super().__init__()
        self._state = state
        self._theme = icons.theme
        self._settings = settings
        self._agreed = False
        self._asked: Confirmation | None = None
        self._restored = False
        self._narrow_shown = False
        self.navigator = Navigator(bridge=bridge, state=state, parent=self)
        self.sidebar = Sidebar(icons=icons, state=state)
        self.header = WindowHeader(icons=icons)
        self.notices = NoticeBar(icons=icons)
        self.area = SessionArea(
            bridge=bridge, state=state, icons=icons, settings=settings, chat=chat
        )
        self.empty = EmptyPage()
        self.welcome = WelcomePage(bridge=bridge, state=state, icons=icons)
        self.settings_page = SettingsPage(
            bridge=bridge, state=state, icons=icons, settings=settings
        )
        self.pages = QStackedWidget()
        self.split = QSplitter(Qt.Orientation.Horizontal)
        self.teller = WindowNotices(
            bar=self.notices, bridge=bridge, state=state, show_keys=self.show_keys
        )
        self._lay_out()
        self._connect()
        self._restore_place()
        self._choose_page()
        self._theme.dress()
        self.pages.setFocus()

    # ---------------------------------------------------------------- actions

    def open_folder(self) -> None:
        """Ask for a folder."""
        dialog = QFileDialog(self, tr("Open a folder"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(self.navigator.open_folder)
        dialog.open()

    def try_out(self) -> None:
        """Make an empty folder and begin a session in it."""
        where = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        documents = QDir(where or QDir.homePath())
        path = trial_folder(documents.absolutePath(), frozenset(documents.entryList()))
        if not QDir().mkpath(path):
            text = tr("The folder {folder} cannot be made.", folder=path)
            self.teller.fail(ErrorInfo(code="storage", text=text))
            return
        self.navigator.open_folder(path)

    def show_settings(self, at: int = MODELS) -> None:
        """Show the settings."""
        self.settings_page.open_at(at)
        self.pages.setCurrentWidget(self.settings_page)
        self._show_titles()

    def show_keys(self) -> None:
        """Show the models and keys; where keys are locked, their passphrase can be typed."""
        self.show_settings(MODELS)
        box = self.settings_page.models.passphrase
        if box.step == "locked":
            box.phrase.setFocus()

    def toggle_sidebar(self) -> None:
        """Show or hide the side bar; what is chosen for a wide window is remembered."""
        shown = self.sidebar.isHidden()
        if self.width() < NARROW:
            self._narrow_shown = shown
        else:
            self._settings.sidebar_shown = shown
        self._place_sidebar()

    # ----------------------------------------------------------------- events

    @override
    def closeEvent(self, event: QCloseEvent, /) -> None:
        working = self._state.working()
        if working and not self._agreed:
            event.ignore()
            if self._asked is not None:
                return
            names = "\n".join(f"• {title_of(row)}" for row in working[:5])
            self._asked = confirm(
                self,
                title=tr("Stop what is running and quit?"),
                text=tr("Still at work:") + f"\n{names}",
                action=tr("Stop and quit"),
                on_yes=self._quit,
                danger=True,
            )
            self._asked.finished.connect(self._answered)
            return
        self.area.composer.save()
        self._settings.set_geometry("window", self.saveGeometry())
        self._settings.set_geometry("split", self.split.saveState())
        self._settings.save()
        event.accept()
        self.quitting.emit()

    @override
    def resizeEvent(self, event: QResizeEvent, /) -> None:
        super().resizeEvent(event)
        if event.size().width() >= NARROW:
            self._narrow_shown = False
        self._place_sidebar()

    @override
    def keyPressEvent(self, event: QKeyEvent, /) -> None:
        in_chat = self.pages.currentWidget() is self.area
        if event.key() == Qt.Key.Key_Escape and in_chat and self.area.link.running:
            self.area.link.stop()
        else:
            super().keyPressEvent(event)

    # ----------------------------------------------------------------- inside

    def _lay_out(self) -> None:
        right = QWidget()
        column = QVBoxLayout(right)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.header)
        column.addWidget(self.notices)
        column.addWidget(self.pages, 1)
        for each in (self.empty, self.welcome, self.area, self.settings_page):
            self.pages.addWidget(each)
        self.sidebar.setMinimumWidth(SIDEBAR_MIN)
        self.sidebar.setMaximumWidth(SIDEBAR_MAX)
        self.split.addWidget(self.sidebar)
        self.split.addWidget(right)
        self.split.setChildrenCollapsible(False)
        self.split.setHandleWidth(1)
        self.split.setStretchFactor(1, 1)
        self.split.setSizes([SIDEBAR, 1000])
        self.setCentralWidget(self.split)
        self.setMinimumSize(380, 360)
        self.setWindowTitle("ZPI")

    def _connect(self) -> None:
        go = self.navigator
        bar = self.sidebar
        bar.session_chosen.connect(self._choose)
        bar.new_wanted.connect(go.new)
        bar.rename_wanted.connect(go.rename)
        bar.delete_wanted.connect(go.delete)
        bar.close_wanted.connect(go.close_project)
        bar.settings_wanted.connect(self.show_settings)
        bar.folder_wanted.connect(self.open_folder)
        go.opened.connect(self._opened)
        go.left.connect(self._left)
        go.folder_needed.connect(self.open_folder)
        for source in (go, self.area, self.settings_page):
            source.failed.connect(self.teller.fail)
        self.area.sent.connect(go.sent)
        self.area.setup_wanted.connect(self.show_keys)
        self.header.sidebar_wanted.connect(self.toggle_sidebar)
        self.header.new_wanted.connect(go.new)
        self.empty.new_wanted.connect(go.new)
        self.welcome.folder_wanted.connect(self.open_folder)
        self.welcome.trial_wanted.connect(self.try_out)
        self.settings_page.closed.connect(self._choose_page)
        self._state.projects_changed.connect(self._known)
        self._state.models_changed.connect(self._known)
        self._state.sessions_changed.connect(self._sessions)
        install(
            self,
            {
                "new_session": go.new,
                "open_folder": self.open_folder,
                "search": self._search,
                "next_session": lambda: self._step(1),
                "previous_session": lambda: self._step(-1),
                "sidebar": self.toggle_sidebar,
                "model_menu": self.area.composer.model.showMenu,
                "mode_menu": self.area.composer.mode.showMenu,
                "settings": self.show_settings,
                "bigger": lambda: self._resize_text(self._theme.font_size + _FONT_STEP),
                "smaller": lambda: self._resize_text(self._theme.font_size - _FONT_STEP),
                "usual_size": lambda: self._resize_text(DEFAULT_FONT_SIZE),
                "sheet": lambda: ShortcutSheet(self).open(),
                "quit": self.close,
            },
        )

    def _restore_place(self) -> None:
        self.resize(1180, 800)
        self.restoreGeometry(self._settings.geometry("window"))
        self.split.restoreState(self._settings.geometry("split"))
        self.split.setHandleWidth(1)

    def _place_sidebar(self) -> None:
        narrow = self.width() < NARROW
        shown = self._narrow_shown if narrow else self._settings.sidebar_shown
        self.sidebar.setVisible(shown)
        self.header.new.setVisible(not shown)

    def _choose(self, session_id: str) -> None:
        if self.pages.currentWidget() is self.settings_page:
            self._choose_page()
        self.navigator.open(session_id)
        if self.width() < NARROW:
            self._narrow_shown = False
            self._place_sidebar()

    def _opened(self, opened: OpenedSession, replaces: str) -> None:
        self.area.show_session(opened, replaces=replaces)
        self._settings.last_session = opened.session.id
        self.sidebar.select(opened.session.id)
        self._choose_page()
        self.area.composer.edit.setFocus()

    def _left(self) -> None:
        self.area.clear()
        self.sidebar.select("")
        self._choose_page()

    def _known(self) -> None:
        if self.pages.currentWidget() is not self.settings_page:
            self._choose_page()

    def _sessions(self) -> None:
        self._show_titles()
        if not self._restored:
            self._restored = True
            if self._settings.last_session in self._state.sessions:
                self.navigator.open(self._settings.last_session)

    def _choose_page(self) -> None:
        wanted = page(
            projects=self._state.projects,
            models=self._state.models,
            session_open=self.navigator.current is not None,
        )
        self.empty.set_loading(loading=wanted == "loading")
        shown: QWidget = self.empty
        if wanted == "welcome":
            shown = self.welcome
        elif wanted == "chat":
            shown = self.area
        self.pages.setCurrentWidget(shown)
        self._show_titles()

    def _show_titles(self) -> None:
        opened = self.navigator.current
        if opened is None or self.pages.currentWidget() is not self.area:
            self.header.show_titles("", "")
            return
        row = self._state.sessions.get(opened.session.id, opened.row)
        self.header.show_titles(title_of(row), opened.session.workspace)

    def _step(self, step: int) -> None:
        neighbour = self.sidebar.neighbour(step)
        if neighbour:
            self._choose(neighbour)

    def _search(self) -> None:
        if self.sidebar.isHidden():
            self.toggle_sidebar()
        self.sidebar.search.setFocus()
        self.sidebar.search.selectAll()

    def _resize_text(self, size: int) -> None:
        self._theme.set_font_size(size)
        self._settings.font_size = self._theme.font_size

    def _answered(self, _result: int) -> None:
        self._asked = None

    def _quit(self) -> None:
        self._agreed = True
        self.close()
