"""The model's context as the owner of a session sees it: what fills it, and making room."""

from collections.abc import Callable

from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.core.errors import Aborted
from agent_sdk.loop.types import AgentEvent, CompactionEnded
from agent_sdk.session.busy import Busy
from agent_sdk.session.compacting import (
    Asking,
    CompactionEvent,
    CompactionEvents,
    CompactionRequest,
    SessionCompactor,
    streamed,
    untold,
)
from agent_sdk.session.context_usage import ContextUsage, context_usage
from agent_sdk.session.manager import SessionManager


class ContextControl:
    """The context of one session.

    Args:
        manager: The session's history.
        emit: Where compactions are published.
        asking: Returns with what the model is asked at the moment.
        busy: Whether the session is at work.

    Attributes:
        compactor: Compacts the history; its settings and its hook may be set.
    """

    def __init__(
        self,
        *,
        manager: SessionManager,
        emit: Callable[[AgentEvent], None],
        asking: Callable[[], Asking],
        busy: Busy,
    ) -> None:
        self.compactor = SessionCompactor(manager=manager, settings=CompactionSettings(), emit=emit)
        self._manager = manager
        self._asking = asking
        self._busy = busy

    def usage(self) -> ContextUsage:
        """Return what fills the context, without asking the model."""
        return context_usage(self._manager.state, self._asking(), self.compactor.settings)

    async def compact(
        self,
        request: CompactionRequest | None = None,
        *,
        tell: Callable[[CompactionEvent], None] = untold,
    ) -> CompactionEnded:
        """Compact the conversation now; the session's ``abort`` stops it.

        What is queued or steered meanwhile waits for the next run.

        Args:
            request: What to heed and what stays; the session's settings by default.
            tell: Hears of the progress.

        Returns:
            How it ended; a summary that failed, or was stopped, is part of it.

        Raises:
            InvalidInput: If the session is at work, or a number is out of range.
            StorageError: If the record could not be stored.
        """
        with self._busy.hold() as signal:
            work = self.compactor.run(self._asking(), request or CompactionRequest(), tell=tell)
            try:
                return await signal.guard(work)
            except Aborted:
                return CompactionEnded(status="aborted")

    def compact_stream(self, request: CompactionRequest | None = None) -> CompactionEvents:
        """Compact the conversation now, as ``compact``; yield its progress.

        Closing the generator stops it.
        """
        return streamed(lambda tell: self.compact(request, tell=tell))
