"""The state database put together (``ports.Database``)."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, insert, select

from agent_sdk.host import Clock, Ids, ZpiError
from desktop.bridge.messages import ErrorInfo
from desktop.host.db import schema
from desktop.host.db.engine import Engine
from desktop.host.db.events import SqlEvents
from desktop.host.db.repositories import (
    SqlCredentials,
    SqlPermissions,
    SqlProjects,
    SqlPrompts,
    SqlProviders,
    SqlSessions,
    SqlSettings,
)
from desktop.host.db.upkeep import back_up, prepare

logger = logging.getLogger("zpi.state")


class StateDatabase:
    """The open database; see ``open_database``.

    Attributes:
        sqlite_version: Version of the library.
        notices: What the user should know about how it was opened.
        fresh: Whether it has just been made, so that lists must be made again.
        install_id: Random id of this installation; part of what credentials are bound to.
        projects: The projects.
        sessions: The session index.
        prompts: The prompts.
        events: The log of events.
        permissions: The questions.
        settings: The settings.
        providers: The user's own providers.
        credentials: Encrypted credentials.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        saver: "Saver",
        ids: Ids,
        clock: Clock,
        install_id: str,
        fresh: bool,
        notices: tuple[ErrorInfo, ...],
    ) -> None:
        self._engine = engine
        self._saver = saver
        self.sqlite_version = sqlite3.sqlite_version
        self.notices = notices
        self.fresh = fresh
        self.install_id = install_id
        self.projects = SqlProjects(store=engine, ids=ids)
        self.sessions = SqlSessions(store=engine)
        self.prompts = SqlPrompts(store=engine)
        self.events = SqlEvents(store=engine, ids=ids, clock=clock)
        self.permissions = SqlPermissions(store=engine)
        self.settings = SqlSettings(store=engine)
        self.providers = SqlProviders(store=engine)
        self.credentials = SqlCredentials(store=engine, ids=ids)

    async def aclose(self) -> None:
        """Write what waits and close; may be called twice.

        Raises:
            StorageError: If it could not be closed in order.
        """
        await asyncio.to_thread(self._saver.stop)
        await self._engine.aclose()


class Saver:
    """Makes the day's copy, in an idle moment and on a thread of its own.

    Args:
        path: The database.
        today: Returns the wall clock, ISO 8601.
    """

    def __init__(self, *, path: Path, today: Callable[[], str]) -> None:
        self._path = path
        self._today = today
        self._day = ""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def on_idle(self) -> None:
        """Begin today's copy if there is none; comes from the writer's thread."""
        now = self._today()
        if self._day == now[:10] or self._stopped.is_set():
            return
        self._day = now[:10]
        thread = threading.Thread(
            target=self._save, args=(now,), name="zpi-state-copy", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system has no threads left; writing goes on
            logger.warning("no copy of the state database could be made: %s", error)
        else:
            self._thread = thread

    def _save(self, now: str) -> None:
        try:
            back_up(self._path, now=now, stop=self._stopped.is_set)
        except ZpiError as error:
            logger.warning("no copy of the state database could be made: %s", error)

    def stop(self) -> None:
        """Give up a copy that is being made, and wait for that."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()


async def open_database(path: Path, *, ids: Ids, clock: Clock) -> StateDatabase:
    """Open the state database; make, mend or migrate it first where that is needed.

    The caller must own the folder: nobody else may have the database open.

    Args:
        path: The file, absolute; its folder is made if it is missing.
        ids: Source of ids.
        clock: Source of times.

    Raises:
        StorageError: If it cannot be opened, or was written by a newer version.
    """
    prepared = await asyncio.to_thread(prepare, path, now=clock.iso())
    saver = Saver(path=path, today=clock.iso)
    engine = Engine(path=path, idle=saver.on_idle)
    new_id = ids.new()
    try:
        install_id = await engine.write(lambda connection: _install_id(connection, new_id))
    except BaseException:
        await engine.aclose()
        raise
    logger.info("state database open, SQLite %s", sqlite3.sqlite_version)
    return StateDatabase(
        engine=engine,
        saver=saver,
        ids=ids,
        clock=clock,
        install_id=install_id,
        fresh=prepared.fresh,
        notices=prepared.notices,
    )


def _install_id(connection: Connection, new_id: str) -> str:
    query = select(schema.meta.c.value).where(schema.meta.c.name == "install_id")
    found = connection.scalar(query)
    if found is None:
        connection.execute(insert(schema.meta).values(name="install_id", value=new_id))
    return found or new_id
