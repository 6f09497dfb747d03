"""Settings page: models and keys."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from desktop.bridge.messages import ErrorInfo, KeyStoreInfo, ProviderView
from desktop.bridge.protocol import (
    Answer,
    Command,
    Failed,
    RemoveProvider,
    SaveProvider,
    SetDefaultModel,
)
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.first_run import is_embedded
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.mode_text import (
    embedded_text,
    is_key_locked,
    key_store_text,
    model_name,
    source_text,
)
from desktop.gui.settings.passphrase_box import PassphraseBox
from desktop.gui.settings.provider_form import ProviderForm
from desktop.gui.state import ShellState
from desktop.gui.widgets.base import ElidedLabel, PlainLabel, TranslatedWidget, button
from desktop.gui.widgets.confirm import confirm
from desktop.gui.widgets.pages import Pages


class ModelsPage(TranslatedWidget):
    """The default model, the providers with their keys, and the form of one."""

    failed = Signal(object)

    def __init__(
        self,
        *,
        bridge: BridgeLike,
        state: ShellState,
        icons: Icons,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._state = state
        self._heading = PlainLabel(kind="heading", parent=self)
        self._default_label = PlainLabel(parent=self)
        self.default = QComboBox(self)
        self._default_hint = PlainLabel(kind="muted", wrap=True, parent=self)
        self._providers_label = PlainLabel(kind="heading", parent=self)
        self.key_store = PlainLabel(kind="muted", wrap=True, parent=self)
        self.passphrase = PassphraseBox(bridge=bridge, state=state, parent=self)
        self.add = button(parent=self)
        self._rows = QVBoxLayout()
        self._rows.setSpacing(6)
        self.form = ProviderForm(bridge=bridge, state=state, icons=icons, parent=self)
        self._form_heading = PlainLabel(kind="heading", parent=self)
        self.stack = Pages(parent=self)
        self._lay_out()
        self.add.clicked.connect(lambda: self.edit(None))
        self.form.saved.connect(lambda _key: self.stack.setCurrentIndex(0))
        self.form.cancelled.connect(lambda: self.stack.setCurrentIndex(0))
        self.default.activated.connect(self._choose_default)
        state.models_changed.connect(self._show)
        self.retranslate()

    def edit(self, provider: ProviderView | None) -> None:
        """Open the form, for a provider or for a new one."""
        self.form.begin(provider)
        self._form_heading.setText(provider.name if provider else tr("Add a provider"))
        self.stack.setCurrentIndex(1)

    @override
    def retranslate(self) -> None:
        self._heading.setText(tr("Model for new sessions"))
        self._default_label.setText(tr("Model"))
        self.default.setAccessibleName(tr("Model for new sessions"))
        self._providers_label.setText(tr("Providers and keys"))
        self.add.setText(tr("Add a provider…"))
        self._show()

    def _lay_out(self) -> None:
        listed = QWidget(self)
        layout = QVBoxLayout(listed)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        choice = QHBoxLayout()
        choice.addWidget(self._default_label)
        choice.addWidget(self.default, 1)
        layout.addWidget(self._heading)
        layout.addLayout(choice)
        layout.addWidget(self._default_hint)
        layout.addSpacing(14)
        layout.addWidget(self._providers_label)
        layout.addWidget(self.key_store)
        layout.addWidget(self.passphrase)
        layout.addLayout(self._rows)
        layout.addWidget(self.add, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addStretch(1)
        entered = QWidget(self)
        form = QVBoxLayout(entered)
        form.setContentsMargins(0, 0, 0, 0)
        form.setSpacing(12)
        form.addWidget(self._form_heading)
        form.addWidget(self.form)
        form.addStretch(1)
        self.stack.add(listed)
        self.stack.add(entered)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self.stack)

    def _show(self) -> None:
        models = self._state.models
        if models is None:
            self.default.setEnabled(False)
            self.key_store.setText(tr("Loading the models…"))
            return
        self._show_default()
        self.key_store.setText(key_store_text(models.key_store))
        while (item := self._rows.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for provider in models.providers:
            self._rows.addWidget(self._row(provider, models.key_store))

    def _show_default(self) -> None:
        models = self._state.models
        if models is None:
            return
        self.default.clear()
        ready = [each for each in models.models if each.ready]
        for each in ready:
            self.default.addItem(f"{model_name(each)} – {each.provider}", each.key)
        if not models.default and ready:
            self.default.setCurrentIndex(0)
        elif self.default.findData(models.default) < 0 and models.default:
            self.default.addItem(self._unusable(models.default), models.default)
            self.default.setCurrentIndex(self.default.count() - 1)
        else:
            self.default.setCurrentIndex(self.default.findData(models.default))
        self.default.setEnabled(self.default.count() > 0)
        chosen = self._state.model(str(self.default.currentData() or ""))
        if not ready:
            self._default_hint.setText(tr("No model is set up yet."))
        elif chosen is not None and is_embedded(chosen):
            self._default_hint.setText(embedded_text())
        else:
            self._default_hint.setText(tr("Sessions that exist keep their own model."))

    def _unusable(self, model: str) -> str:
        models, found = self._state.models, self._state.model(model)
        own = self._state.provider(found.provider) if found else None
        if models is not None and own is not None and is_key_locked(own, models.key_store):
            return tr("{model} – key locked", model=model)
        return tr("{model} – no key", model=model)

    def _choose_default(self) -> None:
        self._do(SetDefaultModel(model=str(self.default.currentData())))

    def _row(self, provider: ProviderView, store: KeyStoreInfo) -> QWidget:
        row = QFrame(self)
        row.setProperty("kind", "card")
        name = PlainLabel(provider.name, parent=row)
        address = ElidedLabel(kind="muted", parent=row)
        address.set_whole(provider.base_url or tr("On this computer"))
        has_key = provider.source in {"stored", "session", "environment", "keyless"}
        good = has_key and not is_key_locked(provider, store)
        source = PlainLabel(
            source_text(provider, store), kind="badge-good" if good else "badge", parent=row
        )
        texts = QVBoxLayout()
        texts.setSpacing(1)
        texts.addWidget(name)
        texts.addWidget(address)
        layout = QHBoxLayout(row)
        layout.setContentsMargins(12, 7, 8, 7)
        layout.addLayout(texts, 1)
        layout.addWidget(source, 0, Qt.AlignmentFlag.AlignVCenter)
        if provider.needs_key or provider.custom:
            change = button("ghost", parent=row)
            change.setText(tr("Change…") if has_key else tr("Add a key…"))
            change.clicked.connect(lambda: self.edit(provider))
            layout.addWidget(change)
        if provider.custom or provider.source in {"stored", "session"}:
            remove = button("ghost", parent=row)
            remove.setText(tr("Remove…"))
            remove.clicked.connect(lambda: self._ask_remove(provider))
            layout.addWidget(remove)
        return row

    def _ask_remove(self, provider: ProviderView) -> None:
        if provider.custom:
            title = tr("Remove this provider?")
            text = tr("“{name}”, its address and its key are removed.", name=provider.name)
            command: Command = RemoveProvider(name=provider.name)
        else:
            title = tr("Remove this key?")
            text = tr("The key of “{name}” is removed from this computer.", name=provider.name)
            command = SaveProvider(
                name=provider.name,
                api=provider.api,
                base_url=provider.base_url,
                models=provider.models,
                key="",
            )
        confirm(
            self,
            title=title,
            text=text,
            action=tr("Remove"),
            on_yes=lambda: self._do(command),
            danger=True,
        )

    def _do(self, command: Command) -> None:
        def answered(answer: Answer) -> None:
            if isinstance(answer, Failed):
                self._tell(answer.error)

        self._bridge.send(command, answered)

    def _tell(self, error: ErrorInfo) -> None:
        self.failed.emit(error)
        self._show()
