"""The prompts that wait, above the composer."""

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget
from typing_extensions import override

from desktop.bridge.messages import QueuedPrompt, QueueState
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.widgets.base import ElidedLabel, IconButton, PlainLabel, TranslatedWidget, button

SHOWN = 5
"""Prompts that are listed; of more their number is said."""


class QueueBar(TranslatedWidget):
    """Lists queued prompts; hidden when there is none."""

    edit_wanted = Signal(str)
    remove_wanted = Signal(str)
    resume_wanted = Signal()

    def __init__(self, *, icons: Icons, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icons = icons
        self._state = QueueState(session_id="")
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setSpacing(4)
        self.hide()

    def show_queue(self, state: QueueState) -> None:
        """Show what is queued."""
        if state != self._state:
            self._state = state
            self._build()

    @override
    def retranslate(self) -> None:
        """Make the rows again, in the language in force."""
        self._build()

    def _build(self) -> None:
        while (item := self._rows.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        queued = self._state.queued
        for prompt in queued[:SHOWN]:
            self._rows.addWidget(self._row(prompt))
        if len(queued) > SHOWN:
            text = tr("and {count} more", count=len(queued) - SHOWN)
            self._rows.addWidget(PlainLabel(text, kind="muted", parent=self))
        if queued and self._state.paused:
            self._rows.addWidget(self._paused())
        self.setVisible(bool(queued))

    def _row(self, prompt: QueuedPrompt) -> QWidget:
        row = QFrame(self)
        row.setProperty("kind", "queued")
        label = PlainLabel(tr("Queued"), kind="badge", parent=row)
        text = ElidedLabel(parent=row)
        text.set_whole(prompt.text)
        edit = IconButton(icons=self._icons, name="edit", parent=row)
        edit.name_it(tr("Take it back into the box"))
        edit.clicked.connect(lambda: self.edit_wanted.emit(prompt.id))
        remove = IconButton(icons=self._icons, name="close", parent=row)
        remove.name_it(tr("Remove it from the queue"))
        remove.clicked.connect(lambda: self.remove_wanted.emit(prompt.id))
        layout = QHBoxLayout(row)
        layout.setContentsMargins(10, 3, 6, 3)
        layout.setSpacing(6)
        layout.addWidget(label)
        layout.addWidget(text, 1)
        for each in (edit, remove):
            each.setIconSize(QSize(14, 14))
            layout.addWidget(each)
        return row

    def _paused(self) -> QWidget:
        row = QWidget(self)
        resume = button("link", parent=row)
        resume.setText(tr("Go on with the queue"))
        resume.clicked.connect(self.resume_wanted)
        layout = QHBoxLayout(row)
        layout.setContentsMargins(10, 0, 6, 0)
        layout.addWidget(PlainLabel(tr("The queue is paused."), kind="muted", parent=row))
        layout.addWidget(resume)
        layout.addStretch(1)
        return row
