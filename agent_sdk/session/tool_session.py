"""The session as its tools see it."""

from collections.abc import Callable

from agent_sdk.providers.base import PromptSection
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import CustomRecord


class ToolSession:
    """What tools may know of a session, and keep in it; see ``loop.owner.SessionHandle``.

    Args:
        manager: The session's history.
        idle: Whether no run is going on.
        system: Returns the sections of the system prompt in force.
    """

    def __init__(
        self,
        *,
        manager: SessionManager,
        idle: Callable[[], bool],
        system: Callable[[], tuple[PromptSection, ...]],
    ) -> None:
        self._manager = manager
        self._idle = idle
        self._system = system

    @property
    def session_id(self) -> str:
        """Id of the session."""
        return self._manager.session_id

    @property
    def transcript_path(self) -> str:
        """Absolute path of the session's file; empty for one in memory."""
        return str(self._manager.path or "")

    def is_idle(self) -> bool:
        """Whether no run is going on."""
        return self._idle()

    def system_prompt(self) -> str:
        """Return the system prompt in force, its sections joined by empty lines."""
        return "\n\n".join(section.text for section in self._system())

    async def append_custom(self, custom_type: str, data: object) -> str:
        """Keep something with the session; return its record's id."""
        return (await self._manager.append(CustomRecord(custom_type=custom_type, data=data)))[0]
