"""The window's composition root: the only module that sees bridge and window together."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from PySide6.QtCore import QLibraryInfo, QSettings, Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

import agent_sdk
from desktop.bridge.client import Bridge
from desktop.gui import i18n
from desktop.gui.chat.chat_page import ChatPage
from desktop.gui.chat.code_highlight import warm_up
from desktop.gui.icons import Icons
from desktop.gui.main_window import MainWindow
from desktop.gui.single_instance import InstanceServer, raise_other, socket_name
from desktop.gui.state import ShellState
from desktop.gui.theme import Theme
from desktop.gui.window_settings import WindowSettings
from desktop.paths import DataPaths, data_dir

NO_DISPLAY = (
    "There is no display here, so ZPI's window cannot open. "
    "At the command line, say: zpi -p 'What is this project?'"
)

WARM_AFTER_MS = 1500
"""When the window is there, and nobody waits for it any more."""

WARM_STEP_MS = 50


def has_display(environ: Mapping[str, str]) -> bool:
    """Whether a window can be shown, as far as the environment tells."""
    if sys.platform != "linux":
        return True
    return any(environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))


def input_method(environ: Mapping[str, str], plugins: Path) -> str:
    """Return the input method module to use in place of the one that is asked for.

    Qt's wheels have no module for fcitx, but fcitx speaks that of ibus too. An
    empty text leaves everything as it is.
    """
    wanted = environ.get("QT_IM_MODULE", "")
    if not wanted.startswith("fcitx") or environ.get("WAYLAND_DISPLAY"):
        return ""
    found = any((plugins / "platforminputcontexts").glob(f"*{wanted}*"))
    return "" if found else "ibus"


def prepare(environ: Mapping[str, str]) -> None:
    """Set what Qt must know before there is an application."""
    module = input_method(environ, Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath)))
    if module:
        os.environ["QT_IM_MODULE"] = module
    QApplication.setHighDpiScaleFactorRoundingPolicy(
        Qt.HighDpiScaleFactorRoundingPolicy.PassThrough
    )
    QApplication.setApplicationName("ZPI")
    QApplication.setDesktopFileName("zpi")


class Window:
    """The application's parts, put together.

    Args:
        app: The application.
        paths: Where the data lies.
        store: Settings of the window.
        program: What starts the host.
        arguments: Its arguments.
    """

    def __init__(
        self,
        *,
        app: QApplication,
        paths: DataPaths,
        store: QSettings,
        program: str = sys.executable,
        arguments: tuple[str, ...] = ("-m", "desktop.host"),
    ) -> None:
        settings = WindowSettings(store=store)
        i18n.set_language(settings.language)
        paths.generation.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.environ["ZPI_DATA_DIR"] = str(paths.data)  # the host looks there too
        self.bridge = Bridge(
            program=program,
            arguments=arguments,
            log_file=paths.generation / "host.log",
            version=agent_sdk.__version__,
            language=settings.language,
        )
        self.theme = Theme(app=app, mode=settings.theme, font_size=settings.font_size)
        icons = Icons(theme=self.theme)
        state = ShellState(bridge=self.bridge)
        self.chat = ChatPage(
            bridge=self.bridge,
            icons=icons,
            open_link=_open_link,
            composer_empty=self._composer_empty,
            clock=time.monotonic,
        )
        self.main = MainWindow(
            bridge=self.bridge, state=state, icons=icons, settings=settings, chat=self.chat
        )

        # A question that was answered gives the keyboard back to where one writes.
        self.chat.request.answered.connect(lambda _: self.main.area.composer.edit.setFocus())

    def _composer_empty(self) -> bool:
        return self.main.area.composer.empty

    def start(self) -> None:
        """Show the window, then start the host: the slow part loads behind what is drawn."""
        self.main.show()
        self.bridge.start()
        self._warming = warm_up()
        QTimer.singleShot(WARM_AFTER_MS, self.main, self._warm)

    def _warm(self) -> None:
        """Load what colours code, bit by bit: within an answer it would hold up frames."""
        for _ in self._warming:
            QTimer.singleShot(WARM_STEP_MS, self.main, self._warm)
            return

    def stop(self, done: Callable[[], None]) -> None:
        """End the host in good order, then call back."""
        self.bridge.stop(done)

    def come_forward(self) -> None:
        """Bring the window to the front."""
        self.main.showNormal()
        self.main.raise_()
        self.main.activateWindow()


def _open_link(address: str) -> None:
    QDesktopServices.openUrl(QUrl(address))


def main() -> int:
    """Open the window; return the exit code."""
    if not has_display(os.environ):
        sys.stderr.write(NO_DISPLAY + "\n")
        return 2
    try:
        paths = DataPaths(data=data_dir(os.environ))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    prepare(os.environ)
    app = QApplication(sys.argv[:1])
    app.setQuitOnLastWindowClosed(False)
    name = socket_name(paths.data)
    if raise_other(name):
        return 0
    window = Window(app=app, paths=paths, store=QSettings("zpi", "zpi"))
    server = InstanceServer(name=name, on_raise=window.come_forward)
    window.main.quitting.connect(lambda: window.stop(app.quit))
    window.start()
    code = app.exec()
    server.deleteLater()
    return code
