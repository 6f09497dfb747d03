"""Which session is shown, and the commands that change what the side bar lists. No widgets."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from desktop.bridge.messages import OpenedSession
from desktop.bridge.protocol import (
    Answer,
    CloseProject,
    Command,
    DeleteSession,
    Failed,
    HideSession,
    NewSession,
    OpenProject,
    OpenSession,
    ProjectOpened,
    RenameSession,
    SessionOpened,
)
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.state import ShellState


class Navigator(QObject):
    """Opens one session at a time; the newest wish wins."""

    opened = Signal(object, str)
    """An ``OpenedSession``, and the id of the session that it stands in for (or an empty text):
    a new session that was never stored is gone with its host."""
    left = Signal()
    """No session is shown any more."""
    folder_needed = Signal()
    """A session was wanted, and there is no folder for it."""
    failed = Signal(object)

    def __init__(
        self, *, bridge: BridgeLike, state: ShellState, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._state = state
        self._wish = 0
        self.current: OpenedSession | None = None
        self._fresh = False
        self._listed = False
        bridge.host_back.connect(self._again)
        state.sessions_changed.connect(self._check)

    @property
    def current_id(self) -> str:
        """Id of the session that is shown; empty if none."""
        return self.current.session.id if self.current else ""

    def open(self, session_id: str) -> None:
        """Show a session."""
        if session_id == self.current_id:
            self._wish += 1  # a session that was asked for meanwhile is not wanted any more
            return
        self._open(OpenSession(session_id=session_id), None)

    def new(self, project_id: str = "") -> None:
        """Begin a session, in the project that is shown where none is named."""
        project_id = project_id or self._usual_project()
        if not project_id:
            self.folder_needed.emit()
            return
        if self.current and self._fresh and self.current.row.project_id == project_id:
            self.opened.emit(self.current, "")
            return
        self._open(NewSession(project_id=project_id), None)

    def sent(self) -> None:
        """Note that the session that is shown has got a prompt: it is not new any more."""
        self._fresh = False

    def open_folder(self, path: str) -> None:
        """Add a folder and begin a session in it."""

        def answered(answer: Answer) -> None:
            if isinstance(answer, ProjectOpened):
                self.new(answer.project.id)

        self._do(OpenProject(path=path), answered)

    def rename(self, session_id: str, title: str) -> None:
        """Give a session a title."""
        self._do(RenameSession(session_id=session_id, title=title))

    def delete(self, session_id: str) -> None:
        """Delete a session."""

        def answered(answer: Answer) -> None:
            if not isinstance(answer, Failed) and session_id == self.current_id:
                self._leave()

        self._do(DeleteSession(session_id=session_id), answered)

    def close_project(self, project_id: str) -> None:
        """Take a project out of the list."""

        def answered(answer: Answer) -> None:
            shown = self.current
            if not isinstance(answer, Failed) and shown and shown.row.project_id == project_id:
                self._bridge.send(HideSession(session_id=self.current_id))
                self._leave()

        self._do(CloseProject(project_id=project_id), answered)

    def _usual_project(self) -> str:
        shown = self._state.project(self.current.row.project_id) if self.current else None
        if shown is not None and not shown.missing:
            return shown.id
        present = [each.id for each in self._state.projects or () if not each.missing]
        if not present:
            return ""
        rows = [row for row in self._state.sessions.values() if row.project_id in present]
        newest = max(rows, key=lambda row: row.last_used, default=None)
        return newest.project_id if newest else present[0]

    def _open(self, command: OpenSession | NewSession, replaces: OpenedSession | None) -> None:
        self._wish += 1
        wish = self._wish

        def answered(answer: Answer) -> None:
            if isinstance(answer, SessionOpened):
                if wish == self._wish:
                    self._show(
                        answer.opened, fresh=isinstance(command, NewSession), replaces=replaces
                    )
                elif answer.opened.session.id != self.current_id:
                    self._bridge.send(HideSession(session_id=answer.opened.session.id))

        self._do(command, answered)

    def _show(self, opened: OpenedSession, *, fresh: bool, replaces: OpenedSession | None) -> None:
        before = self.current_id
        self.current, self._fresh = opened, fresh
        self._listed = opened.session.id in self._state.sessions
        if before and before != opened.session.id and replaces is None:
            self._bridge.send(HideSession(session_id=before))
        self.opened.emit(opened, replaces.session.id if replaces else "")

    def _again(self) -> None:
        """Open what was shown once more, with the new host."""
        if self.current is None:
            return
        if self._fresh:
            project_id = self.current.row.project_id
            self._open(NewSession(project_id=project_id), self.current)
        else:
            self._open(OpenSession(session_id=self.current_id), None)

    def _check(self) -> None:
        """Leave a session that the host listed and does not list any more."""
        if self.current_id in self._state.sessions:
            self._listed = True
        elif self._listed:
            self._leave()

    def _leave(self) -> None:
        self._wish += 1
        self.current, self._fresh, self._listed = None, False, False
        self.left.emit()

    def _do(self, command: Command, then: Callable[[Answer], None] | None = None) -> None:
        def answered(answer: Answer) -> None:
            if isinstance(answer, Failed):
                self.failed.emit(answer.error)
            if then is not None:
                then(answer)

        self._bridge.send(command, answered)
