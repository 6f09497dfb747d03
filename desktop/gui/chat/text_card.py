"""Cards of the model's words: prose, and blocks of code with their own copy button."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget
from typing_extensions import override

from desktop.gui.chat.cards import HEADER, PAD, Card, CardTools
from desktop.gui.chat.code_highlight import language
from desktop.gui.chat.code_view import CodeView
from desktop.gui.chat.markdown import Blocks
from desktop.gui.chat.rich_text import RichText
from desktop.gui.chat.rows import Row, item_of
from desktop.gui.chat.segments import Segment
from desktop.gui.i18n import tr
from desktop.gui.text import soft_split, visible
from desktop.gui.widgets.base import IconButton, PlainLabel


class ProseCard(Card):
    """A segment of prose."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(tools, parent)
        self.body = RichText(tools.theme, tools.open_link, self)
        self.blocks = Blocks()

    @override
    def show_row(self, row: Row) -> None:
        segment = item_of(row, Segment)
        if row.owner is not None:
            self.body.markdown_source = row.owner.markdown
        self.body.show_html(self.blocks.html(segment.text, closed=segment.closed))

    @override
    def forget(self) -> None:
        self.blocks = Blocks()

    @override
    def refresh(self) -> None:
        super().refresh()
        self.body.restyle()

    @override
    def arrange(self, width: int) -> int:
        height = self.body.height_for(width)
        self.body.setGeometry(0, 0, width, height)
        return height


class CodeCard(Card):
    """A fenced block of code."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(tools, parent)
        self.label = PlainLabel(kind="muted", parent=self)
        self.copy_button = IconButton(icons=tools.icons, name="copy", parent=self)
        self.copy_button.clicked.connect(self._copy)
        self.view = CodeView(tools.theme, self)
        self._shown = ""
        self._coloured = False

    @override
    def show_row(self, row: Row) -> None:
        segment = item_of(row, Segment)
        self.copy_button.name_it(tr("Copy code"))
        self.label.setText(visible(language(segment.info), exact=True)[:40] or tr("code"))
        text = soft_split(visible(segment.text))
        text = text.removesuffix("\n")
        if self._shown and text.startswith(self._shown):
            self.view.add_code(text[len(self._shown) :])
        elif text != self._shown:
            self.view.set_code(text)
            self._coloured = False
        self._shown = text
        if segment.closed and not self._coloured:
            self._coloured = True
            self.view.colour(text, segment.info)

    @override
    def forget(self) -> None:
        self._shown = ""
        self._coloured = False
        self.view.set_code("")

    @override
    def refresh(self) -> None:
        super().refresh()
        self.view.restyle()
        self.forget()

    @override
    def arrange(self, width: int) -> int:
        head = HEADER - 2
        self.label.setGeometry(PAD, 0, width - 2 * PAD - 28, head)
        self.copy_button.setGeometry(width - 28 - 4, 2, 28, head - 4)
        height = self.view.natural_height(width - 2 * PAD)
        self.view.setGeometry(PAD, head, width - 2 * PAD, height)
        return head + height + PAD - 2

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        self.box(QPainter(self), QRectF(self.rect()), fill="code", line="border")

    def _copy(self) -> None:
        segment = self.row.item if self.row is not None else None
        if isinstance(segment, Segment):
            self.tools.copy(segment.source.removesuffix("\n"))
