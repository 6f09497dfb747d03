"""Settings page: what new sessions begin with, and what Enter does while a run goes on."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QFormLayout, QWidget
from typing_extensions import override

from desktop.bridge.protocol import Answer, ChangeSettings, Failed
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.i18n import tr
from desktop.gui.mode_text import MODES, mode_meaning, mode_name, thinking_name
from desktop.gui.state import ShellState
from desktop.gui.widgets.base import PlainLabel, TranslatedWidget

_LEVELS = ("", "minimal", "low", "medium", "high", "xhigh", "max")
_FOLLOW_UP = ("queue", "steer")


class GeneralPage(TranslatedWidget):
    """Changes go to the host at once; what it says is what is shown."""

    failed = Signal(object)

    def __init__(
        self, *, bridge: BridgeLike, state: ShellState, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._state = state
        self.mode = QComboBox(self)
        self.thinking = QComboBox(self)
        self.follow_up = QComboBox(self)
        self._mode_hint = PlainLabel(kind="muted", wrap=True, parent=self)
        self._follow_hint = PlainLabel(kind="muted", wrap=True, parent=self)
        self._scope = PlainLabel(kind="muted", wrap=True, parent=self)
        self._labels = [PlainLabel(parent=self) for _ in range(3)]
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setVerticalSpacing(8)
        form.setHorizontalSpacing(16)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow(self._scope)
        form.addRow(self._labels[0], self.mode)
        form.addRow(self._mode_hint)
        form.addRow(self._labels[1], self.thinking)
        form.addRow(self._labels[2], self.follow_up)
        form.addRow(self._follow_hint)
        self.mode.activated.connect(self._mode_chosen)
        self.thinking.activated.connect(self._thinking_chosen)
        self.follow_up.activated.connect(self._follow_up_chosen)
        state.settings_changed.connect(self._show)
        self.retranslate()

    @override
    def retranslate(self) -> None:
        self._scope.setText(
            tr("Permissions and reasoning are for new sessions; sessions that exist keep theirs.")
        )
        texts = (tr("Permissions"), tr("Reasoning"), tr("Enter while a run goes on"))
        fields = (self.mode, self.thinking, self.follow_up)
        for label, field, text in zip(self._labels, fields, texts, strict=True):
            label.setText(text)
            field.setAccessibleName(text)
        _fill(self.mode, {mode: mode_name(mode) for mode in MODES})
        _fill(self.thinking, {level: thinking_name(level) for level in _LEVELS})
        _fill(self.follow_up, {"queue": tr("Adds to the queue"), "steer": tr("Steers the run")})
        self._show()

    def _show(self) -> None:
        settings = self._state.settings
        for field in (self.mode, self.thinking, self.follow_up):
            field.setEnabled(settings is not None)
        if settings is None:
            return
        _select(self.mode, settings.permission_mode, mode_name(settings.permission_mode))
        _select(self.thinking, settings.thinking, thinking_name(settings.thinking))
        _select(self.follow_up, settings.follow_up, settings.follow_up)
        self._mode_hint.setText(mode_meaning(settings.permission_mode))
        self._follow_hint.setText(
            tr("A queued prompt runs when the run has ended. Ctrl+Enter steers instead.")
            if settings.follow_up == "queue"
            else tr("A steering prompt reaches the model with its next step. Ctrl+Enter queues.")
        )

    def _mode_chosen(self) -> None:
        self._change(permission_mode=str(self.mode.currentData()))

    def _thinking_chosen(self) -> None:
        self._change(thinking=str(self.thinking.currentData()))

    def _follow_up_chosen(self) -> None:
        steer = self.follow_up.currentData() == "steer"
        settings = self._state.settings
        if settings is not None:
            follow_up = "steer" if steer else "queue"
            self._send(
                ChangeSettings(
                    revision=settings.revision,
                    follow_up="steer" if follow_up == "steer" else "queue",
                )
            )

    def _change(self, *, permission_mode: str | None = None, thinking: str | None = None) -> None:
        settings = self._state.settings
        if settings is not None:
            self._send(
                ChangeSettings(
                    revision=settings.revision, permission_mode=permission_mode, thinking=thinking
                )
            )

    def _send(self, command: ChangeSettings) -> None:
        def answered(answer: Answer) -> None:
            if isinstance(answer, Failed):
                self.failed.emit(answer.error)
            self._show()

        self._bridge.send(command, answered)


def _fill(field: QComboBox, choices: dict[str, str]) -> None:
    chosen = field.currentData()
    field.clear()
    for value, text in choices.items():
        field.addItem(text, value)
    field.setCurrentIndex(max(0, field.findData(chosen)))


def _select(field: QComboBox, value: str, text: str) -> None:
    """Show a value, also one that is not among the choices."""
    if field.findData(value) < 0:
        field.addItem(text, value)
    field.setCurrentIndex(field.findData(value))
