"""The first page: a model, a folder, and off."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget
from typing_extensions import override

from desktop.gui.bridge_like import BridgeLike
from desktop.gui.first_run import Offer, offer
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.mode_text import embedded_text, key_store_text, model_name
from desktop.gui.settings.provider_form import ProviderForm
from desktop.gui.state import ShellState
from desktop.gui.widgets.base import PlainLabel, TranslatedWidget, button


class WelcomePage(TranslatedWidget):
    """Shown while there is no folder; everything in it can be skipped or done later."""

    folder_wanted = Signal()
    trial_wanted = Signal()

    def __init__(
        self,
        *,
        bridge: BridgeLike,
        state: ShellState,
        icons: Icons,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._state = state
        self._icons = icons
        self._title = PlainLabel(kind="title", parent=self)
        self._lead = PlainLabel(kind="muted", wrap=True, parent=self)
        self._model_heading = PlainLabel(kind="heading", parent=self)
        self.model_text = PlainLabel(wrap=True, parent=self)
        self.model_hint = PlainLabel(kind="muted", wrap=True, parent=self)
        self.set_up = button(parent=self)
        self.form = ProviderForm(bridge=bridge, state=state, icons=icons, parent=self)
        self._folder_heading = PlainLabel(kind="heading", parent=self)
        self._folder_text = PlainLabel(kind="muted", wrap=True, parent=self)
        self.open = button("primary", parent=self)
        self.trial = button(parent=self)
        self._model_card = self._card(
            self._model_heading, self.model_text, self.model_hint, self.set_up, self.form
        )
        self._folder_card = self._card(self._folder_heading, self._folder_text)
        self._lay_out()
        self.form.hide()
        self.set_up.clicked.connect(self.open_form)
        self.form.saved.connect(lambda _key: self._close_form())
        self.form.cancelled.connect(self._close_form)
        self.open.clicked.connect(self.folder_wanted)
        self.trial.clicked.connect(self.trial_wanted)
        state.models_changed.connect(self._show)
        icons.theme.changed.connect(self._draw)
        self.retranslate()
        self._draw()

    def open_form(self) -> None:
        """Show the form of a provider."""
        self.form.begin()
        self.form.show()
        self.set_up.hide()
        self.form.key.setFocus()

    @override
    def retranslate(self) -> None:
        self._title.setText(tr("Welcome to ZPI"))
        self._lead.setText(tr("A coding agent on your own machine. It does what you allow."))
        self._model_heading.setText(tr("1. A model"))
        self._folder_heading.setText(tr("2. A folder"))
        self._folder_text.setText(
            tr("ZPI works in the folder of a project. It asks before it changes anything.")
        )
        self.set_up.setText(tr("Set up a provider…"))
        self.open.setText(tr("Open a folder…"))
        self.trial.setText(tr("Try in an empty folder"))
        self._show()

    def _lay_out(self) -> None:
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addWidget(self.open)
        buttons.addWidget(self.trial)
        buttons.addStretch(1)
        folder = self._folder_card.layout()
        if isinstance(folder, QVBoxLayout):
            folder.addLayout(buttons)
        column = QVBoxLayout()
        column.setSpacing(12)
        column.addStretch(2)
        for each in (self._title, self._lead, self._model_card, self._folder_card):
            column.addWidget(each)
        column.addStretch(3)
        holder = QWidget()
        holder.setMaximumWidth(560)
        holder.setLayout(column)
        page = QWidget()
        centred = QHBoxLayout(page)
        centred.setContentsMargins(20, 16, 20, 16)
        centred.addStretch(1)
        centred.addWidget(holder, 1000)
        centred.addStretch(1)
        area = QScrollArea(self)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidgetResizable(True)
        area.setWidget(page)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)

    def _card(self, *widgets: QWidget) -> QFrame:
        card = QFrame(self)
        card.setProperty("kind", "card")
        layout = QVBoxLayout(card)
        layout.setContentsMargins(18, 14, 18, 16)
        layout.setSpacing(8)
        for each in widgets:
            if each is self.set_up:
                layout.addWidget(each, 0, Qt.AlignmentFlag.AlignLeft)
            else:
                layout.addWidget(each)
        return card

    def _close_form(self) -> None:
        self.form.hide()
        self.set_up.show()

    def _show(self) -> None:
        models = self._state.models
        if models is None:
            self.model_text.setText(tr("Loading the models…"))
            self.model_hint.setText("")
            return
        text, hint = offer_text(offer(models), key_store_text(models.key_store))
        self.model_text.setText(text)
        self.model_hint.setText(hint)

    def _draw(self) -> None:
        self.open.setIcon(self._icons.icon("folder", "on_accent"))
        self.open.setIconSize(QSize(16, 16))


def offer_text(found: Offer, key_store: str) -> tuple[str, str]:
    """Return what the page says of the models, and a hint.

    Args:
        found: What there is to begin with.
        key_store: How keys are kept, in words.
    """
    if found.environment:
        names = ", ".join(found.environment)
        return tr("Ready. Environment: a key was found for {names}.", names=names), key_store
    if found.ready:
        return tr("Ready: {model}.", model=model_name(found.ready[0])), key_store
    if found.embedded is not None:
        return tr("Ready: {model}.", model=model_name(found.embedded)), embedded_text()
    return tr("No model is set up yet."), key_store
