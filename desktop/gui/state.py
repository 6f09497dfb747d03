"""The newest state of each topic, as the host told it; widgets read it and are told of changes."""

from PySide6.QtCore import QObject, Signal

from desktop.bridge.messages import (
    HostState,
    ModelsState,
    ModelView,
    PermissionsState,
    ProjectInfo,
    ProjectsState,
    ProviderView,
    QueueState,
    SessionRow,
    SessionsState,
    SettingsState,
)
from desktop.bridge.protocol import Subscribe
from desktop.gui.bridge_like import BridgeLike

_TOPICS = ("projects", "sessions", "models", "queue", "settings", "host")
WORKING = frozenset({"running", "retry", "waiting"})
"""Statuses of a session whose run is going on."""


class ShellState(QObject):
    """Follows the topics that the window's shell shows. It never waits for anything."""

    projects_changed = Signal()
    sessions_changed = Signal()
    models_changed = Signal()
    settings_changed = Signal()
    queue_changed = Signal(str)
    host_changed = Signal()

    def __init__(self, *, bridge: BridgeLike, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.projects: tuple[ProjectInfo, ...] | None = None
        self.sessions: dict[str, SessionRow] = {}
        self.models: ModelsState | None = None
        self.settings: SettingsState | None = None
        self.queues: dict[str, QueueState] = {}
        self.host = HostState()
        bridge.state.connect(self.take)
        for topic in _TOPICS:
            bridge.send(Subscribe(topic=topic))

    def take(self, state: object) -> None:
        """Note a topic's state."""
        match state:
            case ProjectsState():
                self.projects = state.projects
                self.projects_changed.emit()
            case SessionsState():
                self._take_sessions(state)
            case ModelsState():
                self.models = state
                self.models_changed.emit()
            case SettingsState():
                self.settings = state
                self.settings_changed.emit()
            case QueueState():
                self.queues[state.session_id] = state
                self.queue_changed.emit(state.session_id)
            case HostState():
                self.host = state
                self.host_changed.emit()
            case PermissionsState():
                return  # the page of the transcript shows them
            case _:
                raise TypeError(f"{state!r} is no state of a topic")

    def project(self, project_id: str) -> ProjectInfo | None:
        """Return a project, if there is such a one."""
        return next((each for each in self.projects or () if each.id == project_id), None)

    def model(self, key: str) -> ModelView | None:
        """Return a model by its key ``provider/id``, if there is such a one."""
        known = self.models.models if self.models else ()
        return next((each for each in known if each.key == key), None)

    def provider(self, name: str) -> ProviderView | None:
        """Return a provider, if there is such a one."""
        known = self.models.providers if self.models else ()
        return next((each for each in known if each.name == name), None)

    def working(self) -> list[SessionRow]:
        """Return the sessions whose runs are going on."""
        return [row for row in self.sessions.values() if row.status in WORKING]

    def _take_sessions(self, state: SessionsState) -> None:
        rows = {} if state.reset else dict(self.sessions)
        rows.update((row.id, row) for row in state.rows)
        for gone in state.removed:
            rows.pop(gone, None)
        for gone in self.queues.keys() - rows.keys():
            if gone in self.sessions:
                del self.queues[gone]
        if rows != self.sessions:
            self.sessions = rows
            self.sessions_changed.emit()
