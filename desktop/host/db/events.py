"""The log of events: what a window gets when it comes back.

It is derived from the session files and can be made again; it is kept so that
a window that knows a seq gets what came after it, and nothing twice.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select

from agent_sdk.events.wire import Event, EventBody, is_transient
from agent_sdk.host import Change, Clock, Ids, InvalidInput, StorageError
from desktop.host.db import schema
from desktop.host.db.engine import Store

READ_LIMIT = 1000

_rows = schema.events.c
_decoder = msgspec.json.Decoder(EventBody)


# Made once: putting a statement together takes longer than running it.
_NEWEST = select(func.max(_rows.seq)).where(_rows.session_id == bindparam("session"))
_INSERT = insert(schema.events)


class SqlEvents:
    """Events of sessions, in the state database (``ports.Events``).

    Args:
        store: The database.
        ids: Source of event ids.
        clock: Source of their times.
    """

    def __init__(self, *, store: Store, ids: Ids, clock: Clock) -> None:
        self._store = store
        self._ids = ids
        self._clock = clock

    async def append(self, session_id: str, changes: Sequence[Change]) -> Sequence[Event]:
        """Store events together, and return them with their seqs, ids and times.

        Raises:
            InvalidInput: If one of them is transient; those have no seq.
            StorageError: If they could not be stored; none of them is then.
        """
        if not changes:
            return []
        if any(is_transient(change.body) for change in changes):
            raise InvalidInput("A transient event cannot be stored.")
        at = self._clock.iso()
        bodies = [(self._ids.new(), c, msgspec.json.encode(c.body)) for c in changes]

        def work(connection: Connection) -> int:
            last = _last_seq(connection, session_id)
            connection.execute(
                _INSERT,
                [
                    {
                        "session_id": session_id,
                        "seq": seq,
                        "id": event_id,
                        "at": at,
                        "record": change.record,
                        "body": body,
                    }
                    for seq, (event_id, change, body) in enumerate(bodies, last + 1)
                ],
            )
            return last

        last = await self._store.write(work)
        return [
            Event(
                seq=seq,
                id=event_id,
                at=at,
                session_id=session_id,
                body=change.body,
                record=change.record,
            )
            for seq, (event_id, change, _) in enumerate(bodies, last + 1)
        ]

    async def read(
        self, session_id: str, *, since: int = 0, limit: int = READ_LIMIT
    ) -> Sequence[Event]:
        """Return at most ``limit`` events with a seq above ``since``, in order.

        Raises:
            StorageError: If one cannot be understood; deleting the session's
                events makes them be made again.
        """
        query = (
            select(schema.events)
            .where(_rows.session_id == session_id, _rows.seq > since)
            .order_by(_rows.seq)
            .limit(max(limit, 0))
        )
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [_event(row) for row in rows]

    async def last_seq(self, session_id: str) -> int:
        """Return the seq of the newest event; 0 if there is none."""
        return await self._store.read(lambda connection: _last_seq(connection, session_id))

    async def last_record(self, session_id: str) -> str:
        """Return the record of the newest event that has one; empty if none has."""
        query = (
            select(_rows.record)
            .where(_rows.session_id == session_id, _rows.record != "")
            .order_by(_rows.seq.desc())
            .limit(1)
        )
        found = await self._store.read(lambda connection: connection.scalar(query))
        return str(found or "")

    async def delete(self, session_id: str) -> None:
        """Delete a session's events; none is no error."""
        query = delete(schema.events).where(_rows.session_id == session_id)
        await self._store.write(lambda connection: connection.execute(query))


def _last_seq(connection: Connection, session_id: str) -> int:
    return int(connection.scalar(_NEWEST, {"session": session_id}) or 0)


def _event(row: Row[Any]) -> Event:
    try:
        body = _decoder.decode(row.body)
    except msgspec.DecodeError as error:
        raise StorageError(
            f"Event {row.seq} of session {row.session_id!r} cannot be understood.",
            hint="Open the session again: its events are made anew from its file.",
        ) from error
    return Event(
        seq=row.seq,
        id=row.id,
        at=row.at,
        session_id=row.session_id,
        body=body,
        record=row.record,
    )
