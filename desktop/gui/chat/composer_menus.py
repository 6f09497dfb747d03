"""The composer's menus: model, reasoning, permission mode."""

from collections.abc import Callable, Iterable
from itertools import groupby

from PySide6.QtCore import Qt
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from desktop.bridge.messages import ModelView
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.mode_text import MODES, mode_meaning, mode_name, model_name, thinking_name
from desktop.gui.widgets.plain import plain_action, plain_tip


class MenuButton(QToolButton):
    """A flat button that opens a menu, made when it is opened."""

    def __init__(
        self, *, icons: Icons, icon: str, fill: Callable[[QMenu], None], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._icons = icons
        self._icon = icon
        self._fill = fill
        self.setProperty("kind", "menu")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._menu = QMenu(self)
        self._menu.setToolTipsVisible(True)
        self._menu.aboutToShow.connect(self._refill)
        self.setMenu(self._menu)
        icons.theme.changed.connect(self._draw)
        self._draw()

    def say(self, text: str, *, tip: str, narrow: bool) -> None:
        """Show a text, or only the icon where it is narrow.

        Args:
            text: What is chosen.
            tip: What is chosen here; read aloud as well.
            narrow: Whether there is no room for the text.
        """
        room = 22 * self.fontMetrics().averageCharWidth()
        shown = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, room)
        style = Qt.ToolButtonStyle
        self.setToolButtonStyle(
            style.ToolButtonIconOnly if narrow else style.ToolButtonTextBesideIcon
        )
        self.setText(plain_action(shown))
        self.setToolTip(plain_tip(f"{tip}\n{text}"))
        self.setAccessibleName(f"{tip}: {text}")

    def entries(self) -> QMenu:
        """Return the menu as it would be opened now."""
        self._refill()
        return self._menu

    def _refill(self) -> None:
        self._menu.clear()
        self._fill(self._menu)

    def _draw(self) -> None:
        self.setIcon(self._icons.icon(self._icon, "muted"))


def fill_models(
    menu: QMenu,
    models: Iterable[ModelView],
    *,
    current: str,
    choose: Callable[[str], None],
) -> None:
    """List models by provider; those that cannot be asked now are shown but not chosen."""
    group = QActionGroup(menu)
    for provider, of_it in groupby(models, key=lambda model: model.provider):
        menu.addSection(plain_action(provider))
        for model in of_it:
            text = plain_action(model_name(model))
            action = menu.addAction(text if model.ready else tr("{model} – no key", model=text))
            action.setCheckable(True)
            action.setChecked(model.key == current)
            action.setEnabled(model.ready)
            group.addAction(action)
            action.triggered.connect(lambda _checked, key=model.key: choose(key))


def fill_thinking(
    menu: QMenu, levels: Iterable[str], *, current: str, choose: Callable[[str], None]
) -> None:
    """List reasoning levels, with none first."""
    group = QActionGroup(menu)
    for level in ("", *levels):
        action = menu.addAction(thinking_name(level))
        action.setCheckable(True)
        action.setChecked(level == current)
        group.addAction(action)
        action.triggered.connect(lambda _checked, level=level: choose(level))


def fill_modes(menu: QMenu, *, current: str, choose: Callable[[str], None]) -> None:
    """List permission modes with what they do."""
    group = QActionGroup(menu)
    for mode in MODES:
        action = menu.addAction(f"{mode_name(mode)} – {mode_meaning(mode)}")
        action.setCheckable(True)
        action.setChecked(mode == current)
        group.addAction(action)
        action.triggered.connect(lambda _checked, mode=mode: choose(mode))
