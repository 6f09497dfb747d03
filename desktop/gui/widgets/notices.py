"""Banners below the head of the window: what the user must know and can put away."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget
from typing_extensions import override

from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.widgets.base import IconButton, PlainLabel, TranslatedWidget, button

Level: TypeAlias = Literal["info", "warning", "error"]
MAX_SHOWN = 3


@dataclass(frozen=True)
class Note:
    """One banner.

    Attributes:
        key: What it is about; a new one of the same key takes its place.
        level: How bad it is.
        text: What happened.
        hint: What can be done about it; may be empty.
        sticky: Whether it goes only when what it tells of is over.
        action: Text of a button; empty for none.
        act: What the button does.
    """

    key: str
    level: Level
    text: str
    hint: str = ""
    sticky: bool = False
    action: str = ""
    act: Callable[[], None] | None = None


class NoticeList:
    """The notes that are not put away yet, newest first. Pure."""

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}

    def put(self, note: Note) -> None:
        """Add a note in front, in place of one of the same key."""
        self._notes.pop(note.key, None)
        self._notes[note.key] = note

    def drop(self, key: str) -> None:
        """Put a note away."""
        self._notes.pop(key, None)

    def all(self) -> list[Note]:
        """Return all notes, newest first."""
        return list(reversed(self._notes.values()))


class NoticeBar(TranslatedWidget):
    """Shows the newest notes; takes no room when there is none."""

    def __init__(self, *, icons: Icons, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icons = icons
        self.notes = NoticeList()
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(12, 8, 12, 0)
        self._rows.setSpacing(6)
        self.hide()

    def tell(self, note: Note) -> None:
        """Show a note."""
        self.notes.put(note)
        self._build()

    def drop(self, key: str) -> None:
        """Put a note away."""
        self.notes.drop(key)
        self._build()

    @override
    def retranslate(self) -> None:
        self._build()

    def _build(self) -> None:
        while (item := self._rows.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        notes = self.notes.all()
        for note in notes[:MAX_SHOWN]:
            self._rows.addWidget(self._banner(note))
        if len(notes) > MAX_SHOWN:
            text = tr("and {count} more", count=len(notes) - MAX_SHOWN)
            self._rows.addWidget(PlainLabel(text, kind="muted", parent=self))
        self.setVisible(bool(notes))

    def _banner(self, note: Note) -> QWidget:
        frame = QFrame(self)
        frame.setProperty("kind", f"notice-{note.level}")
        names = {
            "info": ("info", "accent"),
            "warning": ("warning", "warning"),
            "error": ("error", "danger"),
        }
        icon = PlainLabel(parent=frame)
        icon.setPixmap(self._icons.icon(*names[note.level]).pixmap(16, 16))
        texts = QVBoxLayout()
        texts.setSpacing(2)
        for text in (note.text, note.hint):
            if text:
                label = PlainLabel(text, wrap=True, parent=frame)
                label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
                texts.addWidget(label)
        layout = QHBoxLayout(frame)
        layout.setContentsMargins(12, 8, 8, 8)
        layout.setSpacing(10)
        layout.addWidget(icon, 0, Qt.AlignmentFlag.AlignTop)
        layout.addLayout(texts, 1)
        if note.action and note.act is not None:
            act = button("link", parent=frame)
            act.setText(note.action)
            act.clicked.connect(note.act)
            layout.addWidget(act, 0, Qt.AlignmentFlag.AlignTop)
        if not note.sticky:
            close = IconButton(icons=self._icons, name="close", parent=frame)
            close.name_it(tr("Put away"))
            close.clicked.connect(lambda: self.drop(note.key))
            layout.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)
        return frame
