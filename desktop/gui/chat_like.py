"""What the main window needs of the page that shows a transcript, and nothing more."""

from typing import Protocol

from PySide6.QtWidgets import QWidget

from desktop.bridge.messages import OpenedSession


class ChatLike(Protocol):
    """The transcript of one session with its cards; the composer lies below it.

    The main window opens sessions (``OpenSession``, ``NewSession``,
    ``HideSession``) and hands on what the host answered; the page takes the
    session's events from the bridge, reads older pages and sends the answers
    of its own cards (permission, continue).
    """

    def widget(self) -> QWidget:
        """The widget to put into the window."""
        ...

    def show_session(self, opened: OpenedSession) -> None:
        """Show a session from its tail.

        Called again with the same session when a new host has opened it: what
        is shown then stays where it is, as far as it is still the same.
        """
        ...

    def clear(self) -> None:
        """Show no session."""
        ...
