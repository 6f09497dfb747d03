"""Keeps a session's lease alive for as long as this program has it open."""

import asyncio
import logging

from sqlalchemy import Connection

from agent_sdk.contrib.sql import lease as leases
from agent_sdk.contrib.sql.database import SqlDatabase
from agent_sdk.contrib.sql.lease import Holding, Lease
from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import SessionLocked, StorageError

logger = logging.getLogger("zpi.sql")

LEASE_SECONDS = 30.0
"""How long a program that died keeps others from writing."""


class LeaseHolder:
    """The lease of one session, shared by what writes that session.

    Args:
        database: Where the session is.
        user: Whose it is.
        session_id: The session.
        owner: Who holds it: unique to this opening of the session.
        seconds: For how long it is given each time.

    Attributes:
        lost: Whether another program has taken the session over.
    """

    def __init__(
        self,
        *,
        database: SqlDatabase,
        user: str,
        session_id: str,
        owner: str,
        seconds: float = LEASE_SECONDS,
    ) -> None:
        self.lost = False
        self._database = database
        self._user = user
        self._session_id = session_id
        self._owner = owner
        self._seconds = seconds
        self._lease: Lease | None = None
        self._tasks = TaskOwner(name="lease")

    @property
    def lease(self) -> Lease:
        """The lease.

        Raises:
            SessionLocked: If it is not held.
        """
        if self._lease is None or self.lost:
            raise SessionLocked(
                f"The session {self._session_id!r} is not held by this program.",
                hint="Open it again to go on.",
            )
        return self._lease

    async def take(self) -> Holding:
        """Take the lease and keep it alive from now on.

        Raises:
            SessionLocked: If another program has it.
            StorageError: If the database failed.
        """
        holding = await self._database.write(
            lambda connection: leases.take(
                connection,
                user=self._user,
                session_id=self._session_id,
                owner=self._owner,
                seconds=self._seconds,
            ),
            again=True,
        )
        self._lease = holding.lease
        self._tasks.start(self._keep(holding.lease), name=self._session_id)
        return holding

    async def release(self) -> None:
        """Give it back, if it is held; may be called twice.

        Raises:
            StorageError: If the database failed; the lease runs out then.
        """
        lease, self._lease = self._lease, None
        self._tasks.cancel()
        await self._tasks.drain()
        if lease is not None and not self.lost:
            await self._database.write(lambda connection: leases.release(connection, lease))

    async def _keep(self, lease: Lease) -> None:
        def renew(connection: Connection) -> None:
            leases.renew(connection, lease)

        while True:
            await asyncio.sleep(self._seconds / 3)
            try:
                await self._database.write(renew)
            except SessionLocked:
                self.lost = True
                logger.warning("another program has taken over a session that was open here")
                return
            except StorageError as error:
                # The next try may do; whoever writes finds out for himself.
                logger.warning("a lease could not be prolonged: %s", error.code)
