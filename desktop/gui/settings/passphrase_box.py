"""Below the text on how keys are kept: protecting them with a passphrase, where there is no key ring."""

from typing import Literal, TypeAlias

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFormLayout, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget
from typing_extensions import override

from desktop.bridge.messages import ErrorInfo, KeyStoreInfo
from desktop.bridge.protocol import (
    LEAST_PASSPHRASE,
    MOST_PASSPHRASE,
    Answer,
    ChangePassphrase,
    Command,
    Failed,
    ForgetPassphrase,
    SetPassphrase,
    UnlockKeys,
)
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.error_text import error_text
from desktop.gui.i18n import tr
from desktop.gui.state import ShellState
from desktop.gui.widgets.base import PlainLabel, TranslatedWidget, button
from desktop.gui.widgets.confirm import confirm
from desktop.gui.widgets.ime import SubmitLine

Step: TypeAlias = Literal["none", "offer", "set", "locked", "open", "change"]


def step_of(info: KeyStoreInfo | None, *, editing: bool) -> Step:
    """Return what the box is for now.

    Args:
        info: How keys are kept; None while that is not known.
        editing: Whether the user has asked to set or change the passphrase.
    """
    if info is None:
        return "none"
    match info.mode:
        case "session":
            return "set" if editing else "offer"
        case "passphrase":
            return "change" if editing else "open"
        case _:
            return "locked" if info.wants_passphrase else "none"


class PassphraseBox(TranslatedWidget):
    """Sets, enters, changes and forgets the passphrase; Enter in its fields is its main button."""

    def __init__(
        self, *, bridge: BridgeLike, state: ShellState, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._state = state
        self._editing = False
        self._busy = False
        self.step: Step = "none"
        self.begin = button(parent=self)
        self.change = button(parent=self)
        self.forget = button("ghost", parent=self)
        self.current = self._line()
        self.phrase = self._line()
        self.again = self._line()
        self.why = PlainLabel(kind="muted", wrap=True, parent=self)
        self.length = PlainLabel(kind="muted", parent=self)
        self.problem = PlainLabel(kind="danger", wrap=True, parent=self)
        self.done = PlainLabel(kind="success", wrap=True, parent=self)
        self.cancel = button("ghost", parent=self)
        self.submit = button("primary", parent=self)
        self._lay_out()
        self.begin.clicked.connect(self._edit)
        self.change.clicked.connect(self._edit)
        self.cancel.clicked.connect(self._leave)
        self.forget.clicked.connect(self._ask_forget)
        self.submit.clicked.connect(self._submit)
        self.phrase.textChanged.connect(self._say_length)
        state.models_changed.connect(self._show)
        self.retranslate()

    @override
    def retranslate(self) -> None:
        self.begin.setText(tr("Protect keys with a passphrase…"))
        self.change.setText(tr("Change the passphrase…"))
        self.forget.setText(tr("Forget the passphrase…"))
        self.cancel.setText(tr("Cancel"))
        self.why.setText(
            tr(
                "Keys are then stored encrypted, and ZPI asks for the passphrase each time it "
                "starts. Nobody can recover it: without it, keys must be entered again."
            )
        )
        self._show()

    # ----------------------------------------------------------------- inside

    def _line(self) -> SubmitLine:
        line = SubmitLine(self)
        line.setEchoMode(QLineEdit.EchoMode.Password)
        line.setMaxLength(MOST_PASSPHRASE + 1)  # so that a longer one is refused, not cut
        line.submitted.connect(self._submit)
        line.textEdited.connect(self._touched)
        return line

    def _lay_out(self) -> None:
        self._form = QFormLayout()
        self._form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self._form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self._form.setHorizontalSpacing(16)
        self._form.setVerticalSpacing(8)
        for field in (self.current, self.phrase):
            self._form.addRow(PlainLabel(parent=self), field)
        self._form.addRow(PlainLabel(parent=self), self.length)
        self._form.addRow(PlainLabel(parent=self), self.again)
        buttons = QHBoxLayout()
        for each in (self.begin, self.change, self.forget):
            buttons.addWidget(each)
        buttons.addStretch(1)
        buttons.addWidget(self.cancel)
        buttons.addWidget(self.submit)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 6)
        layout.setSpacing(8)
        layout.addWidget(self.why)
        layout.addLayout(self._form)
        layout.addWidget(self.problem)
        layout.addWidget(self.done)
        layout.addLayout(buttons)
        self.problem.hide()
        self.done.hide()

    def _show(self) -> None:
        models = self._state.models
        step = step_of(models.key_store if models else None, editing=self._editing)
        if step != self.step:
            self.step = step
            self._editing = step in ("set", "change")
            self._clear()
        entering = step in ("set", "change", "locked")
        twice = step in ("set", "change")
        self.why.setVisible(step == "set")
        self._form.setRowVisible(self.current, step == "change")
        self._form.setRowVisible(self.phrase, entering)
        self._form.setRowVisible(self.length, twice)
        self._form.setRowVisible(self.again, twice)
        self.begin.setVisible(step == "offer")
        self.change.setVisible(step == "open")
        self.forget.setVisible(step in ("open", "locked"))
        self.cancel.setVisible(twice)
        self.submit.setVisible(entering)
        self.setVisible(step != "none" or not self.done.isHidden())
        self._name()
        self._say_length()

    def _name(self) -> None:
        """Say what the fields and the main button are for in this step."""
        phrase = tr("New passphrase") if self.step == "change" else tr("Passphrase")
        for field, text in (
            (self.current, tr("Current passphrase")),
            (self.phrase, phrase),
            (self.again, tr("Once more")),
        ):
            field.setAccessibleName(text)
            label = self._form.labelForField(field)
            if isinstance(label, PlainLabel):
                label.setText(text)
        actions = {
            "set": tr("Protect keys"),
            "change": tr("Change the passphrase"),
            "locked": tr("Unlock"),
        }
        self.submit.setText(tr("One moment…") if self._busy else actions.get(self.step, ""))
        self.submit.setEnabled(not self._busy)
        self.forget.setEnabled(not self._busy)

    def _say_length(self) -> None:
        count = len(self.phrase.text())
        if count < LEAST_PASSPHRASE:
            text = tr("{count} of at least {least} characters", count=count, least=LEAST_PASSPHRASE)
        else:
            text = tr("{count} characters", count=count)
        self.length.setText(text)

    # ---------------------------------------------------------------- actions

    def _edit(self) -> None:
        self._editing = True
        self.done.hide()
        self._show()
        (self.current if self.step == "change" else self.phrase).setFocus()

    def _leave(self) -> None:
        self._editing = False
        self._show()

    def _clear(self) -> None:
        for line in (self.current, self.phrase, self.again):
            line.clear()
        self._complain("")

    def _touched(self) -> None:
        self._complain("")
        self.done.hide()

    def _complain(self, text: str) -> None:
        self.problem.setText(text)
        self.problem.setVisible(bool(text))

    def _problem(self) -> str:
        """Return why what stands in the fields cannot be sent; empty if it can."""
        if self.step == "locked":
            return "" if self.phrase.text() else tr("Enter the passphrase.")
        if self.step == "change" and not self.current.text():
            return tr("Enter the current passphrase.")
        if len(self.phrase.text()) < LEAST_PASSPHRASE:
            return tr(
                "Use at least {least} characters: whoever gets a copy of ZPI's files can try "
                "passphrases without limit, and would soon find a short one.",
                least=LEAST_PASSPHRASE,
            )
        if self.phrase.text() != self.again.text():
            return tr("The two passphrases are not the same.")
        return ""

    def _submit(self) -> None:
        if self._busy or self.submit.isHidden():
            return
        problem = self._problem()
        self._complain(problem)
        if problem:
            return
        phrase = self.phrase.text()
        match self.step:
            case "set":
                self._do(SetPassphrase(passphrase=phrase))
            case "change":
                self._do(ChangePassphrase(passphrase=self.current.text(), new_passphrase=phrase))
            case "locked":
                self._do(UnlockKeys(passphrase=phrase))
            case _:
                return

    def _ask_forget(self) -> None:
        confirm(
            self,
            title=tr("Forget the passphrase?"),
            text=tr("The stored keys that it protects are deleted. You can enter them again."),
            action=tr("Delete the keys"),
            on_yes=lambda: self._do(
                ForgetPassphrase(), told=tr("The passphrase is forgotten, the keys are deleted.")
            ),
            danger=True,
        )

    def _do(self, command: Command, *, told: str = "") -> None:
        self._busy = True
        self.done.hide()
        self._name()

        def answered(answer: Answer) -> None:
            self._busy = False
            if isinstance(answer, Failed):
                self._fail(answer.error)
            else:
                self._editing = False
                self._clear()
                self.done.setText(told)
                self.done.setVisible(bool(told))
            self._show()

        self._bridge.send(command, answered)

    def _fail(self, error: ErrorInfo) -> None:
        if error.code == "wrong_passphrase":
            self._complain(
                tr(
                    "This is not the passphrase. Try again; if nobody knows it any more, forget "
                    "it and enter the keys again."
                )
            )
            wrong = self.current if self.step == "change" else self.phrase
            wrong.selectAll()
            wrong.setFocus()
            return
        shown = error_text(error)
        self._complain(" ".join(x for x in (shown.title, shown.detail, shown.hint) if x))
