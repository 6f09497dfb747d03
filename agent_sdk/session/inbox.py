"""What waits to be put into a session's runs."""

from collections import deque
from collections.abc import Sequence

from agent_sdk.core.errors import InvalidInput
from agent_sdk.providers.messages import Block, Origin, TextBlock, UserMessage


class SessionInbox:
    """Messages that wait: steered, queued, and sent by others; see ``loop.owner.Inbox``.

    It outlives runs: what no run has taken is there for the next one.
    """

    def __init__(self) -> None:
        self._steered: deque[UserMessage] = deque()
        self._queued: deque[UserMessage] = deque()
        self._mailbox: deque[UserMessage] = deque()

    @property
    def queued(self) -> tuple[UserMessage, ...]:
        """Prompts that wait for the run to end, oldest first."""
        return tuple(self._queued)

    @property
    def mailbox(self) -> tuple[UserMessage, ...]:
        """What others have sent and no run has taken, oldest first."""
        return tuple(self._mailbox)

    def put(self, message: UserMessage) -> None:
        """Add a message behind those of its kind: steered, mailbox, or else queued."""
        self._waiting(message).append(message)

    def take_steering(self) -> list[UserMessage]:
        """Take messages that were steered into the run."""
        return _all(self._steered)

    def take_mailbox(self) -> list[UserMessage]:
        """Take what others have sent."""
        return _all(self._mailbox)

    def take_follow_up(self) -> list[UserMessage]:
        """Take the next queued prompt."""
        return [self._queued.popleft()] if self._queued else []

    def put_back(self, messages: Sequence[UserMessage]) -> None:
        """Take back what could not be stored: it is the next to be taken again."""
        for message in reversed(messages):
            self._waiting(message).appendleft(message)

    def _waiting(self, message: UserMessage) -> deque[UserMessage]:
        match message.origin.kind:
            case "steered":
                return self._steered
            case "mailbox":
                return self._mailbox
            case _:
                return self._queued


def _all(waiting: deque[UserMessage]) -> list[UserMessage]:
    taken = list(waiting)
    waiting.clear()
    return taken


def input_message(content: str | Sequence[Block], origin: Origin) -> UserMessage:
    """Return the message for an input.

    Args:
        content: Text, or blocks.
        origin: Where it comes from.

    Raises:
        InvalidInput: If it is empty.
    """
    blocks = (TextBlock(content),) if isinstance(content, str) else tuple(content)
    if not any(not isinstance(b, TextBlock) or b.text.strip() for b in blocks):
        raise InvalidInput("The prompt is empty.", hint="Say what shall be done.")
    return UserMessage(content=blocks, origin=origin)
