"""The window's end of the channel: starts the host, speaks with it, starts it again.

Everything happens on the GUI thread, in small slices, so that a burst of
frames never holds up drawing. The bridge keeps no state of the agent's: a new
host is asked for everything again.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias, assert_never

from PySide6.QtCore import QElapsedTimer, QObject, QProcess, QTimer, Signal

from agent_sdk.events.wire import WIRE_VERSION
from desktop.bridge.frames import (
    PROTOCOL_VERSION,
    AnswerFrame,
    ChunkFrame,
    CommandFrame,
    EventFrame,
    Frame,
    FrameError,
    FrameReader,
    Hello,
    StateFrame,
    encode,
)
from desktop.bridge.messages import ErrorInfo
from desktop.bridge.protocol import Answer, Command, Failed, Shutdown, Subscribe

OnAnswer: TypeAlias = Callable[[Answer], None]

SLICE_MS = 6
"""How long frames are handled before the event loop has its turn."""

RESTART_AFTER_MS = (0, 500, 2000, 5000)
"""Waits before a host that died is started again, by how often it died lately."""

STEADY_SECONDS = 30.0
"""A host that lived so long did not die of how it was started."""

FINAL_CODES = {
    3: "Another ZPI is using the data folder.",
    4: "The host and the window are of different versions.",
    5: "The data folder cannot be used.",
}
"""Exit codes of a host that would end in the same way again."""

QUIT_MS = 6000
"""How long a host may take to end; then it is killed."""


class Bridge(QObject):
    """The one channel to the host.

    Attributes:
        epoch: The host's; seqs of another one mean nothing. Empty before its greeting.

    Signals:
        state: A ``StateBody``, after a subscription and on each change.
        wire_event: An event of a session that is shown.
        host_lost: The host has ended, with what is known of why.
        host_back: A host has greeted again after one was lost.
    """

    state = Signal(object)
    wire_event = Signal(object)
    host_lost = Signal(str)
    host_back = Signal()

    def __init__(
        self,
        *,
        program: str,
        arguments: Sequence[str],
        log_file: Path,
        version: str,
        language: str,
        parent: QObject | None = None,
    ) -> None:
        """Prepare the bridge; ``start`` starts the host.

        Args:
            program: What starts the host.
            arguments: Its arguments.
            log_file: Where the host's standard error goes; appended to.
            version: The program's version, for the greeting.
            language: The window's language, ``en`` or ``zh``.
            parent: Owner in Qt's sense.
        """
        super().__init__(parent)
        self._program = program
        self._arguments = list(arguments)
        self._log_file = log_file
        self._hello = Hello(version=version, language=language)
        self._process: QProcess | None = None
        self._reader = FrameReader()
        self._frames: deque[Frame] = deque()
        self._pending: dict[int, OnAnswer | None] = {}
        self._early: list[tuple[Command, OnAnswer | None]] = []
        self._topics: dict[str, None] = {}
        self._next = 0
        self._greeted = False
        self._lost = False
        self._deaths = 0
        self._started_at = 0.0
        self._stopping: Callable[[], None] | None = None
        self._draining = False
        self._broken = ""
        self.epoch = ""

    # --------------------------------------------------------------- commands

    def send(self, command: Command, on_answer: OnAnswer | None = None) -> None:
        """Give a command to the host.

        Args:
            command: What to do. Subscriptions are kept and made again with a
                new host; other commands are not repeated.
            on_answer: Called once, later and on this thread, with the answer;
                with ``Failed`` of code ``host_lost`` if there will be none.
        """
        if isinstance(command, Subscribe):
            self._topics[command.topic] = None
        if not self._greeted:
            if self._lost and not isinstance(command, Subscribe):
                self._later(on_answer, _no_host())
                return
            self._early.append((command, on_answer))
            return
        self._write(command, on_answer)

    def _write(self, command: Command, on_answer: OnAnswer | None) -> None:
        self._next += 1
        self._pending[self._next] = on_answer
        self._put(CommandFrame(id=self._next, command=command))

    def _put(self, frame: Frame) -> None:
        if self._process is not None:
            self._process.write(encode(frame))

    @staticmethod
    def _later(on_answer: OnAnswer | None, answer: Answer) -> None:
        if on_answer is not None:
            QTimer.singleShot(0, lambda: on_answer(answer))

    # -------------------------------------------------------------------- life

    def start(self) -> None:
        """Start the host. It is started again whenever it dies, until ``stop``."""
        process = QProcess(self)
        process.setProgram(self._program)
        process.setArguments(self._arguments)
        process.setStandardErrorFile(
            str(self._log_file), QProcess.OpenModeFlag.WriteOnly | QProcess.OpenModeFlag.Append
        )
        process.readyReadStandardOutput.connect(self._on_output)
        process.finished.connect(self._on_finished)
        process.errorOccurred.connect(self._on_error)
        self._process = process
        self._reader = FrameReader()
        self._frames.clear()
        self._greeted = False
        self._broken = ""
        self._started_at = time.monotonic()
        process.start()
        self._put(self._hello)

    def restart(self) -> None:
        """Start the host again after it was given up."""
        if self._process is None:
            self._deaths = 0
            self.start()

    def stop(self, done: Callable[[], None]) -> None:
        """End the host in good order and call back when it is gone."""
        self._stopping = done
        process = self._process
        if process is None or process.state() == QProcess.ProcessState.NotRunning:
            QTimer.singleShot(0, done)
            return
        if self._greeted:
            self._write(Shutdown(), None)
        process.closeWriteChannel()
        QTimer.singleShot(QUIT_MS, process, process.kill)

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            text = self._process.errorString() if self._process else ""
            self._gone(f"The host could not be started: {text}", again=False)

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        if self._broken:
            why = self._broken
        elif status == QProcess.ExitStatus.CrashExit:
            why = "The host was killed or crashed."
        else:
            why = f"The host ended with code {code}."
        if time.monotonic() - self._started_at > STEADY_SECONDS:
            self._deaths = 0
        if status == QProcess.ExitStatus.NormalExit and code in FINAL_CODES:
            self._gone(FINAL_CODES[code], again=False)
            return
        self._gone(why, again=True)

    def _gone(self, why: str, *, again: bool) -> None:
        """The host has ended: fail what waits, say so, and start another one."""
        process, self._process = self._process, None
        if process is not None:
            process.deleteLater()
        self._greeted, self._lost = False, True
        self._frames.clear()
        pending, self._pending = self._pending, {}
        for on_answer in pending.values():
            self._later(on_answer, _no_host())
        if self._stopping is not None:
            self._stopping()
            return
        again = again and self._deaths < len(RESTART_AFTER_MS)
        self.host_lost.emit(why if again else f"{why} It is not started again by itself.")
        if again:
            QTimer.singleShot(RESTART_AFTER_MS[self._deaths], self, self._start_again)
            self._deaths += 1

    def _start_again(self) -> None:
        if self._process is None and self._stopping is None:
            self.start()

    # ------------------------------------------------------------------ frames

    def _on_output(self) -> None:
        process = self._process
        if process is None:
            return
        try:
            self._frames.extend(self._reader.feed(bytes(process.readAllStandardOutput().data())))
        except FrameError as error:
            self._refuse(str(error))
            return
        if not self._draining:
            self._drain()

    def _drain(self) -> None:
        """Handle frames for a few milliseconds, and the rest when the loop comes round."""
        self._draining = True
        timer = QElapsedTimer()
        timer.start()
        while self._frames and timer.elapsed() < SLICE_MS:
            self._take(self._frames.popleft())
        if self._frames:
            QTimer.singleShot(0, self, self._drain)
        else:
            self._draining = False

    def _take(self, frame: Frame) -> None:
        if not self._greeted and not isinstance(frame, Hello):
            self._refuse("The host spoke before its greeting.")
            return
        match frame:
            case EventFrame():
                self.wire_event.emit(frame.event)
            case StateFrame():
                self.state.emit(frame.state)
            case AnswerFrame():
                on_answer = self._pending.pop(frame.id, None)
                if on_answer is not None:
                    on_answer(frame.answer)
            case Hello():
                self._on_hello(frame)
            case CommandFrame():
                self._refuse("The host sent a command.")
            case ChunkFrame():  # the reader puts them together
                self._refuse("The host sent a lone chunk.")
            case _:
                assert_never(frame)

    def _on_hello(self, hello: Hello) -> None:
        if (hello.protocol, hello.wire) != (PROTOCOL_VERSION, WIRE_VERSION):
            self._deaths = len(RESTART_AFTER_MS)
            self._refuse(
                f"The host speaks protocol {hello.protocol}.{hello.wire}, "
                f"the window {PROTOCOL_VERSION}.{WIRE_VERSION}."
            )
            return
        self.epoch = hello.epoch
        self._greeted = True
        came_back, self._lost = self._lost, False
        early, self._early = self._early, []
        fresh = {c.topic for c, _ in early if isinstance(c, Subscribe)}
        for topic in self._topics:
            if topic not in fresh:
                self._write(Subscribe(topic=topic), None)
        for command, on_answer in early:
            self._write(command, on_answer)
        if came_back:
            self.host_back.emit()

    def _refuse(self, why: str) -> None:
        """A host that breaks the protocol is of no use: end it, and say why."""
        self._frames.clear()
        if self._process is not None and not self._broken:
            self._broken = why
            self._process.readyReadStandardOutput.disconnect(self._on_output)
            self._process.kill()


def _no_host() -> Failed:
    return Failed(
        error=ErrorInfo(
            code="host_lost",
            text="The part of ZPI that does the work has ended before it answered.",
            hint="It is started again; try once more.",
        )
    )
