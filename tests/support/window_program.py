"""The window as a program that a test can kill: orders come in by lines, what it shows goes out.

``python -m tests.support.window_program``: the environment says whose window
it is. Orders are JSON arrays: ``["folder", PATH]``, ``["send", TEXT]``,
``["allow"]``, ``["continue"]``, ``["open", SESSION]``, ``["quit"]``. Each line
that it writes is a JSON object: all that is shown at that moment, finished
messages whole. It is written at once, before anything else happens.
"""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtCore import QSocketNotifier, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from agent_sdk.events.wire import PartDelta
from desktop.bridge.protocol import PromptTaken
from desktop.gui.chat.cards import LineCard
from tests.support.window import Desk, finished


class WindowProgram:
    """Carries out orders and tells what is shown."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._orders: list[list[str]] = []
        self._told: object = None
        self._taken: list[str] = []
        self._deltas = 0
        self._streaming = False
        self._back = 0
        self._rest = b""
        bridge = desk.window.bridge
        bridge.wire_event.connect(self._event)
        bridge.state.connect(lambda _: self._tell())
        bridge.host_back.connect(self._host_back)
        bridge.host_lost.connect(self._host_lost)
        desk.main.navigator.opened.connect(lambda *_: self._tell())
        self._listen()
        self._notifier = QSocketNotifier(0, QSocketNotifier.Type.Read)
        self._notifier.activated.connect(self._read)
        self._timer = QTimer()
        self._timer.timeout.connect(self._work)
        self._timer.start(30)

    def _listen(self) -> None:
        """Note which prompts the host has taken, on their way to the window."""
        bridge = self._desk.window.bridge
        send = bridge.send

        def sending(command: Any, on_answer: Any = None) -> None:
            def answered(answer: Any) -> None:
                if isinstance(answer, PromptTaken):
                    self._taken.append(answer.prompt_id)
                if on_answer is not None:
                    on_answer(answer)
                self._tell()

            send(command, answered)

        bridge.send = sending  # type: ignore[method-assign]

    # ------------------------------------------------------------------ telling

    def _event(self, event: Any) -> None:
        begins = not self._streaming
        self._streaming = isinstance(event.body, PartDelta)
        self._deltas += self._streaming
        if begins or not self._streaming:  # what is told has all that is finished: be quick
            self._tell()

    def _host_lost(self, _: str) -> None:
        self._orders.clear()  # they were about what has gone
        self._tell()

    def _host_back(self) -> None:
        self._back += 1
        self._tell()

    def _tell(self) -> None:
        desk = self._desk
        state = {
            "session": desk.session_id,
            "epoch": desk.window.bridge.epoch,
            "back": self._back,
            "host": desk.host_pid,
            "status": desk.status,
            "taken": [*self._taken],
            "deltas": self._deltas,
            "queued": [p.text for p in desk.main.area.link.queue.queued],
            "asked": self._asked(),
            "expired": desk.request.isVisible() and desk.request.expired,
            "can_continue": desk.model._run.can_continue,
            "offers": [card.label.text() for card in desk.cards(LineCard)],
            "ready": desk.composer.model.isEnabled() and bool(desk.main.area.link.model),
            "messages": finished(desk.model),
        }
        if state != self._told:
            self._told = state
            os.write(1, msgspec.json.encode(state) + b"\n")

    def _asked(self) -> str:
        request = self._desk.request
        return request.asked.request_id if request.asked and not request.expired else ""

    def end(self) -> None:
        """Carry out no more orders."""
        self._timer.stop()
        self._notifier.setEnabled(False)

    # ------------------------------------------------------------------- orders

    def _read(self) -> None:
        data = os.read(0, 1 << 16)
        if not data:
            self._notifier.setEnabled(False)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._orders += [msgspec.json.decode(line, type=list[str]) for line in lines]

    def _work(self) -> None:
        if self._orders and self._carry_out(self._orders[0]):
            self._orders.pop(0)
        self._tell()

    def _carry_out(self, order: list[str]) -> bool:
        """Carry out an order if that is possible now."""
        desk = self._desk
        match order:
            case ["folder", path]:
                if not desk.window.bridge.epoch:
                    return False
                desk.main.navigator.open_folder(path)
            case ["open", session_id]:
                desk.main.navigator.open(session_id)
            case ["send", text]:
                if not desk.composer.isVisible():
                    return False
                if desk.composer.edit.toPlainText() != text:
                    desk.type(text)
                if not desk.composer.send.isEnabled():
                    return False
                QTest.keyClick(desk.composer.edit, Qt.Key.Key_Return)
            case ["allow"]:
                if not (desk.request.isVisible() and desk.request.once.isEnabled()):
                    return False
                desk.click(desk.request.once)
            case ["continue"]:
                return self._continue()
            case _:
                desk.window.stop(desk.app.quit)
        return True

    def _continue(self) -> bool:
        link = self._desk.main.area.link
        if link.queue.queued and link.queue.paused:
            link.resume()
            return True
        for card in self._desk.cards(LineCard):
            if card.action.isVisible() and card.action.isEnabled():
                self._desk.click(card.action)
                return True
        return False


def main() -> int:
    """Run until the order to quit."""
    app = QApplication(sys.argv[:1])
    app.setQuitOnLastWindowClosed(False)
    desk = Desk(app=app, home=Path(os.environ["HOME"]))
    program = WindowProgram(desk)
    desk.window.start()
    code = app.exec()
    program.end()
    return code


if __name__ == "__main__":
    sys.exit(main())
