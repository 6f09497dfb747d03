"""All settings: a page in place of the chat, with its parts on tabs."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from desktop.gui.bridge_like import BridgeLike
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.settings.appearance_page import AppearancePage
from desktop.gui.settings.general_page import GeneralPage
from desktop.gui.settings.models_page import ModelsPage
from desktop.gui.state import ShellState
from desktop.gui.widgets.base import IconButton, PlainLabel, TranslatedWidget
from desktop.gui.window_settings import WindowSettings

MODELS, GENERAL, APPEARANCE = range(3)


class SettingsPage(TranslatedWidget):
    """Escape, or its arrow, leads back."""

    closed = Signal()
    failed = Signal(object)

    def __init__(
        self,
        *,
        bridge: BridgeLike,
        state: ShellState,
        icons: Icons,
        settings: WindowSettings,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("settings")
        self.back = IconButton(icons=icons, name="chevron-left", parent=self)
        self._title = PlainLabel(kind="title", parent=self)
        self.tabs = QTabBar(self)
        self.tabs.setExpanding(False)
        self.tabs.setDrawBase(False)
        self.tabs.setUsesScrollButtons(True)
        self.models = ModelsPage(bridge=bridge, state=state, icons=icons)
        self.general = GeneralPage(bridge=bridge, state=state)
        self.appearance = AppearancePage(theme=icons.theme, settings=settings)
        self.pages = QStackedWidget(self)
        for page in (self.models, self.general, self.appearance):
            self.tabs.addTab("")
            self.pages.addWidget(_scrolled(page))
        self._lay_out()
        self.tabs.currentChanged.connect(self.pages.setCurrentIndex)
        self.back.clicked.connect(self.closed)
        self.models.failed.connect(self.failed)
        self.general.failed.connect(self.failed)
        self.retranslate()

    def open_at(self, page: int) -> None:
        """Show one of the pages."""
        self.models.stack.setCurrentIndex(0)
        self.tabs.setCurrentIndex(page)
        self.tabs.setFocus()

    @override
    def retranslate(self) -> None:
        self._title.setText(tr("Settings"))
        self.back.name_it(tr("Back"), "Esc")
        self.tabs.setAccessibleName(tr("Settings"))
        for index, text in enumerate((tr("Models and keys"), tr("General"), tr("Appearance"))):
            self.tabs.setTabText(index, text)

    @override
    def keyPressEvent(self, event: QKeyEvent, /) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.back)
        head.addWidget(self._title, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 14, 4, 8)
        layout.setSpacing(12)
        layout.addLayout(head)
        layout.addWidget(self.tabs)
        layout.addWidget(self.pages, 1)


def _scrolled(page: QWidget) -> QScrollArea:
    area = QScrollArea()
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    holder = QWidget()
    layout = QHBoxLayout(holder)
    layout.setContentsMargins(0, 4, 16, 16)
    page.setMaximumWidth(680)
    layout.addWidget(page, 1000)
    layout.addStretch(1)
    area.setWidget(holder)
    return area
