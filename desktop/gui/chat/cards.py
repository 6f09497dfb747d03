"""What all cards of the transcript share, and the small ones: lines, folded text, user's words.

A card draws one row. Cards are recycled: ``bind`` gives one another row, and
``arrange`` puts its children in place for a width and returns the height.
Nothing in a card runs by itself, except while its row is still growing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QWidget
from typing_extensions import override

from desktop.gui.chat.durations import duration, elapsed
from desktop.gui.chat.rich_text import RichText
from desktop.gui.chat.rows import (
    FoldedItem,
    LineItem,
    Row,
    SummaryItem,
    UserItem,
    WorkingItem,
    item_of,
)
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.text import soft_split, visible
from desktop.gui.theme import Theme
from desktop.gui.widgets.base import PlainLabel, button

PAD = 12
"""Pixels between the edge of a box and what is in it."""

RADIUS = 8
HEADER = 32
SHOWN_AT_FIRST = 20_000
"""Characters of a long text that are shown before someone asks for all of it."""


@dataclass(frozen=True, kw_only=True)
class CardTools:
    """What cards need from outside.

    Attributes:
        open_link: Opens a web page or mail address that was clicked.
        copy: Puts text on the clipboard.
        go_on: Continues a run that was cut or failed.
        remeasure: Called by a card whose height has changed by itself.
        clock: Seconds, monotonic, as the model's.
    """

    theme: Theme
    icons: Icons
    open_link: Callable[[str], None]
    copy: Callable[[str], None]
    go_on: Callable[[], None]
    remeasure: Callable[[Row], None]
    clock: Callable[[], float]


class Card(QWidget):
    """Base of all cards."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(parent)
        self.tools = tools
        self.row: Row | None = None
        self._bound: object = None
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hide()

    def bind(self, row: Row) -> None:
        """Show a row; nothing is done if it is shown already as it is."""
        state = (row.revision, row.expanded)
        if self.row is row and self._bound == state:
            return
        if self.row is not row:
            self.forget()
        self.row, self._bound = row, state
        self.show_row(row)

    def unbind(self) -> None:
        """Show nothing, and wait for another row."""
        self.forget()
        self.row = self._bound = None
        self.hide()

    def refresh(self) -> None:
        """Make everything again, after the theme or the language has changed."""
        self._bound = None

    def show_row(self, row: Row) -> None:
        """Take over the contents of a row."""
        raise NotImplementedError

    def forget(self) -> None:
        """Drop what belongs to the row that was shown."""

    def arrange(self, width: int) -> int:
        """Put the children in place and return the height in pixels."""
        raise NotImplementedError

    def tick(self) -> None:
        """A second has passed while a run is going on."""

    def toggle(self) -> None:
        """Unfold or fold the row."""
        if self.row is not None:
            self.row.expanded = not self.row.expanded
            self.row.width = 0
            self.tools.remeasure(self.row)

    def colour(self, name: str) -> QColor:
        """Return a colour of the theme."""
        return self.tools.theme.colour(name)

    def box(self, painter: QPainter, rect: QRectF, *, fill: str, line: str = "") -> None:
        """Draw a rounded box."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self.colour(line), 1) if line else Qt.PenStyle.NoPen)
        painter.setBrush(self.colour(fill))
        painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)


class FoldHeader(QAbstractButton):
    """A line that folds and unfolds what is below it; drawn by hand, read aloud as a button.

    Attributes:
        icon_name, icon_tint: What stands at the left, and its colour.
        strong: The first words, in bold.
        weak: What follows, cut where there is no room; ``mono`` if it is code.
        right: Runs of text at the right end with their colours.
    """

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(parent)
        self._tools = tools
        self.icon_name = ""
        self.icon_tint = "muted"
        self.strong = ""
        self.weak = ""
        self.mono = False
        self.right: list[tuple[str, str]] = []
        self.setCheckable(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def say(self) -> None:
        """Take over the attributes, after they were set."""
        words = [self.strong, self.weak, *(text for text, _ in self.right)]
        self.setAccessibleName(" ".join(word for word in words if word))
        self.update()

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        theme = self._tools.theme
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle = self.height() / 2
        if self.hasFocus():
            painter.setPen(QPen(theme.colour("accent"), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 7, 7)
        self._chevron(painter, QPointF(PAD + 5, middle))
        x = PAD + 20
        if self.icon_name:
            self._tools.icons.icon(self.icon_name, self.icon_tint).paint(
                painter, x, round(middle) - 8, 16, 16
            )
            x += 24
        end = self._paint_right(painter, self.width() - PAD)
        if self.strong:
            x = self._words(painter, (x, end), bold=True) + 8
        self._words(painter, (x, end - 8), bold=False)

    def _chevron(self, painter: QPainter, at: QPointF) -> None:
        name = "chevron-down" if self.isChecked() else "chevron-right"
        self._tools.icons.icon(name, "muted").paint(
            painter, round(at.x()) - 7, round(at.y()) - 7, 14, 14
        )

    def _paint_right(self, painter: QPainter, end: int) -> int:
        font = self._tools.theme.font(scale=0.86)
        metrics = QFontMetrics(font)
        painter.setFont(font)
        for text, token in reversed(self.right):
            width = metrics.horizontalAdvance(text)
            painter.setPen(self._tools.theme.colour(token))
            rect = QRectF(end - width, 0, width + 1, self.height())
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, text)
            end -= width + 10
        return end

    def _words(self, painter: QPainter, span: tuple[int, int], *, bold: bool) -> int:
        """Draw the strong or the weak words between two places; return where they end."""
        x, end = span
        text, token = (self.strong, "text") if bold else (self.weak, "muted")
        theme = self._tools.theme
        mono = self.mono and not bold
        font = theme.mono_font(scale=0.9) if mono else theme.font(scale=0.93, bold=bold)
        metrics = QFontMetrics(font)
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, max(0, end - x))
        painter.setFont(font)
        painter.setPen(theme.colour(token))
        rect = QRectF(x, 0, max(0, end - x), self.height())
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, shown)
        return x + metrics.horizontalAdvance(shown)


class BlankCard(Card):
    """A message that is on its way."""

    @override
    def show_row(self, row: Row) -> None:
        self.setAccessibleName(tr("Loading…"))

    @override
    def arrange(self, width: int) -> int:
        return self.row.height - self.row.gap if self.row is not None else 0

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        painter = QPainter(self)
        line = self.tools.theme.font_size
        for at, part in enumerate((0.9, 0.97, 0.6)):
            y = PAD + at * line * 2
            if y + line <= self.height():
                rect = QRectF(0, y, self.width() * part, line * 0.8)
                self.box(painter, rect, fill="raised")


class UserCard(Card):
    """What the user wrote: a box at the right."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(tools, parent)
        self.body = RichText(tools.theme, tools.open_link, self)
        self.more = button("link", parent=self)
        self.more.clicked.connect(self.toggle)
        self._left = 0

    @override
    def show_row(self, row: Row) -> None:
        item = item_of(row, UserItem)
        text = item.text
        cut = len(text) > SHOWN_AT_FIRST and not row.expanded
        self.more.setText(tr("Show all of it ({count} characters)", count=len(text)))
        self.more.setVisible(cut)
        self.body.show_plain(soft_split(visible(text[:SHOWN_AT_FIRST] if cut else text)))
        self.body.markdown_source = lambda: text
        self.setAccessibleName(tr("You: {text}", text=text[:200]))

    @override
    def arrange(self, width: int) -> int:
        most = max(80, min(width - 2 * PAD, round(width * 0.86)) - 2 * PAD)
        inner = min(most, self.body.natural_width(most))
        self._left = width - inner - 2 * PAD
        height = self.body.height_for(inner)
        self.body.setGeometry(self._left + PAD, PAD - 3, inner, height)
        bottom = PAD - 3 + height
        if not self.more.isHidden():
            self.more.setGeometry(self._left + PAD, bottom, inner, HEADER)
            bottom += HEADER
        return bottom + PAD - 3

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        rect = QRectF(self._left, 0, self.width() - self._left, self.height())
        self.box(QPainter(self), rect, fill="raised", line="border")


class FoldedCard(Card):
    """Reasoning and other text that is folded until someone wants it."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(tools, parent)
        self.header = FoldHeader(tools, self)
        self.header.icon_name = "thought"
        self.header.clicked.connect(self.toggle)
        self.body = RichText(tools.theme, tools.open_link, self, tint="muted")
        self._shown = ""

    @override
    def show_row(self, row: Row) -> None:
        item = item_of(row, FoldedItem)
        self.header.blockSignals(True)
        self.header.setChecked(row.expanded)
        self.header.blockSignals(False)
        self.header.icon_name = "thought" if item.what in ("thinking", "reasoning") else "info"
        self.header.strong = ""
        self.header.weak = _folded_title(item)
        self.header.say()
        self.body.setVisible(row.expanded)
        if row.expanded:
            self._show_text(item.text)
            self.body.markdown_source = lambda: item.text

    def _show_text(self, text: str) -> None:
        """Show the text; one that has only grown is added to."""
        if self._shown and text.startswith(self._shown):
            self.body.append_plain(visible(text[len(self._shown) :]))
        else:
            self.body.show_plain(soft_split(visible(text)))
        self._shown = text

    @override
    def forget(self) -> None:
        self._shown = ""

    @override
    def refresh(self) -> None:
        super().refresh()
        self._shown = ""

    @override
    def arrange(self, width: int) -> int:
        self.header.setGeometry(-PAD, 0, width + PAD, HEADER - 4)
        if self.body.isHidden():
            return HEADER - 4
        height = self.body.height_for(width - 20)
        self.body.setGeometry(20, HEADER, width - 20, height)
        return HEADER + height + 4

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        if not self.body.isHidden():
            painter = QPainter(self)
            painter.fillRect(5, HEADER, 2, self.height() - HEADER - 4, self.colour("border"))


def _folded_title(item: FoldedItem) -> str:
    titles = {
        "thinking": tr("Thinking…"),
        "reasoning": tr("Reasoning"),
        "hook": tr("Added by a hook"),
        "context": tr("Context that was added"),
        "compaction": tr("Older history was summarised"),
    }
    return titles[item.what]


class LineCard(Card):
    """One quiet line, with a button if something can be done about it."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(tools, parent)
        self.label = PlainLabel(wrap=True, kind="muted", parent=self)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.action = button(parent=self)
        self.action.clicked.connect(tools.go_on)
        self._icon = ""

    @override
    def show_row(self, row: Row) -> None:
        item = item_of(row, LineItem)
        self.label.setText(line_text(item))
        self._icon = "warning" if item.level == "warning" else ""
        self.action.setText(tr("Continue"))
        self.action.setVisible(item.code == "interrupted")

    @override
    def arrange(self, width: int) -> int:
        left = 24 if self._icon else 0
        size = self.action.sizeHint()
        inner = width - left - (0 if self.action.isHidden() else size.width() + PAD)
        height = max(self.label.heightForWidth(max(inner, 60)), 20)
        total = max(height, 0 if self.action.isHidden() else size.height())
        self.label.setGeometry(left, (total - height) // 2, inner, height)
        self.action.setGeometry(width - size.width(), (total - size.height()) // 2, *size.toTuple())
        return total

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        if self._icon:
            middle = self.label.geometry().top() + min(self.label.height(), 20) // 2
            self.tools.icons.icon(self._icon, "warning").paint(
                QPainter(self), 0, middle - 8, 16, 16
            )


def line_text(item: LineItem) -> str:
    """Return the words of a line."""
    shown = visible(item.text)
    texts = {
        "subagent": tr("Subagent: {title}", title=shown),
        "attached": tr("Attached: {type}", type=shown),
        "encrypted": tr("Reasoning, encrypted by the provider"),
        "limit": tr("The answer was cut: it reached the model's limit."),
        "declined": tr("The model declined to answer."),
        "aborted": tr("Stopped. The answer was cut here."),
        "interrupted": tr("The last run was interrupted."),
        "notice": shown,
    }
    return texts[item.code]


class SummaryCard(Card):
    """What a turn came to, in one line."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(tools, parent)
        self.label = PlainLabel(kind="muted", parent=self)

    @override
    def show_row(self, row: Row) -> None:
        item = item_of(row, SummaryItem)
        self.label.setText(summary_text(item))

    @override
    def arrange(self, width: int) -> int:
        height = self.label.sizeHint().height()
        self.label.setGeometry(0, 0, width, height)
        return height


def summary_text(item: SummaryItem) -> str:
    """Return a summary such as ``1 m 12 s · 4 files +32 −7 · 18 tools``."""
    parts = [duration(item.seconds)] if item.seconds else []
    if item.files:
        files = tr("1 file") if item.files == 1 else tr("{count} files", count=item.files)
        parts.append(f"{files} +{item.additions} −{item.deletions}")
    parts.append(tr("1 tool") if item.tools == 1 else tr("{count} tools", count=item.tools))
    return " · ".join(parts)


class WorkingCard(Card):
    """Says that the run is going on, and for how long."""

    def __init__(self, tools: CardTools, parent: QWidget) -> None:
        super().__init__(tools, parent)
        self.label = PlainLabel(kind="muted", wrap=True, parent=self)

    @override
    def show_row(self, row: Row) -> None:
        self.tick()

    @override
    def tick(self) -> None:
        item = self.row.item if self.row is not None else None
        if isinstance(item, WorkingItem):
            time = elapsed(self.tools.clock() - item.since)
            if item.retry:
                reason = visible(item.retry)
                self.label.setText(tr("Trying again · {time} · {reason}", time=time, reason=reason))
            else:
                self.label.setText(tr("Working · {time}", time=time))

    @override
    def arrange(self, width: int) -> int:
        height = max(20, self.label.heightForWidth(width - 20))
        self.label.setGeometry(20, 0, width - 20, height)
        return height

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.colour("accent"))
        painter.drawEllipse(QPointF(6, 10), 4, 4)
