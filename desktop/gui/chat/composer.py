"""The composer: what is written, sent, queued and stopped."""

from PySide6.QtCore import QSize, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QVBoxLayout, QWidget
from typing_extensions import override

from desktop.bridge.messages import OpenedSession
from desktop.gui.chat.composer_menus import MenuButton, fill_models, fill_modes, fill_thinking
from desktop.gui.chat.composer_state import Block, History, joined, prompts_of
from desktop.gui.chat.prompt_edit import MAX_CHARACTERS, PromptEdit
from desktop.gui.chat.queue_bar import QueueBar
from desktop.gui.chat.session_link import SessionLink
from desktop.gui.i18n import tr
from desktop.gui.icons import Icons
from desktop.gui.mode_text import mode_meaning, mode_name, model_name, thinking_name
from desktop.gui.state import ShellState
from desktop.gui.widgets.base import IconButton, PlainLabel, TranslatedWidget, button
from desktop.gui.window_settings import WindowSettings

DRAFT_MS = 300
MAX_WIDTH = 860
_NARROW = 460


class Composer(TranslatedWidget):
    """The box below a transcript."""

    setup_wanted = Signal()
    """The user is to set a model or a key up."""

    def __init__(
        self,
        *,
        link: SessionLink,
        state: ShellState,
        icons: Icons,
        settings: WindowSettings,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._link = link
        self._state = state
        self._icons = icons
        self._settings = settings
        self._drafts = settings.drafts()
        self._histories: dict[str, History] = {}
        self._shown = ""
        self._walking = False
        self._narrow = False
        self._warning = ""
        self.queue = QueueBar(icons=icons, parent=self)
        self.note = PlainLabel(kind="muted", wrap=True, parent=self)
        self.remedy = button("link", parent=self)
        self.edit = PromptEdit(self)
        self.model = MenuButton(icons=icons, icon="chip", fill=self._models, parent=self)
        self.thinking = MenuButton(icons=icons, icon="thought", fill=self._levels, parent=self)
        self.mode = MenuButton(icons=icons, icon="shield", fill=self._modes, parent=self)
        self.stop = IconButton(icons=icons, name="stop", colour="danger", parent=self)
        self.send = IconButton(icons=icons, name="send", colour="on_accent", parent=self)
        self._saver = QTimer(self)
        self._saver.setSingleShot(True)
        self._saver.setInterval(DRAFT_MS)
        self._lay_out()
        self._connect()
        self.retranslate()

    # ---------------------------------------------------------------- actions

    def show_session(self, opened: OpenedSession | None) -> None:
        """Write for another session, with its draft and its history."""
        session_id = opened.session.id if opened else ""
        if session_id != self._shown:
            self._keep_draft()
            self._shown = session_id
            self._put(self._drafts.get(session_id, ""))
            self.edit.document().clearUndoRedoStacks()
        if opened is not None and session_id not in self._histories:
            self._history.fill(prompts_of(opened.page.messages))
        self._link.show(opened)

    def put(self, text: str) -> None:
        """Put a text into the box, after what is there, and the caret into it."""
        self._put(joined(self.edit.toPlainText(), text))
        self.edit.setFocus()

    def take_over(self, old: str, new: str) -> None:
        """Keep what is written when a session is replaced by another one."""
        self._keep_draft()
        draft = self._drafts.pop(old, "")
        self._settings.set_draft(old, "")
        self._drafts[new] = draft
        self._settings.set_draft(new, draft)
        if self._shown == old:
            self._shown = new

    @property
    def empty(self) -> bool:
        """Whether nothing is being written."""
        return not self.edit.toPlainText().strip() and not self.edit.composition.active

    def save(self) -> None:
        """Keep the draft now; the window is about to close."""
        self._keep_draft()

    @override
    def retranslate(self) -> None:
        self.edit.setAccessibleName(tr("Prompt"))
        self.stop.name_it(tr("Stop"), "Esc")
        self._show()

    @override
    def resizeEvent(self, event: QResizeEvent, /) -> None:
        super().resizeEvent(event)
        if (event.size().width() < _NARROW) != self._narrow:
            self._show()

    # ----------------------------------------------------------------- inside

    @property
    def _history(self) -> History:
        return self._histories.setdefault(self._shown, History())

    def _lay_out(self) -> None:
        self.send.setProperty("kind", "send")
        self.send.setIconSize(QSize(16, 16))
        frame = QFrame(self)
        frame.setProperty("kind", "composer")
        bottom = QHBoxLayout()
        bottom.setSpacing(2)
        for each in (self.model, self.thinking, self.mode):
            bottom.addWidget(each)
        bottom.addStretch(1)
        bottom.addWidget(self.stop)
        bottom.addSpacing(4)
        bottom.addWidget(self.send)
        inner = QVBoxLayout(frame)
        inner.setContentsMargins(12, 9, 8, 8)
        inner.setSpacing(6)
        inner.addWidget(self.edit)
        inner.addLayout(bottom)
        note = QHBoxLayout()
        note.setContentsMargins(12, 0, 0, 0)
        note.addWidget(self.note, 1)
        note.addWidget(self.remedy)
        column = QVBoxLayout()
        column.setSpacing(6)
        column.addWidget(self.queue)
        column.addLayout(note)
        column.addWidget(frame)
        holder = QWidget(self)
        holder.setLayout(column)
        column.setContentsMargins(0, 0, 0, 0)
        holder.setMaximumWidth(MAX_WIDTH)
        outer = QHBoxLayout(self)
        outer.setContentsMargins(16, 4, 16, 14)
        outer.addStretch(1)
        outer.addWidget(holder, 1000)
        outer.addStretch(1)

    def _connect(self) -> None:
        self._link.changed.connect(self._show)
        self._link.put_back.connect(self._back)
        self.edit.submitted.connect(lambda other: self._submit(other=other))
        self.edit.textChanged.connect(self._typed)
        self.edit.older_wanted.connect(self._older)
        self.edit.newer_wanted.connect(self._newer)
        self.edit.too_long.connect(self._too_long)
        self.send.clicked.connect(lambda: self._submit(other=False))
        self.stop.clicked.connect(self._link.stop)
        self.remedy.clicked.connect(self.setup_wanted)
        self.queue.edit_wanted.connect(self._link.take_back)
        self.queue.remove_wanted.connect(self._link.remove)
        self.queue.resume_wanted.connect(self._link.resume)
        self._saver.timeout.connect(self._keep_draft)

    def _submit(self, *, other: bool) -> None:
        text = self.edit.toPlainText()
        if not self._link.can_send(text):
            return
        self._history.add(text)
        self._put("")
        self._keep_draft()
        self._link.submit(text, other=other)

    def _back(self, session_id: str, text: str) -> None:
        if session_id == self._shown:
            self.put(text)
        else:
            self._drafts[session_id] = joined(self._drafts.get(session_id, ""), text)
            self._settings.set_draft(session_id, self._drafts[session_id])

    def _put(self, text: str) -> None:
        self._walking = True
        self.edit.put(text)
        self._walking = False

    def _typed(self) -> None:
        if not self._walking:
            self._history.edited()
        if self._warning:
            self._warning = ""
            self._show_note()
        self._saver.start()
        self._show_buttons()

    def _older(self) -> None:
        found = self._history.older(self.edit.toPlainText())
        if found is not None:
            self._put(found)

    def _newer(self) -> None:
        found = self._history.newer()
        if found is not None:
            self._put(found)

    def _too_long(self) -> None:
        self._warning = tr(
            "That is too long to paste (more than {count} characters). "
            "Save it as a file in the folder and name the file.",
            count=f"{MAX_CHARACTERS:,}",
        )
        self._show_note()

    def _keep_draft(self) -> None:
        self._saver.stop()
        if self._shown:
            text = self.edit.toPlainText()
            if text != self._drafts.get(self._shown, ""):
                self._drafts[self._shown] = text
                self._settings.set_draft(self._shown, text)

    # ---------------------------------------------------------------- showing

    def _show(self) -> None:
        link = self._link
        narrow = self._narrow = self.width() < _NARROW
        model = self._state.model(link.model)
        self.model.say(
            model_name(model) if model else link.model or tr("No model"),
            tip=tr("Model"),
            narrow=narrow,
        )
        levels = model.thinking if model else ()
        self.thinking.setVisible(bool(levels))
        self.thinking.say(thinking_name(link.thinking), tip=tr("Reasoning"), narrow=narrow)
        self.mode.say(
            mode_name(link.mode),
            tip=tr("Permissions: {meaning}", meaning=mode_meaning(link.mode)),
            narrow=narrow,
        )
        for each in (self.model, self.thinking, self.mode):
            each.setEnabled(link.opened is not None and link.host_up)
        self.queue.show_queue(link.queue)
        self.edit.setPlaceholderText(self._placeholder())
        self._show_note()
        self._show_buttons()

    def _show_buttons(self) -> None:
        link = self._link
        self.stop.setVisible(link.running)
        self.stop.setEnabled(not link.stopping)
        self.send.setEnabled(link.can_send(self.edit.toPlainText()))
        if not link.running:
            self.send.name_it(tr("Send"), "Enter")
        elif link.steers(other=False):
            self.send.name_it(tr("Steer the run; Ctrl+Enter queues"), "Enter")
        else:
            self.send.name_it(tr("Queue; Ctrl+Enter steers the run"), "Enter")

    def _show_note(self) -> None:
        reason = self._link.blocked
        text = self._warning or (_reason(reason) if reason else "")
        self.note.set_kind("warning" if self._warning else "muted")
        self.note.setText(text)
        self.note.setVisible(bool(text))
        remedy = _remedy(reason) if reason else ""
        self.remedy.setText(remedy)
        self.remedy.setVisible(bool(remedy))

    def _placeholder(self) -> str:
        if not self._link.running:
            return tr("Ask anything…")
        if self._link.steers(other=False):
            return tr("Steer the run…")
        return tr("Add to the queue…")

    def _models(self, menu: QMenu) -> None:
        models = self._state.models
        fill_models(
            menu,
            models.models if models else (),
            current=self._link.model,
            choose=self._link.choose_model,
        )
        menu.addSeparator()
        menu.addAction(tr("Set up models…")).triggered.connect(self.setup_wanted)

    def _levels(self, menu: QMenu) -> None:
        model = self._state.model(self._link.model)
        fill_thinking(
            menu,
            model.thinking if model else (),
            current=self._link.thinking,
            choose=self._link.choose_thinking,
        )

    def _modes(self, menu: QMenu) -> None:
        fill_modes(menu, current=self._link.mode, choose=self._link.choose_mode)


def _reason(reason: Block) -> str:
    """Return why nothing can be sent, in words."""
    match reason.kind:
        case "host":
            return tr("ZPI's background process is starting again. What you write is kept.")
        case "session":
            return tr("No session is open.")
        case "loading":
            return tr("Loading the models…")
        case "folder":
            return tr("The folder {folder} cannot be found.", folder=reason.about)
        case "read_only":
            return tr("This session can only be read: {why}", why=reason.about)
        case "no_models":
            return tr("No model is set up yet.")
        case "no_model":
            return tr("No model is chosen.")
        case "unknown":
            return tr("The model {model} is not known any more.", model=reason.about)
        case "no_key" | "key_locked":
            return _key_reason(reason)


def _key_reason(reason: Block) -> str:
    if reason.kind == "key_locked":
        return tr("The key for {provider} is locked.", provider=reason.about)
    return tr("There is no key for {provider}.", provider=reason.about)


def _remedy(reason: Block) -> str:
    """Return what the button beside the reason says; empty if there is none."""
    match reason.kind:
        case "no_models" | "no_model" | "unknown":
            return tr("Set up a model")
        case "no_key":
            return tr("Add a key")
        case "key_locked":
            return tr("Unlock…")
        case _:
            return ""
