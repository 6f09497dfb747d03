"""The card of a call: one line, and unfolded what it did."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget
from typing_extensions import override

from agent_sdk.events.wire import ToolCompleted, ToolFailed
from desktop.gui.chat.cards import HEADER, PAD, Card, CardTools, FoldHeader
from desktop.gui.chat.code_highlight import language_of_path
from desktop.gui.chat.code_view import CodeView
from desktop.gui.chat.diff_view import DiffView
from desktop.gui.chat.durations import duration, elapsed
from desktop.gui.chat.file_changes import file_changes
from desktop.gui.chat.rows import Row, ToolItem, item_of
from desktop.gui.chat.tool_text import (
    Look,
    Section,
    argument_of,
    look_of,
    sections_of,
)
from desktop.gui.i18n import tr
from desktop.gui.text import visible
from desktop.gui.widgets.base import button

_ICONS: dict[Look, tuple[str, str]] = {
    "pending": ("more", "muted"),
    "waiting": ("shield", "warning"),
    "running": ("play", "accent"),
    "done": ("check", "success"),
    "failed": ("error", "danger"),
    "denied": ("shield", "warning"),
    "cut": ("warning", "warning"),
}


class SectionView(QWidget):
    """One piece of what a call did, cut to some lines until someone wants all."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(parent)
        self._tools = tools
        self.code = CodeView(tools.theme, self)
        self.diff = DiffView(tools.theme, self)
        self.more: QPushButton = button("link", parent=self)
        self.view: CodeView = self.code
        self.section: Section | None = None
        self._shown = ""
        self._left = 0

    def show_section(self, section: Section, *, whole: bool) -> None:
        """Show a section; text that has only grown is added."""
        self.view = self.diff if section.kind == "diff" else self.code
        self.code.setVisible(section.kind != "diff")
        self.diff.setVisible(section.kind == "diff")
        text, self._left = section.shown(whole=whole)
        if self._shown and text.startswith(self._shown) and self.section is not None:
            self.view.add_code(text[len(self._shown) :])
        elif text != self._shown or self.section is None or self.section.kind != section.kind:
            self.view.set_code(text)
            if section.language:
                self.view.colour(text, section.language)
        self._shown = text
        self.section = section
        self.view.tint("danger" if section.kind == "error" else "text")
        self.more.setVisible(self._left > 0)
        if self._left > 0:
            words = tr("Show {count} more lines", count=self._left)
            self.more.setText(words)

    def forget(self) -> None:
        """Drop the text."""
        self._shown = ""
        self.section = None
        self.code.set_code("")
        self.diff.set_code("")

    def restyle(self) -> None:
        """Follow the theme."""
        self.code.restyle()
        self.diff.restyle()
        self.forget()

    def arrange(self, width: int) -> int:
        """Put the parts in place and return the height."""
        y = 8
        tail = self.section is not None and self.section.tail
        if self._left and tail:
            self.more.setGeometry(PAD - 4, y - 4, self.more.sizeHint().width(), 24)
            y += 22
        height = self.view.natural_height(width - 2 * PAD)
        self.view.setGeometry(PAD, y, width - 2 * PAD, height)
        y += height
        if self._left and not tail:
            self.more.setGeometry(PAD - 4, y, self.more.sizeHint().width(), 24)
            y += 24
        return y + 8

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._tools.theme.colour("code"))
        painter.fillRect(0, 0, self.width(), 1, self._tools.theme.colour("border"))


class ToolCard(Card):
    """A call of a tool."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(tools, parent)
        self.header = FoldHeader(tools, self)
        self.header.mono = True
        self.header.clicked.connect(self.toggle)
        self.sections: list[SectionView] = []
        self._whole = False

    @property
    def item(self) -> ToolItem | None:
        """The call that is shown."""
        item = self.row.item if self.row is not None else None
        return item if isinstance(item, ToolItem) else None

    @override
    def show_row(self, row: Row) -> None:
        item = item_of(row, ToolItem)
        self.header.blockSignals(True)
        self.header.setChecked(row.expanded)
        self.header.blockSignals(False)
        look = look_of(item)
        self.header.icon_name, self.header.icon_tint = _ICONS[look]
        self.header.strong = visible(item.part.tool, exact=True)[:60]
        self.header.weak = argument_of(item.part)
        self.header.right = self._right(item, look)
        self.header.say()
        self._show_sections(sections_of(item) if row.expanded else [])

    def _right(self, item: ToolItem, look: Look) -> list[tuple[str, str]]:
        runs: list[tuple[str, str]] = []
        changes = file_changes(item.part)
        if changes:
            runs.append((f"+{sum(change.additions for change in changes)}", "added_text"))
            runs.append((f"−{sum(change.deletions for change in changes)}", "removed_text"))
        state = item.part.state
        words = {
            "waiting": tr("waits for your answer"),
            "denied": tr("not allowed"),
            "cut": tr("interrupted"),
            "pending": tr("pending"),
        }
        if look in words:
            runs.append((words[look], "muted"))
        elif look == "failed" and isinstance(state, ToolFailed) and not state.ran:
            runs.append((tr("not run"), "muted"))
        elif isinstance(state, ToolCompleted | ToolFailed):
            if state.seconds >= 0.1:
                runs.append((duration(state.seconds), "muted"))
        elif item.since:
            runs.append((elapsed(self.tools.clock() - item.since), "muted"))
        return runs

    def _show_sections(self, wanted: list[Section]) -> None:
        while len(self.sections) < len(wanted):
            view = SectionView(self.tools, self)
            view.more.clicked.connect(self._show_whole)
            self.sections.append(view)
        for at, view in enumerate(self.sections):
            if at < len(wanted):
                view.show_section(self._with_language(wanted[at]), whole=self._whole)
            elif view.section is not None:
                view.forget()
            view.setVisible(at < len(wanted))

    def _with_language(self, section: Section) -> Section:
        item = self.item
        if section.kind != "code" or section.language or item is None or item.part.tool != "read":
            return section
        found = language_of_path(str(item.part.state.input.get("file_path", "")))
        return Section(section.kind, section.text, found, section.tail)

    def _show_whole(self) -> None:
        self._whole = True
        if self.row is not None:
            self._bound = None
            self.row.width = 0
            self.tools.remeasure(self.row)

    @override
    def forget(self) -> None:
        self._whole = False
        for view in self.sections:
            view.forget()

    @override
    def refresh(self) -> None:
        super().refresh()
        for view in self.sections:
            view.restyle()

    @override
    def tick(self) -> None:
        item = self.item
        if item is not None and look_of(item) == "running":
            self.header.right = self._right(item, "running")
            self.header.update()

    @override
    def arrange(self, width: int) -> int:
        self.header.setGeometry(0, 0, width, HEADER + 2)
        y = HEADER + 2
        for view in self.sections:
            if not view.isHidden():
                height = view.arrange(width - 2)
                view.setGeometry(1, y, width - 2, height)
                y += height
        return y + (4 if y > HEADER + 2 else 0)

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        item = self.item
        line = "border"
        if item is not None and look_of(item) == "waiting":
            line = "warning"
        self.box(QPainter(self), QRectF(self.rect()), fill="surface", line=line)
