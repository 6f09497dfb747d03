"""Fields in which Enter submits, but never while an input method composes.

A candidate of an input method is often confirmed with Enter. Most platforms
keep that key to themselves; some deliver it as well, before or just after the
text is committed. Both are swallowed here.
"""

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QInputMethodEvent, QKeyEvent
from PySide6.QtWidgets import QLineEdit, QWidget
from typing_extensions import override

ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class Composition(QObject):
    """Follows what an input method does in one field."""

    def __init__(self, field: QWidget) -> None:
        super().__init__(field)
        self._preedit = ""
        self._committed = False

    @property
    def active(self) -> bool:
        """Whether text is being composed, or was committed in this turn of the event loop."""
        return bool(self._preedit) or self._committed

    def take(self, event: QInputMethodEvent) -> None:
        """Note an event that the field gets."""
        was_composing = bool(self._preedit)
        self._preedit = event.preeditString()
        if was_composing and not self._preedit:
            self._committed = True
            QTimer.singleShot(0, self, self._settle)

    def swallows(self, event: QKeyEvent) -> bool:
        """Return whether a key belongs to the input method and must do nothing here."""
        return self.active and event.key() in ENTER

    def _settle(self) -> None:
        self._committed = False


class SubmitLine(QLineEdit):
    """A line of text that is submitted with Enter; the only kind of field that may be."""

    submitted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.composition = Composition(self)
        self.returnPressed.connect(self._submit)

    @override
    def inputMethodEvent(self, event: QInputMethodEvent, /) -> None:
        self.composition.take(event)
        super().inputMethodEvent(event)

    @override
    def keyPressEvent(self, event: QKeyEvent, /) -> None:
        if self.composition.swallows(event):
            event.accept()
            return
        super().keyPressEvent(event)
        if event.key() in ENTER:
            event.accept()  # a combo box around it would send the key here once more

    def _submit(self) -> None:
        self.submitted.emit(self.text())
