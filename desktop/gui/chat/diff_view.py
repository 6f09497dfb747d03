"""A unified diff with its lines on coloured grounds."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from typing_extensions import override

from desktop.gui.chat.code_view import CodeView

_GROUNDS = {"+": "added", "-": "removed", "@": "hover"}


class DiffView(CodeView):
    """Shows what ``diff_lines`` returns."""

    @override
    def paintEvent(self, event: QPaintEvent, /) -> None:
        painter = QPainter(self.viewport())
        offset = self.contentOffset()
        block = self.firstVisibleBlock()
        bottom = event.rect().bottom()
        while block.isValid():
            place = self.blockBoundingGeometry(block).translated(offset)
            if place.top() > bottom:
                break
            ground = _GROUNDS.get(block.text()[:1])
            if ground is not None:
                line = QRectF(0, place.top(), self.viewport().width(), place.height())
                painter.fillRect(line, self.theme.colour(ground))
            block = block.next()
        painter.end()
        super().paintEvent(event)
