"""Keys of the window: one table, which the window obeys and the sheet shows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QDialog, QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from desktop.gui.i18n import tr
from desktop.gui.widgets.base import PlainLabel, button


@dataclass(frozen=True)
class Binding:
    """What keys do.

    Attributes:
        action: Name of what is done.
        keys: The first is shown; the others do the same.
    """

    action: str
    keys: tuple[str, ...]


BINDINGS = (
    Binding("new_session", ("Ctrl+N",)),
    Binding("open_folder", ("Ctrl+O",)),
    Binding("search", ("Ctrl+K", "Ctrl+Shift+F")),
    Binding("next_session", ("Ctrl+Tab",)),
    Binding("previous_session", ("Ctrl+Shift+Tab", "Ctrl+Shift+Backtab")),
    Binding("sidebar", ("Ctrl+B",)),
    Binding("model_menu", ("Ctrl+Shift+I",)),
    Binding("mode_menu", ("Ctrl+Shift+M",)),
    Binding("settings", ("Ctrl+,",)),
    Binding("bigger", ("Ctrl+=", "Ctrl++")),
    Binding("smaller", ("Ctrl+-",)),
    Binding("usual_size", ("Ctrl+0",)),
    Binding("sheet", ("Ctrl+/",)),
    Binding("quit", ("Ctrl+Q",)),
)
"""Escape (stop) and the keys of the composer are handled where the focus is."""


def described() -> list[tuple[str, str]]:
    """Return keys, and what they do, for the sheet."""
    names = {
        "new_session": tr("New session"),
        "open_folder": tr("Open a folder"),
        "search": tr("Search sessions"),
        "next_session": tr("Next session"),
        "previous_session": tr("Previous session"),
        "sidebar": tr("Show or hide the side bar"),
        "model_menu": tr("Choose the model"),
        "mode_menu": tr("Choose the permissions"),
        "settings": tr("Settings"),
        "bigger": tr("Larger text"),
        "smaller": tr("Smaller text"),
        "usual_size": tr("Usual size of text"),
        "sheet": tr("Keyboard shortcuts"),
        "quit": tr("Quit"),
    }
    fixed = [
        ("Return", tr("Send; while a run goes on, queue or steer")),
        ("Ctrl+Return", tr("While a run goes on, the other of the two")),
        ("Shift+Return", tr("New line")),
        ("Up", tr("In the first line: the prompt before")),
        ("Esc", tr("Stop the run")),
        ("F2", tr("Rename the chosen session")),
    ]
    table = [(binding.keys[0], names[binding.action]) for binding in BINDINGS]
    return [(_native(keys), text) for keys, text in (*fixed, *table)]


def install(window: QWidget, actions: Mapping[str, Callable[[], object]]) -> list[QShortcut]:
    """Let a window obey the table.

    Args:
        window: In which the keys are pressed.
        actions: What each action of the table does.

    Raises:
        KeyError: If an action of the table is not given.
    """
    made = []
    for binding in BINDINGS:
        act = actions[binding.action]
        for keys in binding.keys:
            shortcut = QShortcut(QKeySequence(keys), window)
            shortcut.setContext(Qt.ShortcutContext.WindowShortcut)
            shortcut.activated.connect(act)
            made.append(shortcut)
    return made


class ShortcutSheet(QDialog):
    """All keys at a glance."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Keyboard shortcuts"))
        grid = QGridLayout()
        grid.setHorizontalSpacing(24)
        grid.setVerticalSpacing(6)
        for row, (keys, text) in enumerate(described()):
            grid.addWidget(PlainLabel(text, parent=self), row, 0)
            grid.addWidget(PlainLabel(keys, kind="key", parent=self), row, 1)
        close = button("primary", parent=self)
        close.setText(tr("Close"))
        close.clicked.connect(self.accept)
        close.setDefault(True)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(22, 18, 22, 16)
        layout.setSpacing(12)
        layout.addWidget(PlainLabel(tr("Keyboard shortcuts"), kind="heading", parent=self))
        layout.addLayout(grid)
        layout.addLayout(buttons)


def _native(keys: str) -> str:
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
