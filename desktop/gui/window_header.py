"""The line on top of the chat: side bar, title, folder."""

from PySide6.QtCore import QDir, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget
from typing_extensions import override

from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.text import below_home
from desktop.gui.widgets.base import ElidedLabel, IconButton, TranslatedWidget


class WindowHeader(TranslatedWidget):
    """Says what is shown."""

    sidebar_wanted = Signal()
    new_wanted = Signal()

    def __init__(self, *, icons: Icons, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("header")
        self.sidebar = IconButton(icons=icons, name="sidebar", parent=self)
        self.new = IconButton(icons=icons, name="plus", parent=self)
        self.title = ElidedLabel(kind="header", parent=self)
        self.folder = ElidedLabel(kind="muted", elide=Qt.TextElideMode.ElideLeft, parent=self)
        self.folder.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 6, 16, 6)
        layout.setSpacing(6)
        layout.addWidget(self.sidebar)
        layout.addWidget(self.new)
        layout.addSpacing(4)
        layout.addWidget(self.title, 3)
        layout.addWidget(self.folder, 2)
        self.sidebar.clicked.connect(self.sidebar_wanted)
        self.new.clicked.connect(self.new_wanted)
        self.retranslate()

    def show_titles(self, title: str, folder: str) -> None:
        """Show a session's title and folder; both empty if there is none."""
        self.title.set_whole(title)
        self.folder.set_whole(below_home(folder, QDir.homePath()))

    @override
    def retranslate(self) -> None:
        self.sidebar.name_it(tr("Show or hide the side bar"), "Ctrl+B")
        self.new.name_it(tr("New session"), "Ctrl+N")
