"""Events of sessions as rows; any number of programs may write and follow them."""

from collections.abc import Callable

import msgspec
from sqlalchemy import Connection, func, select

from agent_sdk.contrib.sql.database import SqlDatabase
from agent_sdk.contrib.sql.schema import events
from agent_sdk.core.errors import StorageError
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.events.log import READ_LIMIT, Listener, Listeners
from agent_sdk.events.wire import Event, EventBody, decode_event, encode_event, is_transient


class SqlEventLog:
    """The events of one user's sessions; see ``EventLog`` for what it promises.

    Args:
        database: Where they are.
        user: Whose sessions they are of.
        ids: Source of event ids.
        clock: Source of their times.
    """

    def __init__(self, *, database: SqlDatabase, user: str, ids: Ids, clock: Clock) -> None:
        self._database = database
        self._user = user
        self._ids = ids
        self._clock = clock
        self._told = Listeners()

    async def append(self, session_id: str, body: EventBody, *, record: str = "") -> Event:
        """Keep the event durably and tell those who listen."""
        draft = Event(
            seq=0,
            id=self._ids.new(),
            at=self._clock.iso(),
            session_id=session_id,
            body=body,
            record=record,
        )
        if is_transient(body):
            self._told.tell(draft)
            return draft

        def work(connection: Connection) -> Event:
            newest = self._newest(connection, session_id)
            event = msgspec.structs.replace(draft, seq=newest + 1)
            connection.execute(
                events.insert().values(
                    user_id=self._user,
                    session_id=session_id,
                    seq=event.seq,
                    body=encode_event(event),
                )
            )
            return event

        event = await self._database.write(work, again=True)
        self._told.tell(event)
        return event

    async def read(
        self, session_id: str, *, since: int = 0, limit: int = READ_LIMIT
    ) -> list[Event]:
        """Return at most ``limit`` events with a seq above ``since``, in order.

        Raises:
            StorageError: If a row holds something that is not an event.
        """
        statement = (
            select(events.c.body)
            .where(
                events.c.user_id == self._user,
                events.c.session_id == session_id,
                events.c.seq > since,
            )
            .order_by(events.c.seq)
            .limit(limit)
        )
        rows = await self._database.read(
            lambda connection: list(connection.execute(statement).scalars())
        )
        try:
            return [decode_event(bytes(row)) for row in rows]
        except msgspec.DecodeError as error:
            raise StorageError(
                f"The events of the session {session_id!r} are damaged after event {since}.",
                hint="Delete their rows; they can be made again from the session.",
            ) from error

    async def count(self, session_id: str) -> int:
        """Return the seq of the session's newest event; 0 if it has none."""
        return await self._database.read(lambda connection: self._newest(connection, session_id))

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Call the listener for each new event of this process; return how to stop."""
        return self._told.listen(session_id, listener)

    def _newest(self, connection: Connection, session_id: str) -> int:
        newest: int | None = connection.execute(
            select(func.max(events.c.seq)).where(
                events.c.user_id == self._user, events.c.session_id == session_id
            )
        ).scalar()
        return newest or 0
