"""Small widgets that everything else is put together from."""

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QToolButton, QWidget
from typing_extensions import override

from desktop.gui.icons import Icons
from desktop.gui.theme import set_kind
from desktop.gui.widgets.plain import plain_tip


class TranslatedWidget(QWidget):
    """A widget that sets its texts in ``retranslate``, which its constructor calls as well."""

    def retranslate(self) -> None:
        """Set all texts in the language in force."""

    @override
    def changeEvent(self, event: QEvent, /) -> None:
        if event.type() == QEvent.Type.LanguageChange:
            self.retranslate()
        super().changeEvent(event)


class PlainLabel(QLabel):
    """A label that shows text as it is, whatever it looks like."""

    def __init__(
        self, text: str = "", *, kind: str = "", wrap: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(wrap)
        if wrap:
            policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
            policy.setHeightForWidth(True)
            self.setSizePolicy(policy)
        if kind:
            self.setProperty("kind", kind)
        self.setText(text)

    @override
    def minimumSizeHint(self) -> QSize:
        if not self.wordWrap():
            return super().minimumSizeHint()
        return QSize(1, self.fontMetrics().height())  # the rest follows from its width

    def set_kind(self, kind: str) -> None:
        """Change its look."""
        if self.property("kind") != kind:
            set_kind(self, kind)


class ElidedLabel(PlainLabel):
    """One line that has an ellipsis where there is no room for all of it."""

    def __init__(
        self,
        text: str = "",
        *,
        kind: str = "",
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
        parent: QWidget | None = None,
    ) -> None:
        self._whole = text
        self._mode = elide
        super().__init__(text, kind=kind, parent=parent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def set_whole(self, text: str) -> None:
        """Show the text, as much of it as fits; all of it in the tool tip."""
        self._whole = " ".join(text.split())
        self._elide()

    def whole(self) -> str:
        """Return the whole text."""
        return self._whole

    @override
    def resizeEvent(self, event: object, /) -> None:
        self._elide()

    @override
    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def _elide(self) -> None:
        shown = self.fontMetrics().elidedText(
            self._whole, self._mode, max(0, self.contentsRect().width())
        )
        self.setText(shown)
        self.setToolTip(plain_tip(self._whole) if shown != self._whole else "")


class IconButton(QToolButton):
    """A button that is only an icon; its name is the tool tip and is read aloud."""

    def __init__(
        self, *, icons: Icons, name: str, colour: str = "muted", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._icons = icons
        self._name = name
        self._colour = colour
        self.setProperty("kind", "icon")
        self.setAutoRaise(True)
        self.setIconSize(QSize(16, 16))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        icons.theme.changed.connect(self._draw)
        self._draw()

    def name_it(self, text: str, shortcut: str = "") -> None:
        """Say what the button does, and by which keys it can be done."""
        self.setAccessibleName(text)
        self.setToolTip(f"{text} ({shortcut})" if shortcut else text)

    def _draw(self) -> None:
        self.setIcon(self._icons.icon(self._name, self._colour))


def button(kind: str = "", *, parent: QWidget | None = None) -> QPushButton:
    """Return a button of a kind: ``primary``, ``danger``, ``ghost``, ``link`` or ordinary."""
    made = QPushButton(parent)
    if kind:
        made.setProperty("kind", kind)
    made.setAutoDefault(False)
    made.setCursor(Qt.CursorShape.PointingHandCursor)
    return made
