"""A session in the window: its transcript, or examples while it has none, above the composer."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from desktop.bridge.messages import OpenedSession
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.chat.composer import Composer
from desktop.gui.chat.session_link import SessionLink
from desktop.gui.chat_like import ChatLike
from desktop.gui.empty_page import ExamplesBar
from desktop.gui.icons import Icons
from desktop.gui.state import ShellState
from desktop.gui.window_settings import WindowSettings


class SessionArea(QWidget):
    """Puts the page of the transcript and the composer together."""

    setup_wanted = Signal()
    failed = Signal(object)
    sent = Signal()

    def __init__(
        self,
        *,
        bridge: BridgeLike,
        state: ShellState,
        icons: Icons,
        settings: WindowSettings,
        chat: ChatLike,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._chat = chat
        self.link = SessionLink(bridge=bridge, state=state, parent=self)
        self.composer = Composer(
            link=self.link, state=state, icons=icons, settings=settings, parent=self
        )
        self.examples = ExamplesBar(self)
        self.upper = QStackedWidget(self)
        self.upper.addWidget(self.examples)
        self.upper.addWidget(chat.widget())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.upper, 1)
        layout.addWidget(self.composer)
        self.link.sent.connect(self._sent)
        self.link.failed.connect(self.failed)
        self.composer.setup_wanted.connect(self.setup_wanted)
        self.examples.chosen.connect(self.composer.put)

    def show_session(self, opened: OpenedSession, *, replaces: str = "") -> None:
        """Show a session, in place of a lost one where its id is given."""
        if replaces:
            self.composer.take_over(replaces, opened.session.id)
        self.examples.set_folder(opened.session.workspace)
        self._chat.show_session(opened)
        empty = opened.count == 0 and not self.link_busy(opened)
        self.upper.setCurrentIndex(0 if empty else 1)
        self.composer.show_session(opened)

    def clear(self) -> None:
        """Show no session."""
        self.composer.show_session(None)
        self._chat.clear()

    @staticmethod
    def link_busy(opened: OpenedSession) -> bool:
        """Return whether something goes on in the session though it has no message yet."""
        return opened.row.status != "idle"

    def _sent(self) -> None:
        self.upper.setCurrentIndex(1)
        self.sent.emit()
