"""How rows of the side bar are drawn and edited."""

from datetime import UTC, datetime

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget
from typing_extensions import override

from desktop.bridge.messages import ProjectInfo, SessionRow
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.sidebar_model import ENTRY, title_of
from desktop.gui.sidebar_rows import EmptyEntry, MoreEntry, ProjectEntry, SessionEntry
from desktop.gui.time_text import ago, parse_time
from desktop.gui.widgets.ime import ENTER, SubmitLine

Index = QModelIndex | QPersistentModelIndex
_GLYPH = 12
_PAD = 10


class SidebarDelegate(QStyledItemDelegate):
    """Draws headings, sessions and *Load more*; edits titles."""

    new_wanted = Signal(str)
    """Someone pressed the plus of a project."""
    editing = Signal()
    """A title is about to be edited; ``closeEditor`` says when that is over."""

    def __init__(self, *, icons: Icons, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._icons = icons
        self._theme = icons.theme
        self.turn = 0
        """Angle of what moves, degrees."""

    @override
    def sizeHint(self, option: QStyleOptionViewItem, index: Index, /) -> QSize:
        line = QFontMetrics(self._theme.font()).height()
        tall = line + 18 if isinstance(index.data(ENTRY), ProjectEntry) else line + 13
        return QSize(80, tall)

    @override
    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index, /) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        entry = index.data(ENTRY)
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        self._ground(painter, rect, state, pressable=not isinstance(entry, EmptyEntry))
        match entry:
            case ProjectEntry():
                self._project(painter, rect, entry.project)
            case SessionEntry():
                self._session(painter, rect, entry.row)
            case MoreEntry() | EmptyEntry():
                text = str(index.data(Qt.ItemDataRole.DisplayRole))
                colour = "accent" if isinstance(entry, MoreEntry) else "muted"
                painter.setPen(self._theme.colour(colour))
                self._line(painter, self._inner(rect).adjusted(22, 0, 0, 0), text)
        painter.restore()

    @override
    def createEditor(
        self, parent: QWidget, option: QStyleOptionViewItem, index: Index, /
    ) -> QWidget:
        self.editing.emit()
        editor = SubmitLine(parent)
        editor.setMaxLength(200)
        editor.setAccessibleName(tr("Title of the session"))
        return editor

    @override
    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, index: Index, /
    ) -> None:
        rect: QRect = option.rect
        editor.setGeometry(rect.adjusted(6, 1, -6, -1))

    @override
    def eventFilter(self, watched: QObject, event: QEvent, /) -> bool:
        if (
            isinstance(watched, SubmitLine)
            and isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and watched.composition.active
            and event.key() in (*ENTER, Qt.Key.Key_Tab, Qt.Key.Key_Escape)
        ):
            return True  # the input method's key, not ours
        return super().eventFilter(watched, event)

    @override
    def editorEvent(
        self,
        event: QEvent,
        model: QAbstractItemModel,
        option: QStyleOptionViewItem,
        index: Index,
        /,
    ) -> bool:
        entry = index.data(ENTRY)
        if (
            isinstance(entry, ProjectEntry)
            and isinstance(event, QMouseEvent)
            and event.type() == QEvent.Type.MouseButtonRelease
            and event.button() == Qt.MouseButton.LeftButton
        ):
            rect: QRect = option.rect
            if plus_rect(rect).contains(event.position().toPoint()):
                self.new_wanted.emit(entry.project.id)
                return True
        return super().editorEvent(event, model, option, index)

    def _inner(self, rect: QRect) -> QRect:
        return rect.adjusted(_PAD + 4, 0, -_PAD - 4, 0)

    def _ground(
        self, painter: QPainter, rect: QRect, state: QStyle.StateFlag, *, pressable: bool
    ) -> None:
        colour = ""
        if state & QStyle.StateFlag.State_Selected:
            colour = "selected"
        elif pressable and state & QStyle.StateFlag.State_MouseOver:
            colour = "hover"
        box = rect.adjusted(6, 1, -6, -1)
        if colour:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._theme.colour(colour))
            painter.drawRoundedRect(box, 6, 6)
        if (
            state & QStyle.StateFlag.State_HasFocus
            and state & QStyle.StateFlag.State_KeyboardFocusChange
        ):
            painter.setPen(QPen(self._theme.colour("accent"), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(box, 6, 6)

    def _project(self, painter: QPainter, rect: QRect, project: ProjectInfo) -> None:
        inner = self._inner(rect)
        inner.setTop(inner.top() + 5)
        icon = self._icons.icon(
            "warning" if project.missing else "folder",
            "warning" if project.missing else "muted",
        )
        icon.paint(painter, QRect(inner.left(), inner.center().y() - 7, 15, 15))
        plus = plus_rect(rect)
        self._icons.icon("plus").paint(painter, plus)
        painter.setFont(self._theme.font(scale=0.93, bold=True))
        text = inner.adjusted(22, 0, 0, 0)
        text.setRight(plus.left() - 6)
        painter.setPen(self._theme.colour("muted"))
        self._line(painter, text, project.name)

    def _session(self, painter: QPainter, rect: QRect, row: SessionRow) -> None:
        inner = self._inner(rect)
        self._glyph(painter, QRect(inner.left() + 1, inner.center().y() - 5, _GLYPH, _GLYPH), row)
        small = self._theme.font(scale=0.86)
        when = parse_time(row.last_used)
        time = ago(when, datetime.now(UTC).astimezone()) if when else ""
        width = QFontMetrics(small).horizontalAdvance(time)
        painter.setFont(small)
        painter.setPen(self._theme.colour("muted"))
        painter.drawText(
            inner, int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter), time
        )
        painter.setFont(self._theme.font(bold=row.unread))
        title = inner.adjusted(22, 0, -width - 8, 0)
        painter.setPen(self._theme.colour("muted" if row.problem else "text"))
        self._line(painter, title, title_of(row))

    def _line(self, painter: QPainter, rect: QRect, text: str) -> None:
        shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
        painter.drawText(
            rect, int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter), shown
        )

    def _glyph(self, painter: QPainter, rect: QRect, row: SessionRow) -> None:
        match row.status:
            case "running":
                self._arc(painter, rect, self._theme.colour("accent"))
            case "retry":
                self._arc(painter, rect, self._theme.colour("warning"))
            case "waiting":
                self._dot(painter, rect, "warning")
            case "failed":
                self._dot(painter, rect, "danger")
            case "interrupted":
                painter.setPen(QPen(self._theme.colour("warning"), 1.6))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawEllipse(rect.center() + QPoint(1, 1), 4, 4)
            case "idle":
                if row.problem:
                    self._icons.icon("warning").paint(painter, rect)
                elif row.unread:
                    self._dot(painter, rect, "unread")

    def _dot(self, painter: QPainter, rect: QRect, colour: str) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.colour(colour))
        painter.drawEllipse(rect.center() + QPoint(1, 1), 4, 4)

    def _arc(self, painter: QPainter, rect: QRect, colour: QColor) -> None:
        faint = QColor(colour)
        faint.setAlpha(60)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(faint, 1.8))
        box = rect.adjusted(1, 1, -1, -1)
        painter.drawEllipse(box)
        painter.setPen(QPen(colour, 1.8, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawArc(box, -self.turn * 16, 100 * 16)


def plus_rect(row: QRect) -> QRect:
    """Return where the plus of a project's heading is."""
    return QRect(row.right() - _PAD - 18, row.center().y() - 5, 15, 15)
