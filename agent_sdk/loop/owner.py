"""What a run and its tools see of the session that owns them."""

from collections.abc import Sequence
from typing import Protocol

from agent_sdk.providers.messages import UserMessage


class SessionHandle(Protocol):
    """What a tool may know of its session, and keep in it."""

    @property
    def session_id(self) -> str:
        """Id of the session."""
        ...

    @property
    def transcript_path(self) -> str:
        """Absolute path of the session's file; empty for one in memory."""
        ...

    def is_idle(self) -> bool:
        """Whether no run is going on; false while a tool is running."""
        ...

    def system_prompt(self) -> str:
        """Return the system prompt in force, its sections joined by empty lines."""
        ...

    async def append_custom(self, custom_type: str, data: object) -> str:
        """Keep something with the session, outside the conversation.

        Args:
            custom_type: What it is; a name of the tool's own, such as ``acme.notes``.
            data: JSON.

        Returns:
            Id of the record, which is durable.

        Raises:
            InvalidInput: If it does not fit the format.
            StorageError: If it could not be written.
        """
        ...


class Inbox(Protocol):
    """What waits to be put into a run, in the order in which it came."""

    def take_steering(self) -> list[UserMessage]:
        """Take messages that were steered into the run; may be empty."""
        ...

    def take_mailbox(self) -> list[UserMessage]:
        """Take what others have sent; may be empty.

        Asked for with the first prompt, after a complete batch of calls, and
        after an answer without final text, which then goes on.
        """
        ...

    def take_follow_up(self) -> list[UserMessage]:
        """Take the next queued input when the run would end; may be empty."""
        ...

    def put_back(self, messages: Sequence[UserMessage]) -> None:
        """Take back what was taken and could not be stored, in order. Never raises."""
        ...
