"""One window for each data folder: a second start raises the first one's.

The lock that matters is the host's. This is only the way in which a second
start finds the window that is there: a local socket, named after the folder,
that only its user can reach.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtNetwork import QLocalServer, QLocalSocket

_WAIT_MS = 1000
_RAISE = b"raise\n"


def socket_name(data: Path) -> str:
    """Return the name of the socket for a data folder."""
    return f"zpi-{hashlib.sha256(str(data).encode()).hexdigest()[:20]}"


def raise_other(name: str) -> bool:
    """Ask the window that is there to come to the front; return whether there is one."""
    socket = QLocalSocket()
    socket.connectToServer(name)
    if not socket.waitForConnected(_WAIT_MS):
        return False
    socket.write(_RAISE)
    socket.waitForBytesWritten(_WAIT_MS)
    # A process that was killed may have left the socket's file: only an answer counts.
    heard = socket.waitForReadyRead(_WAIT_MS)
    socket.abort()
    return heard


class InstanceServer(QObject):
    """Answers later starts.

    Args:
        name: Name of the socket.
        on_raise: Called when another start asks for the window.
        parent: Owner in Qt's sense.
    """

    def __init__(
        self, *, name: str, on_raise: Callable[[], None], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._on_raise = on_raise
        QLocalServer.removeServer(name)  # left behind by a killed process
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)
        self._server.listen(name)

    def _on_connection(self) -> None:
        socket = self._server.nextPendingConnection()
        socket.readyRead.connect(lambda: self._on_asked(socket))
        socket.disconnected.connect(socket.deleteLater)

    def _on_asked(self, socket: QLocalSocket) -> None:
        if socket.readAll().data() == _RAISE:
            socket.write(b"here\n")
            socket.flush()
            self._on_raise()
