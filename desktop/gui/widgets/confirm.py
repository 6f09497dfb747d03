"""Questions to the user that block nothing."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QVBoxLayout, QWidget

from desktop.gui.i18n import tr
from desktop.gui.widgets.base import PlainLabel, button


class Confirmation(QDialog):
    """A question with one way to do it and *Cancel*; without a way it only tells."""

    def __init__(
        self, parent: QWidget, *, title: str, text: str, action: str, danger: bool
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.setMinimumWidth(380)
        self.yes = button("danger" if danger else "primary", parent=self)
        self.yes.setText(action)
        self.yes.clicked.connect(self.accept)
        self.yes.setVisible(bool(action))
        self.no = button(parent=self)
        self.no.setText(tr("Cancel") if action else tr("Close"))
        self.no.clicked.connect(self.reject)
        (self.no if danger or not action else self.yes).setDefault(True)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.no)
        buttons.addWidget(self.yes)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(22, 20, 22, 18)
        layout.setSpacing(10)
        layout.addWidget(PlainLabel(title, kind="heading", wrap=True, parent=self))
        layout.addWidget(PlainLabel(text, wrap=True, parent=self))
        layout.addSpacing(8)
        layout.addLayout(buttons)


def tell(parent: QWidget, *, title: str, text: str) -> Confirmation:
    """Tell something that needs no decision."""
    told = Confirmation(parent.window(), title=title, text=text, action="", danger=False)
    told.open()
    return told


def confirm(
    parent: QWidget,
    *,
    title: str,
    text: str,
    action: str,
    on_yes: Callable[[], None],
    danger: bool = False,
) -> Confirmation:
    """Ask whether to do something; the window stays alive meanwhile.

    Args:
        parent: Whose window is asked.
        title: The question, short.
        text: What will happen, naming what goes.
        action: Text of the button that does it; the other one is *Cancel*.
        on_yes: Called if it is to be done.
        danger: Whether something is lost; then *Cancel* is the default.
    """
    asked = Confirmation(parent.window(), title=title, text=text, action=action, danger=danger)
    asked.accepted.connect(on_yes)
    asked.open()
    return asked
