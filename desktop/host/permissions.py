"""Questions to the person at the window: durable rows that wait for an answer."""

import asyncio
from collections import defaultdict

from agent_sdk.events.wire import PermissionAskedEvent, PermissionRepliedEvent
from agent_sdk.host import InvalidInput, PermissionAsked, PermissionReply
from desktop.bridge.messages import PermissionsState
from desktop.bridge.protocol import ReplyPermission
from desktop.host.errors import UnknownQuestion
from desktop.host.ports import Permissions
from desktop.host.status import Topics

RESTARTED = "ZPI was closed before it was answered."


class Questions:
    """All questions that wait, of all sessions.

    They wait for as long as their runs do, with a window or without one.

    Args:
        store: Where they are kept.
        topics: Tells the window.
    """

    def __init__(self, *, store: Permissions, topics: Topics) -> None:
        self._store = store
        self._topics = topics
        self._waiting: dict[str, PermissionAskedEvent] = {}
        self._answers: dict[str, asyncio.Future[PermissionReply]] = {}
        self._expired: defaultdict[str, list[PermissionAskedEvent]] = defaultdict(list)
        self._closing = False

    async def start(self) -> None:
        """Expire what an earlier host left unanswered: its runs are gone."""
        for asked in await self._store.expire_all(RESTARTED):
            self._expired[asked.session_id].append(asked)

    def close(self) -> None:
        """The host is about to end: what waits now expires when the next one starts.

        So the next one can say that it was never answered.
        """
        self._closing = True

    async def state(self) -> list[PermissionsState]:
        """Return what waits."""
        return [PermissionsState(waiting=tuple(self._waiting.values()))]

    def waits(self, session_id: str) -> bool:
        """Whether a question of the session waits."""
        return any(asked.session_id == session_id for asked in self._waiting.values())

    def expired(self, session_id: str) -> tuple[PermissionAskedEvent, ...]:
        """Return the questions that the session's last run left unanswered when it was cut."""
        return tuple(self._expired.get(session_id, ()))

    def forget_expired(self, session_id: str) -> None:
        """Speak of those no more: the session went on."""
        self._expired.pop(session_id, None)

    async def ask(self, asked: PermissionAsked) -> PermissionReply:
        """Wait for the answer to a question (``Asker``); the event makes it known."""
        answer: asyncio.Future[PermissionReply] = asyncio.get_running_loop().create_future()
        self._answers[asked.request_id] = answer
        try:
            return await answer
        finally:
            self._answers.pop(asked.request_id, None)

    async def asked(self, event: PermissionAskedEvent, *, run_id: str) -> None:
        """Keep a question; it is shown after that."""
        await self._store.put(event, run_id=run_id)
        self._waiting[event.request_id] = event
        self._publish()

    async def replied(self, event: PermissionRepliedEvent) -> None:
        """Settle a question that was answered, or has expired."""
        if not (self._closing and event.reply == "expired"):
            await self._store.settle(event.request_id, event.reply, reason=event.reason)
        if self._waiting.pop(event.request_id, None) is not None:
            self._publish()

    def reply(self, command: ReplyPermission) -> None:
        """Hand an answer to the run that waits for it.

        Raises:
            UnknownQuestion: If no question of that id and input waits.
            InvalidInput: If *always* was not offered.
        """
        asked = self._waiting.get(command.request_id)
        answer = self._answers.get(command.request_id)
        known = (
            asked is not None
            and asked.session_id == command.session_id
            and asked.input_hash == command.input_hash
        )
        if asked is None or answer is None or answer.done() or not known:
            raise UnknownQuestion(
                f"The question {command.request_id!r} does not wait for an answer with that input.",
                hint="It was answered, has expired, or was about something else.",
            )
        if command.reply == "always" and not asked.can_always:
            raise InvalidInput(
                "This question cannot be answered with 'always'.", hint="Allow it once."
            )
        answer.set_result(
            PermissionReply(
                reply=command.reply, input_hash=command.input_hash, reason=command.reason
            )
        )

    def _publish(self) -> None:
        state = PermissionsState(waiting=tuple(self._waiting.values()))
        self._topics.publish("permissions", state)
