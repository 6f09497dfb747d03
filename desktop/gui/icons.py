"""Icons: drawings of this package in the colours of the theme."""

from functools import lru_cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from desktop.gui.theme import Theme

_FOLDER = Path(__file__).with_name("icons")
_RATIOS = (1.0, 2.0)


@lru_cache(maxsize=64)
def drawing(name: str) -> str:
    """Return the SVG text of an icon.

    Raises:
        OSError: If there is no such icon.
    """
    return (_FOLDER / f"{name}.svg").read_text("utf-8")


class Icons:
    """Makes icons once for each colour and size."""

    def __init__(self, *, theme: Theme) -> None:
        self.theme = theme
        self._made: dict[tuple[str, str, str, int], QIcon] = {}

    def icon(self, name: str, colour: str = "muted", *, size: int = 16) -> QIcon:
        """Return an icon.

        Args:
            name: Name of its drawing.
            colour: Colour, as named in ``palette.Tokens``; of a disabled button it is ``disabled``.
            size: Pixels of its side.
        """
        tokens = self.theme.tokens
        drawn_in: str = getattr(tokens, colour)
        key = (name, drawn_in, tokens.disabled, size)
        if key not in self._made:
            icon = QIcon()
            for ratio in _RATIOS:
                icon.addPixmap(_pixmap(name, drawn_in, size=size, ratio=ratio))
                icon.addPixmap(
                    _pixmap(name, tokens.disabled, size=size, ratio=ratio), QIcon.Mode.Disabled
                )
            self._made[key] = icon
        return self._made[key]


def _pixmap(name: str, colour: str, *, size: int, ratio: float) -> QPixmap:
    pixels = round(size * ratio)
    pixmap = QPixmap(QSize(pixels, pixels))
    pixmap.fill(Qt.GlobalColor.transparent)
    text = drawing(name).replace("currentColor", colour)
    renderer = QSvgRenderer(QByteArray(text.encode()))
    painter = QPainter(pixmap)
    renderer.render(painter, QRectF(0, 0, pixels, pixels))
    painter.end()
    pixmap.setDevicePixelRatio(ratio)
    return pixmap
