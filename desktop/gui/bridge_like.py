"""What widgets need of the bridge, and nothing more."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from PySide6.QtCore import SignalInstance

from desktop.bridge.protocol import Answer, Command

OnAnswer: TypeAlias = Callable[[Answer], None]


class BridgeLike(Protocol):
    """The window's end of the channel, as widgets see it.

    All of it lives on the GUI thread. The signal of events is not called
    ``event``, because that is a virtual method of every ``QObject``.
    """

    @property
    def state(self) -> SignalInstance:
        """``Signal(object)``: a ``StateBody``, after a subscription and on each change."""
        ...

    @property
    def wire_event(self) -> SignalInstance:
        """``Signal(object)``: an ``agent_sdk.events.wire.Event`` of a session that is shown."""
        ...

    @property
    def host_lost(self) -> SignalInstance:
        """``Signal(str)``: the host has ended; the text says what is known of why."""
        ...

    @property
    def host_back(self) -> SignalInstance:
        """``Signal()``: a new host has greeted; topics are subscribed again already."""
        ...

    def send(self, command: Command, on_answer: OnAnswer | None = None) -> None:
        """Give a command to the host.

        Args:
            command: What to do.
            on_answer: Called once, later and on the GUI thread, with the
                answer; with ``Failed`` also when the host is lost before it.
        """
        ...

    def restart(self) -> None:
        """Start the host again after it was given up; does nothing while one lives."""
        ...
