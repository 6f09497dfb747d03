"""Where a session's events go out: subscribers come after the durable record."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from agent_sdk.loop.types import AgentEvent

Subscriber: TypeAlias = Callable[[AgentEvent], None]

logger = logging.getLogger("zpi.session")


class EventHub:
    """Tells subscribers of events, in the order of their subscription.

    A subscriber that fails is a diagnostic, never the run's affair: it is
    logged once and not called again.
    """

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call the subscriber for each event from now on; return how to stop."""
        self._subscribers.append(subscriber)

        def stop() -> None:
            with suppress(ValueError):
                self._subscribers.remove(subscriber)

        return stop

    def emit(self, event: AgentEvent) -> None:
        """Publish an event; never raises."""
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(event)
            except Exception as error:  # noqa: BLE001 - whatever a display does wrong
                with suppress(ValueError):
                    self._subscribers.remove(subscriber)
                logger.warning("a subscriber failed and is left out: %s", type(error).__name__)
