"""Who may write a session: a row with an owner, an epoch and an end.

The database decides, by its own clock. Whoever holds a lease proves it in
the same transaction in which it writes, so a program that slept through its
lease writes nothing once another one has taken the session over.
"""

from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Double, literal_column, select, update

from agent_sdk.contrib.sql.schema import sessions
from agent_sdk.core.errors import SessionLocked

_NOW = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)",
}
"""Seconds since 1970 by the database's clock, as each dialect says it."""


class Lease(Struct, frozen=True, kw_only=True):
    """The right to write one session.

    Attributes:
        session: Key of its row.
        owner: Who holds it.
        epoch: How many leases the session has had, this one included.
        seconds: For how long it is given each time.
    """

    session: int
    owner: str
    epoch: int
    seconds: float


class Holding(Struct, frozen=True):
    """A session's row when its lease was taken: how many records and bytes it has."""

    lease: Lease
    records: int
    bytes: int


def take(
    connection: Connection, *, user: str, session_id: str, owner: str, seconds: float
) -> Holding:
    """Become the one who writes the session; its row is made if there is none.

    Raises:
        SessionLocked: If somebody else holds a lease that has not run out.
        sqlalchemy.exc.IntegrityError: If another program made the row just now.
    """
    now = _now(connection)
    row = _row(connection, user=user, session_id=session_id)
    if row is None:
        connection.execute(
            sessions.insert().values(
                user_id=user,
                session_id=session_id,
                records=0,
                bytes=0,
                writer="",
                epoch=0,
                expires_at=0.0,
            )
        )
        row = _row(connection, user=user, session_id=session_id)
    key = row.id if row is not None else 0
    free = (sessions.c.writer == "") | (sessions.c.expires_at < now)
    taken = connection.execute(
        update(sessions)
        .where(sessions.c.id == key, free)
        .values(writer=owner, epoch=sessions.c.epoch + 1, expires_at=now + seconds)
    )
    row = _row(connection, user=user, session_id=session_id)
    if taken.rowcount != 1 or row is None:
        left = max(row.left, 0.0) if row is not None else 0.0
        raise SessionLocked(
            f"Another program is writing the session {session_id!r}.",
            hint=f"Close it there; if that program has died, try again in {left + 1:.0f} s.",
        )
    lease = Lease(session=row.id, owner=owner, epoch=row.epoch, seconds=seconds)
    return Holding(lease, row.records, row.bytes)


def find(connection: Connection, *, user: str, session_id: str) -> int | None:
    """Return the key of the session's row, if it holds records."""
    row = _row(connection, user=user, session_id=session_id)
    return row.id if row is not None and row.records else None


def renew(connection: Connection, lease: Lease, **values: int) -> None:
    """Prove that the lease still holds, prolong it, and set columns of its row.

    Raises:
        SessionLocked: If another program has taken the session over.
    """
    now = _now(connection)
    done = connection.execute(
        update(sessions).where(*_held(lease)).values(expires_at=now + lease.seconds, **values)
    )
    if done.rowcount != 1:
        raise SessionLocked(
            "Another program has taken the session over.",
            hint="This one was not heard of for too long. Open the session again to go on.",
        )


def release(connection: Connection, lease: Lease) -> None:
    """Give the lease back, if it still holds; a session without records is dropped."""
    done = connection.execute(
        update(sessions).where(*_held(lease)).values(writer="", expires_at=0.0)
    )
    if done.rowcount:
        empty = (sessions.c.id == lease.session, sessions.c.records == 0)
        connection.execute(sessions.delete().where(*empty))


def _held(lease: Lease) -> tuple[Any, ...]:
    return (
        sessions.c.id == lease.session,
        sessions.c.writer == lease.owner,
        sessions.c.epoch == lease.epoch,
    )


def _row(connection: Connection, *, user: str, session_id: str) -> "_Row | None":
    columns = (sessions.c.id, sessions.c.epoch, sessions.c.records, sessions.c.bytes)
    left = sessions.c.expires_at - _now(connection)
    found = connection.execute(
        select(*columns, left).where(
            sessions.c.user_id == user, sessions.c.session_id == session_id
        )
    ).one_or_none()
    return _Row(*found) if found is not None else None


class _Row(NamedTuple):
    id: int
    epoch: int
    records: int
    bytes: int
    left: float


def _now(connection: Connection) -> ColumnElement[float]:
    return literal_column(_NOW[connection.dialect.name], Double())


__all__ = ["Holding", "Lease", "find", "release", "renew", "take"]
