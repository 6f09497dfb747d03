"""Colours, fonts and the style sheet: light, dark, or as the system says.

A ``Theme`` is made once, by ``app``, and handed to the widgets that paint by
themselves or make HTML; all others get their look from the style sheet, where
they are named by object name and by the property ``kind``.
"""

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontInfo, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from desktop.gui.palette import DARK, LIGHT, Tokens

ThemeMode: TypeAlias = Literal["system", "light", "dark"]
THEME_MODES: tuple[ThemeMode, ...] = ("system", "light", "dark")

DEFAULT_FONT_SIZE = 14
MIN_FONT_SIZE = 10
MAX_FONT_SIZE = 24
"""Pixels of ordinary text."""

_CJK = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "PingFang SC",
    "Microsoft YaHei UI",
    "Microsoft YaHei",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
)
_MONO = (
    "JetBrains Mono",
    "SF Mono",
    "Menlo",
    "Cascadia Mono",
    "Consolas",
    "Noto Sans Mono",
    "DejaVu Sans Mono",
    "Liberation Mono",
)
_ARROWS = Path(__file__).with_name("qss")
_SHEET = Path(__file__).with_name("qss") / "window.qss"


def dark_wanted(mode: ThemeMode, scheme: Qt.ColorScheme) -> bool:
    """Return whether the window is dark; an unknown system scheme is light."""
    return mode == "dark" or (mode == "system" and scheme == Qt.ColorScheme.Dark)


def font_families(system: str, installed: frozenset[str], *, mono: bool) -> list[str]:
    """Return the families to ask for, best first, CJK last so that Latin text keeps its font.

    Args:
        system: The system's own family for this purpose.
        installed: All that there are; others would cost a search each time.
        mono: Whether for code.
    """
    first = [name for name in _MONO if name in installed] if mono else []
    wanted = [*first, system, *(name for name in _CJK if name in installed)]
    return list(dict.fromkeys(name for name in wanted if name))


def fill_sheet(template: str, tokens: Tokens, sizes: Mapping[str, int]) -> str:
    """Return the style sheet with its ``@{name}`` places filled.

    Args:
        template: The sheet.
        tokens: Colours.
        sizes: Pixels.

    Raises:
        KeyError: If the sheet names what there is not.
    """
    drawn = "dark" if tokens.dark else "light"
    arrows = {
        name.replace("-", "_"): (_ARROWS / f"{name}-{drawn}.svg").as_posix()
        for name in ("arrow-down", "arrow-up")
    }
    return _Sheet(template).substitute({**tokens.colours(), **sizes, **arrows})


class _Sheet(string.Template):
    delimiter = "@"


class Theme(QObject):
    """The look in force."""

    changed = Signal()
    """After colours or sizes have changed; HTML and pixmaps must be made again."""

    def __init__(
        self, *, app: QApplication, mode: ThemeMode = "system", font_size: int = DEFAULT_FONT_SIZE
    ) -> None:
        super().__init__(app)
        self._app = app
        self._mode: ThemeMode = mode
        self._size = _clamped(font_size)
        installed = frozenset(QFontDatabase.families())
        general = _family(QFontDatabase.SystemFont.GeneralFont)
        fixed = _family(QFontDatabase.SystemFont.FixedFont)
        self._families = font_families(general, installed, mono=False)
        self._mono = font_families(fixed, installed, mono=True)
        self._tokens = self._wanted()
        self._dressed = False
        app.setStyle("Fusion")
        self._apply()
        QTimer.singleShot(0, self, self.dress)
        app.styleHints().colorSchemeChanged.connect(self._system_changed)

    def dress(self) -> None:
        """Apply the style sheet, if it is not yet.

        It comes with the first turn of the event loop at the latest. Widgets
        that are put together before it are styled once, in place of each time
        that one is put into another: half of the time that a window takes.
        """
        if not self._dressed:
            self._dressed = True
            self._apply()

    @property
    def tokens(self) -> Tokens:
        """Colours by purpose."""
        return self._tokens

    @property
    def mode(self) -> ThemeMode:
        """What the user chose."""
        return self._mode

    @property
    def font_size(self) -> int:
        """Pixels of ordinary text."""
        return self._size

    def colour(self, name: str) -> QColor:
        """Return a token as Qt's colour."""
        return QColor(getattr(self._tokens, name))

    def font(self, *, scale: float = 1.0, bold: bool = False) -> QFont:
        """Return the font of text; ``scale`` 1 is ordinary text."""
        return self._font(self._families, scale, bold=bold)

    def mono_font(self, *, scale: float = 0.93) -> QFont:
        """Return the font of code."""
        font = self._font(self._mono, scale, bold=False)
        font.setStyleHint(QFont.StyleHint.Monospace)
        return font

    def mono_families(self) -> list[str]:
        """Return the families of code, for CSS."""
        return list(self._mono)

    def set_mode(self, mode: ThemeMode) -> None:
        """Use light, dark or the system's scheme."""
        self._mode = mode
        self._refresh()

    def set_font_size(self, size: int) -> None:
        """Set ordinary text to ``size`` pixels, within the limits."""
        if _clamped(size) != self._size:
            self._size = _clamped(size)
            self._apply()
            self.changed.emit()

    def _font(self, families: list[str], scale: float, *, bold: bool) -> QFont:
        font = QFont()
        font.setFamilies(families)
        font.setPixelSize(max(1, round(self._size * scale)))
        if bold:
            font.setWeight(QFont.Weight.DemiBold)
        return font

    def _wanted(self) -> Tokens:
        return DARK if dark_wanted(self._mode, self._app.styleHints().colorScheme()) else LIGHT

    def _system_changed(self, _scheme: Qt.ColorScheme) -> None:
        self._refresh()

    def _refresh(self) -> None:
        wanted = self._wanted()
        if wanted is not self._tokens:
            self._tokens = wanted
            self._apply()
            self.changed.emit()

    def _apply(self) -> None:
        self._app.setFont(self.font())
        self._app.setPalette(_palette(self._tokens))
        if not self._dressed:
            return
        sizes = {
            "small": round(self._size * 0.86),
            "normal": self._size,
            "large": round(self._size * 1.2),
            "title": round(self._size * 1.6),
        }
        self._app.setStyleSheet(fill_sheet(_SHEET.read_text("utf-8"), self._tokens, sizes))


def set_kind(widget: QWidget, kind: str) -> None:
    """Say what a widget is, for the style sheet, also after it was polished."""
    widget.setProperty("kind", kind)
    style = widget.style()
    style.unpolish(widget)
    style.polish(widget)


def _family(which: QFontDatabase.SystemFont) -> str:
    """Return the family that the system's name for it stands for: ``Sans Serif`` is none."""
    return QFontInfo(QFontDatabase.systemFont(which)).family()


def _clamped(size: int) -> int:
    return max(MIN_FONT_SIZE, min(MAX_FONT_SIZE, size))


def _palette(tokens: Tokens) -> QPalette:
    palette = QPalette()
    role = QPalette.ColorRole
    for where, colour in (
        (role.Window, tokens.window),
        (role.WindowText, tokens.text),
        (role.Base, tokens.surface),
        (role.AlternateBase, tokens.raised),
        (role.Text, tokens.text),
        (role.PlaceholderText, tokens.muted),
        (role.Button, tokens.raised),
        (role.ButtonText, tokens.text),
        (role.BrightText, tokens.danger),
        (role.ToolTipBase, tokens.raised),
        (role.ToolTipText, tokens.text),
        (role.Highlight, tokens.selection),
        (role.HighlightedText, tokens.text),
        (role.Link, tokens.accent),
        (role.LinkVisited, tokens.accent),
        (role.Light, tokens.surface),
        (role.Midlight, tokens.border),
        (role.Mid, tokens.border),
        (role.Dark, tokens.border_strong),
        (role.Shadow, tokens.border),
        (role.Accent, tokens.accent),
    ):
        palette.setColor(where, QColor(colour))
    for where in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, where, QColor(tokens.disabled))
    return palette
