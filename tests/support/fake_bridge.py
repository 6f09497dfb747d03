"""A bridge without a host: records commands, answers from a script, and says what it is told to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from PySide6.QtCore import QObject, Signal

from agent_sdk.events.wire import Event
from desktop.bridge.messages import ErrorInfo, StateBody
from desktop.bridge.protocol import Answer, Command, Done, Failed
from desktop.gui.bridge_like import BridgeLike, OnAnswer

C = TypeVar("C", bound=Command)
Scripted: TypeAlias = Answer | Callable[..., Answer]


@dataclass(frozen=True)
class Waiting:
    """A command that has not been answered."""

    command: Command
    on_answer: OnAnswer | None


class FakeBridge(QObject):
    """Implements ``BridgeLike``; the test plays the host.

    A command is answered at once by the answer, or by the function, that
    ``script`` holds for its type. ``Done`` answers what is not in the script,
    unless ``hold`` is set: then commands wait in ``held`` for ``answer``. The
    real bridge answers later, never within ``send``; use ``hold`` where that
    makes a difference.
    """

    state = Signal(object)
    wire_event = Signal(object)
    host_lost = Signal(str)
    host_back = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Command] = []
        self.script: dict[type, Scripted] = {}
        self.hold = False
        self.held: list[Waiting] = []
        self.restarts = 0

    def send(self, command: Command, on_answer: OnAnswer | None = None) -> None:
        self.sent.append(command)
        if self.hold:
            self.held.append(Waiting(command, on_answer))
            return
        self._give(on_answer, self._scripted(command))

    def restart(self) -> None:
        self.restarts += 1

    def answer(self, answer: Answer) -> None:
        """Answer the command that has waited longest."""
        waiting = self.held.pop(0)
        self._give(waiting.on_answer, answer)

    def fail(self, kind: type, *, code: str, text: str, hint: str = "") -> None:
        """Let commands of this type fail from now on."""
        self.script[kind] = Failed(error=ErrorInfo(code=code, text=text, hint=hint))

    def publish(self, *states: StateBody) -> None:
        """Let states arrive, in this order."""
        for state in states:
            self.state.emit(state)

    def tell(self, *events: Event) -> None:
        """Let events of transcripts arrive, in this order."""
        for event in events:
            self.wire_event.emit(event)

    def of(self, kind: type[C]) -> list[C]:
        """Return the commands of a type that were sent, in order."""
        return [command for command in self.sent if isinstance(command, kind)]

    def last(self, kind: type[C]) -> C:
        """Return the newest command of a type."""
        found = self.of(kind)
        assert found, f"no {kind.__name__} was sent, but {self.sent!r}"
        return found[-1]

    def _scripted(self, command: Command) -> Answer:
        scripted = self.script.get(type(command))
        if scripted is None:
            return Done()
        return scripted(command) if callable(scripted) else scripted

    @staticmethod
    def _give(on_answer: OnAnswer | None, answer: Answer) -> None:
        if on_answer is not None:
            on_answer(answer)


def as_bridge(fake: FakeBridge) -> BridgeLike:
    """Return the same; the type checker holds the fake to the protocol here."""
    return fake
