"""State topics: whoever subscribes gets all of it, and then what changes."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from agent_sdk.host import InvalidInput
from desktop.bridge.frames import StateFrame
from desktop.bridge.messages import TOPICS, StateBody

Snapshot: TypeAlias = Callable[[], Awaitable[Sequence[StateBody]]]


class Topics:
    """Sends topics to the window, each with a version that grows.

    Args:
        send: Queues a frame.
    """

    def __init__(self, *, send: Callable[[StateFrame], None]) -> None:
        self._send = send
        self._snapshots: dict[str, Snapshot] = {}
        self._versions = dict.fromkeys(TOPICS, 0)
        self._subscribed: set[str] = set()

    def offer(self, topic: str, snapshot: Snapshot) -> None:
        """Say how all of a topic is found out."""
        self._snapshots[topic] = snapshot

    async def subscribe(self, topic: str) -> None:
        """Send all of the topic now, and what changes from now on.

        Raises:
            InvalidInput: If there is no such topic.
        """
        snapshot = self._snapshots.get(topic)
        if snapshot is None:
            raise InvalidInput(
                f"There is no topic {topic!r}.", hint=f"Topics: {', '.join(TOPICS)}."
            )
        bodies = await snapshot()
        self._subscribed.add(topic)
        for body in bodies:
            self._publish(topic, body)

    def publish(self, topic: str, body: StateBody) -> None:
        """Send a change to whoever subscribed."""
        if topic in self._subscribed:
            self._publish(topic, body)

    async def refresh(self, topic: str) -> None:
        """Send all of the topic again, if somebody subscribed."""
        if topic in self._subscribed:
            await self.subscribe(topic)

    def _publish(self, topic: str, body: StateBody) -> None:
        self._versions[topic] += 1
        self._send(StateFrame(version=self._versions[topic], state=body))
