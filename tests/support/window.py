"""The real window, offscreen, with the real host process behind it and a mocked model.

Used in the test's own process, and by ``window_program``, which can be killed.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

os.environ["QT_QPA_PLATFORM"] = "offscreen"

import msgspec
from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget

from agent_sdk.events.wire import (
    MessageInfo,
    Part,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
)
from agent_sdk.testing.mock_server import MockRequest, MockScript, MockServer
from desktop.app import Window
from desktop.bridge.messages import TranscriptMessage
from desktop.gui.chat.cards import Card
from desktop.gui.chat.tool_card import ToolCard
from desktop.gui.chat.transcript_model import TranscriptModel
from desktop.paths import DataPaths
from tests.support.host import environment

PATIENCE = 20.0
"""Seconds after which what does not happen fails the test."""

CardType = TypeVar("CardType", bound=Card)


class MockThread:
    """The mocked model on a loop of its own: the test's thread belongs to Qt."""

    def __init__(self, script: MockScript) -> None:
        self._loop = asyncio.new_event_loop()
        self.server = MockServer(script)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "MockThread":
        self._thread.start()
        self._do(self.server.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self.server.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    @property
    def requests(self) -> list[MockRequest]:
        """What was asked so far, without requests that ask no model."""
        return [request for request in self.server.requests if request.asked is not None]


def variables(home: Path, url: str, **more: str) -> dict[str, str]:
    """Return the environment of a window whose user has this home and this model."""
    return environment(
        home,
        {
            "QT_QPA_PLATFORM": "offscreen",
            "ZPI_API_TYPE": "openai-completions",
            "ZPI_BASE_URL": f"{url}/v1",
            "ZPI_MODEL": "mock",
            "ZPI_API_KEY": "sk-test-0001",
            **more,
        },
    )


class Desk:
    """A window that is open, and what a user can do with it.

    Args:
        app: The application.
        home: The user's home folder; the environment says so too.
    """

    def __init__(self, *, app: QApplication, home: Path) -> None:
        self.app = app
        self.paths = DataPaths(data=home / "data")
        store = QSettings(str(home / "window.ini"), QSettings.Format.IniFormat)
        store.setValue("look/language", "en")
        store.setValue("look/theme", "light")
        self.window = Window(app=app, paths=self.paths, store=store)
        self.lost: list[str] = []
        self.answers: list[object] = []
        self.window.bridge.host_lost.connect(self.lost.append)

    # ------------------------------------------------------------- life, waiting

    def start(self) -> None:
        """Show the window and wait for the host's greeting."""
        self.window.start()
        self.until(lambda: self.window.bridge.epoch, "the host greets")
        self.until(self.main.sidebar.isVisible, "the window is shown")

    def close(self) -> None:
        """Close the window as its user does, whatever runs, and take it apart."""
        gone: list[bool] = []
        self.window.stop(lambda: gone.append(True))
        self.until(lambda: gone, "the host ends")
        self.main.hide()
        self.main.deleteLater()
        self.window.bridge.deleteLater()
        self.app.setStyleSheet("")
        self.window.theme.deleteLater()
        self.app.processEvents()

    def until(
        self, condition: Callable[[], Any], what: str = "it", *, seconds: float = PATIENCE
    ) -> Any:
        """Wait, with the event loop running, until the condition holds; return what it gave."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > end:
                raise AssertionError(f"within {seconds} s it was not so: {what}\n{self.report()}")
            QTest.qWait(10)
        return found

    def report(self) -> str:
        """Say what the window shows, for a test that failed."""
        log = self.paths.generation / "host.log"
        said = log.read_text(encoding="utf-8", errors="replace")[-2000:] if log.exists() else ""
        return f"shown: {self.texts()}\nstatus: {self.status}\nlost: {self.lost}\nhost: {said}"

    # ---------------------------------------------------------------- what it is

    @property
    def main(self) -> Any:
        """The main window."""
        return self.window.main

    @property
    def composer(self) -> Any:
        """The composer."""
        return self.main.area.composer

    @property
    def model(self) -> TranscriptModel:
        """The transcript that is shown."""
        return self.window.chat.model

    @property
    def request(self) -> Any:
        """The card that asks."""
        return self.window.chat.request

    @property
    def session_id(self) -> str:
        """The session that is shown."""
        return str(self.main.navigator.current_id)

    @property
    def status(self) -> str:
        """The status of the session, as the side bar shows it."""
        row = self.main.area.link.row
        return row.status if row is not None else ""

    @property
    def host_pid(self) -> int:
        """The host's process id; 0 while there is none."""
        process = self.window.bridge._process
        return int(process.processId()) if process is not None else 0

    def session_file(self) -> Path:
        """The file of the only session."""
        (found,) = self.paths.sessions.rglob("*.jsonl")
        return found

    # ------------------------------------------------------------ what is drawn

    def cards(self, kind: type[CardType]) -> list[CardType]:
        """Return the cards of a kind that can be seen, from top to bottom."""
        self.window.chat.view.flush()
        found = [card for card in self.window.chat.view.pool.visible() if isinstance(card, kind)]
        return sorted((card for card in found if card.isVisible()), key=lambda card: card.y())

    def texts(self) -> list[str]:
        """Return the markdown of each message."""
        messages = (self.model.message(at) for at in range(self.model.count))
        return [message.markdown() if message else "" for message in messages]

    @property
    def last(self) -> str:
        """The markdown of the last message; empty if there is none."""
        return (self.texts() or [""])[-1]

    def tool_card(self, tool: str) -> ToolCard:
        """Return the card of the newest call of a tool."""
        found = [c for c in self.cards(ToolCard) if c.item and c.item.part.tool == tool]
        assert found, f"no card of {tool!r} is to be seen"
        return found[-1]

    def notes(self) -> list[str]:
        """Return the texts of the banners, newest first."""
        return [note.text for note in self.main.notices.notes.all()]

    # ------------------------------------------------------------ what is done

    def open_folder(self, folder: Path) -> None:
        """Open a folder, as its dialog does, and wait for a session in it."""
        before = self.session_id
        self.main.navigator.open_folder(str(folder))
        self.until(lambda: self.session_id not in ("", before), f"a session in {folder}")
        self.until(self.composer.isVisible, "the composer is shown")

    def type(self, text: str) -> None:
        """Type into the composer."""
        self.composer.edit.setFocus()
        QTest.keyClicks(self.composer.edit, text)

    def send(self, text: str) -> None:
        """Type a prompt and press Enter, as soon as it can be sent."""
        self.type(text)
        self.until(self.composer.send.isEnabled, "the prompt can be sent")
        QTest.keyClick(self.composer.edit, Qt.Key.Key_Return)
        assert self.composer.edit.toPlainText() == ""

    def click(self, button: QAbstractButton | QWidget) -> None:
        """Click something that must be there to be clicked."""
        assert button.isVisible()
        assert button.isEnabled()
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)

    def wait_asked(self) -> None:
        """Wait for a question that can be answered."""
        self.until(lambda: self.request.isVisible() and not self.request.expired, "a question")

    def allow(self) -> None:
        """Click 'Allow once'."""
        self.wait_asked()
        self.until(self.request.once.isEnabled, "it can be allowed")
        self.click(self.request.once)

    def wait_status(self, *statuses: str) -> None:
        """Wait until the session's row has one of these statuses."""
        self.until(lambda: self.status in statuses, f"status {' or '.join(statuses)}")


@contextmanager
def desk(app: QApplication, home: Path) -> Iterator[Desk]:
    """Open a window; the environment says whose it is. Closed at the end, host and all."""
    made = Desk(app=app, home=home)
    made.start()
    try:
        yield made
    finally:
        made.close()


# ------------------------------------------------------------------ comparing


def finished(model: TranscriptModel) -> dict[str, Any]:
    """Return the messages that will not change any more, as plain data, by id."""
    found: dict[str, Any] = {}
    for at in range(model.count):
        message = model.message(at)
        if message is not None and message.info.finished:
            parts = {
                part_id: _plain(state.part, state.flow.text if state.flow else None)
                for part_id, state in message.parts.items()
            }
            found[message.info.id] = _message(message.info, parts)
    return found


def finished_of(messages: Iterable[TranscriptMessage]) -> dict[str, Any]:
    """Return the same of messages as the host sends them."""
    return {
        message.info.id: _message(message.info, {p.id: _plain(p, None) for p in message.parts})
        for message in messages
        if message.info.finished
    }


def _message(info: MessageInfo, parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": info.role, "error": info.error, "parts": parts}


def _plain(part: Part, text: str | None) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text if text is None else text}
    plain: dict[str, Any] = msgspec.to_builtins(part)
    if isinstance(part, ToolPart):
        plain["settled"] = isinstance(part.state, ToolCompleted | ToolFailed)
    return plain


def lost(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return what was shown before and is not, or otherwise, after.

    A call that still ran may have a result afterwards; nothing else may differ.
    """
    found: list[str] = []
    for message_id, message in before.items():
        now = after.get(message_id)
        if now is None:
            found.append(f"message {message_id} {message['role']} is gone")
            continue
        if now["error"] != message["error"]:
            found.append(f"{message_id}: error {message['error']!r} became {now['error']!r}")
        for part_id, part in message["parts"].items():
            other = now["parts"].get(part_id)
            unsettled = part["type"] == "tool" and not part["settled"]
            if other is None:
                found.append(f"part {part_id} ({part['type']}) is gone")
            elif unsettled and part["call_id"] != other["call_id"]:
                found.append(f"part {part_id} is another call")
            elif not unsettled and other != part:
                found.append(f"part {part_id} was {part!r} and is {other!r}")
    return found


def hosts_of(data: Path) -> list[int]:
    """Return the host processes that serve a data folder."""
    found = []
    for name in os.listdir("/proc"):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes() if name.isdigit() else b""
            if b"desktop.host" not in line:
                continue
            around = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            state = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:  # it ended meanwhile
            continue
        if b"ZPI_DATA_DIR=" + os.fsencode(data) in around and state not in (b"Z", b"X"):
            found.append(int(name))
    return found
