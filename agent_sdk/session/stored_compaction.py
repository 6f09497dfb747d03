"""Compaction of a session that nobody has open, by its id."""

from collections.abc import Callable
from pathlib import Path

from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.loop.types import CompactionEnded
from agent_sdk.providers.base import Provider
from agent_sdk.providers.models import Model
from agent_sdk.session.compacting import (
    Asking,
    CompactionEvent,
    CompactionEvents,
    CompactionRequest,
    SessionCompactor,
    streamed,
    untold,
)
from agent_sdk.session.manager import SessionManager


async def compact_session(
    session_id: str,
    *,
    sessions_dir: str | Path,
    provider: Provider,
    model: Model,
    ids: Ids,
    clock: Clock,
    settings: CompactionSettings | None = None,
    request: CompactionRequest | None = None,
    thinking_level: str = "",
    tell: Callable[[CompactionEvent], None] = untold,
) -> CompactionEnded:
    """Compact a session that nobody has open.

    Args:
        session_id: Its id, or a unique beginning of at least 8 characters.
        sessions_dir: Folder of all sessions.
        provider: The connection to the model; it stays the caller's.
        model: The model that writes the summary.
        ids: Source of ids.
        clock: Source of time.
        settings: What stays; the defaults if not given.
        request: What to heed and what stays.
        thinking_level: Reasoning level for the summary.
        tell: Hears of the progress.

    Returns:
        How it ended; a summary that failed is part of it.

    Raises:
        InvalidInput: If a setting is out of range, or it is no id.
        SessionNotFound: If there is none.
        SessionLocked: If it is open somewhere.
        StorageError: If it cannot be read, or the record could not be stored.
    """
    manager = await SessionManager.resume(
        session_id=session_id, sessions_dir=sessions_dir, ids=ids, clock=clock
    )
    try:
        compactor = SessionCompactor(
            manager=manager, settings=settings or CompactionSettings(), emit=lambda event: None
        )
        asking = Asking(
            provider=provider,
            model=model,
            system=manager.state.sections,
            thinking_level=thinking_level,
        )
        return await compactor.run(asking, request or CompactionRequest(), tell=tell)
    finally:
        await manager.close()


def compact_session_stream(
    session_id: str,
    *,
    sessions_dir: str | Path,
    provider: Provider,
    model: Model,
    ids: Ids,
    clock: Clock,
    settings: CompactionSettings | None = None,
    request: CompactionRequest | None = None,
    thinking_level: str = "",
) -> CompactionEvents:
    """Compact a session that nobody has open; as ``compact_session``, with its progress.

    Closing the generator stops it; nothing is stored then, unless it was already.
    """
    return streamed(
        lambda tell: compact_session(
            session_id,
            sessions_dir=sessions_dir,
            provider=provider,
            model=model,
            ids=ids,
            clock=clock,
            settings=settings,
            request=request,
            thinking_level=thinking_level,
            tell=tell,
        )
    )
