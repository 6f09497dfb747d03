"""A session's storage in a database: its transcript and current state under one lease."""

from msgspec import Struct
from sqlalchemy import Connection, delete, select

from agent_sdk.contrib.sql import lease as leases
from agent_sdk.contrib.sql.database import SqlDatabase
from agent_sdk.contrib.sql.holder import LEASE_SECONDS, LeaseHolder
from agent_sdk.contrib.sql.schema import sessions, states
from agent_sdk.contrib.sql.transcript import SqlTranscriptStore
from agent_sdk.core.errors import InvalidInput
from agent_sdk.core.ids import Ids
from agent_sdk.session.current_state import SavedState, saved_from_bytes, saved_to_bytes
from agent_sdk.session.paths import check_session_id
from agent_sdk.session.storage import SessionStorage


class SqlCurrentState:
    """The current state of one session of one user; see ``SessionCurrentState``.

    Args:
        database: Where it is.
        user: Whose session it is.
        session_id: The session.
        holder: Holds the session's lease, without which nothing is saved.
    """

    def __init__(
        self, *, database: SqlDatabase, user: str, session_id: str, holder: LeaseHolder
    ) -> None:
        self._database = database
        self._user = user
        self._session_id = session_id
        self._holder = holder

    async def load(self) -> SavedState | None:
        """Return what was saved last."""
        statement = (
            select(states.c.body)
            .join(sessions, sessions.c.id == states.c.session)
            .where(sessions.c.user_id == self._user, sessions.c.session_id == self._session_id)
        )
        body = await self._database.read(lambda connection: connection.execute(statement).scalar())
        return saved_from_bytes(bytes(body)) if body is not None else None

    async def save(self, state: SavedState) -> None:
        """Put a state in the place of the one before, if the lease still holds."""
        lease, body = self._holder.lease, saved_to_bytes(state)

        def work(connection: Connection) -> None:
            leases.renew(connection, lease)
            connection.execute(delete(states).where(states.c.session == lease.session))
            connection.execute(states.insert().values(session=lease.session, body=body))

        await self._database.write(work)

    async def close(self) -> None:
        """Hold nothing: the transcript gives the lease back."""


class SqlSession(Struct, frozen=True, kw_only=True):
    """A session as a list shows it.

    Attributes:
        session_id: The session.
        records: How many records it has.
        bytes: Their size.
        state: What they came to when it was saved last; None if never.
    """

    session_id: str
    records: int
    bytes: int
    state: SavedState | None


def sql_storage(
    database: SqlDatabase,
    *,
    user: str,
    session_id: str,
    ids: Ids,
    lease_seconds: float = LEASE_SECONDS,
) -> SessionStorage:
    """Return where one session of a user is kept, or will be.

    Args:
        database: The database; it must be open for longer than the session.
        user: Whose session it is; not empty.
        session_id: The session.
        ids: Source of ids.
        lease_seconds: For how long a program that died keeps others from writing.

    Raises:
        InvalidInput: If user or id are unusable.
    """
    if not user:
        raise InvalidInput("A session in a database needs a user.", hint="Name any, such as 'me'.")
    place = {"user": user, "session_id": check_session_id(session_id)}
    holder = LeaseHolder(database=database, owner=ids.new(), seconds=lease_seconds, **place)
    return SessionStorage(
        transcript=SqlTranscriptStore(database=database, holder=holder, **place),
        current_state=SqlCurrentState(database=database, holder=holder, **place),
        session_id=session_id,
    )


async def list_sessions(database: SqlDatabase, *, user: str) -> list[SqlSession]:
    """Return the sessions of a user, in the order in which they were begun.

    Raises:
        StorageError: If the database failed.
    """
    statement = (
        select(sessions.c.session_id, sessions.c.records, sessions.c.bytes, states.c.body)
        .join(states, states.c.session == sessions.c.id, isouter=True)
        .where(sessions.c.user_id == user, sessions.c.records > 0)
        .order_by(sessions.c.id)
    )
    rows = await database.read(lambda connection: list(connection.execute(statement)))
    return [
        SqlSession(
            session_id=row.session_id,
            records=row.records,
            bytes=row.bytes,
            state=saved_from_bytes(bytes(row.body)) if row.body is not None else None,
        )
        for row in rows
    ]
