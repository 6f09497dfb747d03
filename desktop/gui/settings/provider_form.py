"""The form of one provider: address, key, model, a test, and saving. First start and settings use it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from desktop.bridge.messages import ErrorInfo, ModelsState, ProviderView
from desktop.bridge.protocol import Answer, Failed, ProviderTested, SetDefaultModel
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.error_text import error_text
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.mode_text import key_store_text
from desktop.gui.settings.provider_draft import APIS, ProviderDraft, Step, api_name, steps_of
from desktop.gui.state import ShellState
from desktop.gui.widgets.base import PlainLabel, TranslatedWidget, button
from desktop.gui.widgets.ime import SubmitLine


class ProviderForm(TranslatedWidget):
    """Enter in any of its fields tests, as its button does."""

    saved = Signal(str)
    """Key of the model that can be used now."""
    cancelled = Signal()

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
        self._icons = icons
        self._tried = 0
        self._fixed: ProviderView | None = None
        self._listed: tuple[ProviderView, ...] | None = None
        self.preset = QComboBox(self)
        self.name = SubmitLine(self)
        self.api = QComboBox(self)
        self.address = SubmitLine(self)
        self.key = SubmitLine(self)
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.key.setMaxLength(2000)
        self.model = QComboBox(self)
        self.model.setEditable(True)
        self.model.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.model.setLineEdit(SubmitLine(self.model))
        self.model.setCompleter(None)  # type: ignore[arg-type]  # the stubs forbid what Qt allows
        self.kept = PlainLabel(kind="muted", wrap=True, parent=self)
        self.problem = PlainLabel(kind="danger", wrap=True, parent=self)
        self.result = QVBoxLayout()
        self.test = button(parent=self)
        self.save = button("primary", parent=self)
        self.cancel = button("ghost", parent=self)
        self._lay_out()
        self._connect()
        self.retranslate()
        self._models_changed()

    # ---------------------------------------------------------------- actions

    def begin(self, provider: ProviderView | None = None) -> None:
        """Show a provider that is to be changed, or begin with the first preset."""
        self._fixed = provider
        self._listed = None
        self.preset.clear()
        self._models_changed()

    def draft(self) -> ProviderDraft:
        """Return what stands in the form."""
        known = self.chosen()
        return ProviderDraft(
            known=known,
            name=known.name if known else self.name.text().strip(),
            api=known.api if known and not known.custom else str(self.api.currentData()),
            base_url=self.address.text(),
            key=self.key.text(),
            model=self.model.currentText(),
        )

    def chosen(self) -> ProviderView | None:
        """Return the preset or the provider that is shown; None for one of the user's own."""
        name = self.preset.currentData()
        return next((each for each in self._presets() if each.name == name), None)

    @override
    def retranslate(self) -> None:
        for field, text in (
            (self.preset, tr("Provider")),
            (self.name, tr("Name")),
            (self.api, tr("API")),
            (self.address, tr("Address")),
            (self.key, tr("Key")),
            (self.model, tr("Model")),
        ):
            field.setAccessibleName(text)
            label = self._form.labelForField(field)
            if isinstance(label, PlainLabel):
                label.setText(text)
        for index, api in enumerate(APIS):
            self.api.setItemText(index, api_name(api))
        own = self.preset.findData("")
        if own >= 0:
            self.preset.setItemText(own, tr("Another provider…"))
        self.name.setPlaceholderText("my-server")
        self.address.setPlaceholderText("https://…/v1")
        self.save.setText(tr("Save"))
        self.cancel.setText(tr("Cancel"))
        self._say_test()
        self._say_key()

    # ----------------------------------------------------------------- inside

    def _lay_out(self) -> None:
        for api in APIS:
            self.api.addItem(api_name(api), api)
        self._form = QFormLayout()
        self._form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self._form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self._form.setHorizontalSpacing(16)
        self._form.setVerticalSpacing(8)
        for field in (self.preset, self.name, self.api, self.address, self.key, self.model):
            self._form.addRow(PlainLabel(parent=self), field)
        buttons = QHBoxLayout()
        buttons.addWidget(self.test)
        buttons.addStretch(1)
        buttons.addWidget(self.cancel)
        buttons.addWidget(self.save)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(10)
        layout.addLayout(self._form)
        layout.addWidget(self.kept)
        layout.addWidget(self.problem)
        layout.addLayout(self.result)
        layout.addLayout(buttons)
        self.problem.hide()

    def _connect(self) -> None:
        self.preset.currentIndexChanged.connect(self._preset_chosen)
        self.test.clicked.connect(self._test)
        self.save.clicked.connect(self._save)
        self.cancel.clicked.connect(self.cancelled)
        for line in (self.name, self.address, self.key, self.model.lineEdit()):
            if isinstance(line, SubmitLine):
                line.submitted.connect(self._test)
                line.textChanged.connect(self._touched)
        self.api.currentIndexChanged.connect(self._touched)
        self._state.models_changed.connect(self._models_changed)

    def _presets(self) -> list[ProviderView]:
        """Return what can be chosen: all that ask for a key, or the one that is changed."""
        if self._fixed is not None:
            newest = self._state.provider(self._fixed.name)
            return [newest or self._fixed]
        models: ModelsState | None = self._state.models
        known = models.providers if models else ()
        return [each for each in known if each.needs_key and not each.custom]

    def _models_changed(self) -> None:
        presets = tuple(self._presets())
        self._say_key()
        if presets == self._listed:
            return
        chosen = self.preset.currentData() if self._listed else None
        self._listed = presets
        self.preset.blockSignals(True)
        self.preset.clear()
        for each in presets:
            self.preset.addItem(each.name, each.name)
        if self._fixed is None:
            self.preset.addItem(tr("Another provider…"), "")
        at = self.preset.findData(chosen) if chosen is not None else -1
        self.preset.setCurrentIndex(max(0, at))
        self.preset.blockSignals(False)
        self.preset.setEnabled(self._fixed is None)
        if at < 0 or self._fixed is not None:
            self._preset_chosen()

    def _preset_chosen(self) -> None:
        known = self.chosen()
        own = known is None or known.custom
        self._form.setRowVisible(self.name, known is None)
        self._form.setRowVisible(self.api, own)
        self.address.setText(known.base_url if known else "")
        self.key.clear()
        self.model.clear()
        if known is not None:
            self.model.addItems(list(known.models))
        self.api.setCurrentIndex(max(0, self.api.findData(known.api if known else "")))
        self._touched()
        self._say_key()

    def _touched(self) -> None:
        """What a test has found is true only of what was tested."""
        self._tried += 1
        self.problem.hide()
        self._show_steps([])
        self.test.setEnabled(True)
        self._say_test()

    def _say_key(self) -> None:
        known = self.chosen()
        hints = {
            "stored": tr("A key is stored; type another one to replace it."),
            "session": tr("A key is kept until ZPI is closed."),
            "environment": tr("Environment: a key was found there and is used."),
            "keyless": tr("Needs no key"),
        }
        source = known.source if known else "none"
        self.key.setPlaceholderText(hints.get(source, tr("Paste the key here")))
        if known is None:
            self.key.setPlaceholderText(tr("Leave it empty if the server wants none"))
        models = self._state.models
        self.kept.setText(key_store_text(models.key_store) if models else "")

    def _say_test(self) -> None:
        self.test.setText(tr("Test") if self.test.isEnabled() else tr("Testing…"))

    def _ready(self) -> ProviderDraft | None:
        models = self._state.models
        taken = frozenset(each.name for each in models.providers) if models else frozenset()
        draft = self.draft()
        self._complain(draft.problem(taken=taken))
        return None if self.problem.text() else draft

    def _complain(self, text: str) -> None:
        self.problem.setText(text)
        self.problem.setVisible(bool(text))

    def _test(self) -> None:
        draft = self._ready()
        if draft is None or not self.test.isEnabled():
            return
        self._show_steps([])
        self.test.setEnabled(False)
        self._say_test()
        tried = self._tried

        def answered(answer: Answer) -> None:
            if tried != self._tried:
                return
            self.test.setEnabled(True)
            self._say_test()
            match answer:
                case ProviderTested():
                    self._show_steps(steps_of(answer))
                case Failed(error=error):
                    self._fail(error)
                case _:
                    raise TypeError(f"{answer!r} does not answer a test")

        self._bridge.send(draft.test(), answered)

    def _save(self) -> None:
        draft = self._ready()
        if draft is None:
            return
        self.save.setEnabled(False)

        def answered(answer: Answer) -> None:
            self.save.setEnabled(True)
            if isinstance(answer, Failed):
                self._fail(answer.error)
                return
            self.key.clear()
            models = self._state.models
            if models is None or not models.default or not self._usable(models.default):
                self._bridge.send(SetDefaultModel(model=draft.model_key))
            self.saved.emit(draft.model_key)

        self._bridge.send(draft.save(), answered)

    def _usable(self, key: str) -> bool:
        """Return whether a default is worth keeping: ready, and more than the embedded model."""
        model = self._state.model(key)
        return model is not None and model.ready and not model.local

    def _fail(self, error: ErrorInfo) -> None:
        shown = error_text(error)
        self._complain(" ".join(x for x in (shown.title, shown.detail, shown.hint) if x))

    def _show_steps(self, steps: list[Step]) -> None:
        while (item := self.result.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for step in steps:
            self.result.addWidget(self._step(step))

    def _step(self, step: Step) -> QWidget:
        row = QWidget(self)
        icon = PlainLabel(parent=row)
        drawn = ("check", "success") if step.good else ("error", "danger")
        icon.setPixmap(self._icons.icon(*drawn).pixmap(16, 16))
        text = PlainLabel(
            f"{step.text}\n{step.hint}" if step.hint else step.text,
            kind="success" if step.good else "danger",
            wrap=True,
            parent=row,
        )
        layout = QHBoxLayout(row)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(icon, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(text, 1)
        return row
