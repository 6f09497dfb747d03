"""What is in the window when no session is open: one thing to do."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget
from typing_extensions import override

from desktop.gui.i18n import tr
from desktop.gui.widgets.base import PlainLabel, TranslatedWidget, button


class EmptyPage(TranslatedWidget):
    """Offers a new session, or says that everything is being loaded."""

    new_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._loading = False
        self._text = PlainLabel(kind="muted", parent=self)
        self.new = button("primary", parent=self)
        self.new.clicked.connect(self.new_wanted)
        layout = QVBoxLayout(self)
        layout.setSpacing(14)
        layout.addStretch(2)
        layout.addWidget(self._text, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addWidget(self.new, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(3)
        self.retranslate()

    def set_loading(self, *, loading: bool) -> None:
        """Say that things are being loaded, or offer a new session."""
        self._loading = loading
        self.retranslate()

    @override
    def retranslate(self) -> None:
        self._text.setText(tr("Loading…") if self._loading else tr("No session is open."))
        self.new.setText(tr("New session"))
        self.new.setVisible(not self._loading)


class ExamplesBar(TranslatedWidget):
    """Examples of prompts in a session that has none yet."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._heading = PlainLabel(kind="title", parent=self)
        self._where = PlainLabel(kind="muted", parent=self)
        self._folder = ""
        self._heading.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._where.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.examples = [button("example", parent=self) for _ in range(4)]
        layout = QVBoxLayout(self)
        layout.setSpacing(8)
        layout.addStretch(2)
        layout.addWidget(self._heading)
        layout.addWidget(self._where)
        layout.addSpacing(10)
        for each in self.examples:
            layout.addWidget(each, 0, Qt.AlignmentFlag.AlignHCenter)
            each.clicked.connect(lambda _checked, each=each: self.chosen.emit(each.text()))
        layout.addStretch(3)
        self.retranslate()

    def set_folder(self, path: str) -> None:
        """Say which folder the session works in."""
        self._folder = path
        self.retranslate()

    @override
    def retranslate(self) -> None:
        self._heading.setText(tr("What shall we do?"))
        self._where.setText(self._folder)
        texts = (
            tr("Explain what this project does and how it is laid out"),
            tr("Find the riskiest part of this code and tell me why"),
            tr("Write a test for something that has none"),
            tr("Read README.md and say what is missing in it"),
        )
        for each, text in zip(self.examples, texts, strict=True):
            each.setText(text)
