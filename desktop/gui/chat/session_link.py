"""The composer's side of one session: what is in force, and the commands about it. No widgets."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from agent_sdk.events.wire import Event, SessionStatus, SessionUpdated
from desktop.bridge.messages import OpenedSession, QueueState, SessionRow, SessionStatusKind
from desktop.bridge.protocol import (
    Answer,
    ChooseModel,
    ChoosePermissionMode,
    Command,
    Failed,
    Interrupt,
    QueuedRemoved,
    RemoveQueued,
    ResumeQueue,
    SubmitPrompt,
)
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.chat.composer_state import Block, Outbox, Outgoing, block
from desktop.gui.state import WORKING, ShellState


class SessionLink(QObject):
    """Follows the session that is shown, and speaks with the host about it."""

    changed = Signal()
    """Something that the composer shows has changed."""
    failed = Signal(object)
    """An ``ErrorInfo``: a command was not carried out."""
    put_back = Signal(str, str)
    """Session id and text that belongs into the box again."""
    sent = Signal()
    """A prompt has left the box."""

    def __init__(
        self, *, bridge: BridgeLike, state: ShellState, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._state = state
        self._outbox = Outbox()
        self.opened: OpenedSession | None = None
        self.host_up = True
        self.stopping = False
        self.thinking = ""
        self.mode = "default"
        self._model = ""
        self._status: SessionStatusKind = "idle"
        bridge.wire_event.connect(self._event)
        bridge.host_lost.connect(lambda _why: self._host(up=False))
        bridge.host_back.connect(lambda: self._host(up=True))
        state.sessions_changed.connect(self._rows)
        state.models_changed.connect(self.changed)
        state.projects_changed.connect(self.changed)
        state.settings_changed.connect(self.changed)
        state.queue_changed.connect(lambda _id: self.changed.emit())

    # ------------------------------------------------------- what is in force

    @property
    def session_id(self) -> str:
        """The session that is shown; empty if none."""
        return self.opened.session.id if self.opened else ""

    @property
    def row(self) -> SessionRow | None:
        """The newest that is known of the session."""
        if self.opened is None:
            return None
        return self._state.sessions.get(self.session_id, self.opened.row)

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self._status in WORKING

    @property
    def model(self) -> str:
        """Key of the model that the next run will use; empty if there is none."""
        models = self._state.models
        if self._model or models is None:
            return self._model
        if models.default:
            return models.default
        return next((each.key for each in models.models if each.ready), "")

    @property
    def queue(self) -> QueueState:
        """What waits."""
        return self._state.queues.get(self.session_id, QueueState(session_id=self.session_id))

    @property
    def blocked(self) -> Block | None:
        """Why nothing can be sent, if so."""
        row = self.row
        return block(
            host_up=self.host_up,
            opened=self.opened,
            row=row,
            project=self._state.project(row.project_id) if row else None,
            models=self._state.models,
            model=self.model,
        )

    def steers(self, *, other: bool) -> bool:
        """Return whether a prompt is steered into the run, not queued behind it.

        Args:
            other: Whether the user asks for the way that is not the usual one.
        """
        settings = self._state.settings
        usual = settings is not None and settings.follow_up == "steer"
        return usual != other

    # ---------------------------------------------------------------- actions

    def show(self, opened: OpenedSession | None) -> None:
        """Follow another session, or none."""
        self.opened = opened
        self.stopping = False
        self._model = opened.model if opened else ""
        self.thinking = opened.thinking if opened else ""
        self.mode = opened.permission_mode if opened else "default"
        self._status = self.row.status if self.row else "idle"
        self.changed.emit()

    def can_send(self, text: str) -> bool:
        """Return whether this text could be sent now."""
        return bool(text.strip()) and self.blocked is None

    def submit(self, text: str, *, other: bool = False) -> None:
        """Send a prompt, or queue it, or steer it in; only if it can be sent."""
        if not self.can_send(text):
            return
        outgoing = self._outbox.take(self.session_id, text)
        steer = self.running and self.steers(other=other)
        if self._needs_choice():
            choice = ChooseModel(
                session_id=self.session_id, model=self.model, thinking=self.thinking
            )
            self._ask(choice, lambda answer: self._chosen(answer, outgoing))
        else:
            self._submit(outgoing, steer=steer)
        self.sent.emit()

    def stop(self) -> None:
        """Stop the run."""
        if self.running and not self.stopping:
            self.stopping = True
            self._ask(Interrupt(session_id=self.session_id), self._stopped)
            self.changed.emit()

    def choose_model(self, key: str) -> None:
        """Use another model from the next run on; reasoning only as far as it knows it."""
        model = self._state.model(key)
        thinking = self.thinking if model and self.thinking in model.thinking else ""
        self._choose(key, thinking)

    def choose_thinking(self, level: str) -> None:
        """Use another reasoning level from the next run on."""
        self._choose(self.model, level)

    def choose_mode(self, mode: str) -> None:
        """Use another permission mode at once."""
        session_id = self.session_id

        def done(answer: Answer) -> None:
            if not isinstance(answer, Failed) and session_id == self.session_id:
                self.mode = mode
            self.changed.emit()

        self._ask(ChoosePermissionMode(session_id=session_id, mode=mode), done)

    def take_back(self, prompt_id: str) -> None:
        """Take a queued prompt back into the box."""
        self._remove(prompt_id, keep=True)

    def remove(self, prompt_id: str) -> None:
        """Take a queued prompt out for good."""
        self._remove(prompt_id, keep=False)

    def resume(self) -> None:
        """Go on with a paused queue."""
        self._ask(ResumeQueue(session_id=self.session_id))

    # ------------------------------------------------------------------ inner

    def _needs_choice(self) -> bool:
        models = self._state.models
        return not self._model and models is not None and not models.default

    def _chosen(self, answer: Answer, outgoing: Outgoing) -> None:
        if isinstance(answer, Failed):
            self.put_back.emit(outgoing.session_id, outgoing.text)
        else:
            self._submit(outgoing, steer=False)

    def _submit(self, outgoing: Outgoing, *, steer: bool) -> None:
        command = SubmitPrompt(
            session_id=outgoing.session_id,
            prompt_id=outgoing.prompt_id,
            text=outgoing.text,
            follow_up="steer" if steer else "queue",
        )

        def answered(answer: Answer) -> None:
            if isinstance(answer, Failed):
                self._outbox.failed(outgoing)
                self.put_back.emit(outgoing.session_id, outgoing.text)

        self._ask(command, answered)

    def _choose(self, model: str, thinking: str) -> None:
        session_id = self.session_id

        def done(answer: Answer) -> None:
            if not isinstance(answer, Failed) and session_id == self.session_id:
                self._model, self.thinking = model, thinking
            self.changed.emit()

        self._ask(ChooseModel(session_id=session_id, model=model, thinking=thinking), done)

    def _remove(self, prompt_id: str, *, keep: bool) -> None:
        session_id = self.session_id

        def done(answer: Answer) -> None:
            if keep and isinstance(answer, QueuedRemoved):
                self.put_back.emit(session_id, answer.text)

        self._ask(RemoveQueued(session_id=session_id, prompt_id=prompt_id), done)

    def _ask(self, command: Command, then: Callable[[Answer], None] | None = None) -> None:
        def answered(answer: Answer) -> None:
            if isinstance(answer, Failed):
                self.failed.emit(answer.error)
            if then is not None:
                then(answer)

        self._bridge.send(command, answered)

    def _stopped(self, answer: Answer) -> None:
        if isinstance(answer, Failed):
            self.stopping = False
            self.changed.emit()

    def _host(self, *, up: bool) -> None:
        self.host_up = up
        self.changed.emit()

    def _rows(self) -> None:
        row = self.row
        if row is not None:
            self._set_status(row.status)
        self.changed.emit()

    def _event(self, event: Event) -> None:
        if event.session_id != self.session_id or self.opened is None:
            return
        match event.body:
            case SessionStatus(status=status):
                self._set_status(status)
                self.changed.emit()
            case SessionUpdated(session=session) if session.model:
                self._model = session.model
                self.changed.emit()
            case _:
                return  # the page of the transcript shows it

    def _set_status(self, status: SessionStatusKind) -> None:
        if status not in WORKING:
            self.stopping = False
        self._status = status
