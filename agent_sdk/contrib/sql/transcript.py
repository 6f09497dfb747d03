"""A session's lines as rows, written by whoever holds the session's lease."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, select

from agent_sdk.contrib.sql import lease as leases
from agent_sdk.contrib.sql.database import SqlBusy, SqlDatabase
from agent_sdk.contrib.sql.holder import LeaseHolder
from agent_sdk.contrib.sql.schema import artifacts, records
from agent_sdk.core.errors import (
    DiskFull,
    SessionDamaged,
    SessionNotFound,
    SessionReadOnly,
    StorageError,
)
from agent_sdk.session.codec import Chain, peek
from agent_sdk.session.state_snapshot import SnapshotFacts
from agent_sdk.session.store import LoadReport, Visit, scan

_Report = TypeVar("_Report", LoadReport, LoadReport | None)

_ROWS_AT_ONCE = 200


class SqlTranscriptStore:
    """One session of one user; see ``TranscriptStore`` for what it promises.

    A session that is not there yet is begun with the first append. An append
    is one transaction: lines and artifacts are there together, or not at all.

    Args:
        database: Where it is.
        user: Whose session it is.
        session_id: The session.
        holder: Holds the session's lease; None only reads.
    """

    def __init__(
        self, *, database: SqlDatabase, user: str, session_id: str, holder: LeaseHolder | None
    ) -> None:
        self._database = database
        self._user = user
        self._session_id = session_id
        self._holder = holder
        self._session: int | None = None
        self._records = 0
        self._bytes = 0
        self._loaded = False
        self._closed = False
        self._newer = False
        self._failed = False

    @property
    def path(self) -> Path | None:
        """None."""
        return None

    @property
    def writable(self) -> bool:
        """Whether appends can succeed."""
        if self._holder is None or self._holder.lost:
            return False
        return not (self._closed or self._newer or self._failed)

    async def load(self, visit: Visit) -> LoadReport:
        """Read the rows, on some other thread; see the protocol."""
        return await self._read(lambda connection: self._scan(connection, visit))

    async def load_after(self, visit: Visit, *, facts: SnapshotFacts) -> LoadReport | None:
        """Read the rows behind a state; see ``LazyTranscript``."""
        return await self._read(lambda connection: self._scan_after(connection, visit, facts))

    async def append(self, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> None:
        """Add lines and artifacts in one transaction; see the protocol."""
        if not lines:
            return
        if self._closed:
            raise StorageError("The session is closed.")
        if self._holder is None or not self.writable:
            raise SessionReadOnly(
                f"The session {self._session_id!r} is not written to any more.",
                hint="Open it again to go on.",
            )
        if not self._loaded:
            await self._begin()
            self._refuse_what_exists()
        held = self._holder.lease
        count, size = self._records + len(lines), self._bytes + sum(len(line) + 1 for line in lines)

        def work(connection: Connection) -> None:
            leases.renew(connection, held, records=count, bytes=size)
            _put_artifacts(connection, held.session, blobs)
            connection.execute(
                records.insert(),
                [
                    {"session": held.session, "position": position, "line": line}
                    for position, line in enumerate(lines, self._records)
                ],
            )

        try:
            await self._database.write(work)
        except (DiskFull, SqlBusy):
            raise  # nothing was written: the next one may succeed
        except BaseException:
            self._failed = True  # nobody knows what is in the database
            raise
        self._records, self._bytes = count, size

    def blob(self, name: str) -> bytes | None:
        """Read an artifact by its hash, on this thread."""
        session = self._session
        if session is None:
            return None
        found: bytes | None = self._database.read_here(
            lambda connection: connection.execute(
                select(artifacts.c.content).where(
                    artifacts.c.session == session, artifacts.c.sha256 == name
                )
            ).scalar()
        )
        return found

    async def close(self) -> None:
        """Give the lease back; may be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._holder is not None:
            await self._holder.release()

    # ------------------------------------------------------------- opening

    async def _read(self, work: Callable[[Connection], _Report]) -> _Report:
        """Become the owner, unless this only reads, and read."""
        if self._holder is None:
            self._session = await self._database.read(self._find)
            if self._session is None:
                raise SessionNotFound(
                    f"There is no session {self._session_id!r} of the user {self._user!r}."
                )
            return await self._database.read(work)
        try:
            await self._begin()
            report = await self._database.read(work)
            if report is not None:
                self._newer = report.newer
                if report.newer:
                    await self._holder.release()
                    return report
                self._check(report)
        except BaseException:
            await self._holder.release()
            raise
        return report

    async def _begin(self) -> None:
        if self._holder is None or self._loaded:
            return
        holding = await self._holder.take()
        self._session = holding.lease.session
        self._records, self._bytes = holding.records, holding.bytes
        self._loaded = True

    def _refuse_what_exists(self) -> None:
        if self._records:
            self._failed = True
            raise StorageError(
                f"The session {self._session_id!r} exists already.",
                hint="Resume the session, or start one with another id.",
            )

    def _find(self, connection: Connection) -> int | None:
        return leases.find(connection, user=self._user, session_id=self._session_id)

    def _scan(self, connection: Connection, visit: Visit, chain: Chain | None = None) -> LoadReport:
        first = chain.count if chain else 0
        found = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(
            select(records.c.line)
            .where(records.c.session == self._session, records.c.position >= first)
            .order_by(records.c.position)
        )
        return scan(_readline(found.scalars()), visit, chain=chain)

    def _scan_after(
        self, connection: Connection, visit: Visit, facts: SnapshotFacts
    ) -> LoadReport | None:
        last = connection.execute(
            select(records.c.line).where(
                records.c.session == self._session, records.c.position == facts.count - 1
            )
        ).scalar()
        found = peek(bytes(last)) if last is not None else None
        if found is None or found[1] != facts.last_uuid:
            return None
        chain = Chain(header=facts.header, last_uuid=facts.last_uuid, count=facts.count)
        return self._scan(connection, visit, chain)

    def _check(self, report: LoadReport) -> None:
        """Refuse to go on where records are broken; a database has no torn tail."""
        broken = [*report.damage, *([report.torn] if report.torn else [])]
        if broken:
            first = broken[0]
            raise SessionDamaged(
                f"The session {self._session_id!r} is damaged in {len(broken)} place(s), first: "
                f"record {first.number} {first.reason}.",
                hint="It can still be read; to go on, start a new session. Nothing was changed.",
            )


def _readline(lines: Iterator[Any]) -> Callable[[int], bytes]:
    def readline(_limit: int) -> bytes:
        line = next(lines, None)
        return b"" if line is None else bytes(line) + b"\n"

    return readline


def _put_artifacts(connection: Connection, session: int, blobs: Mapping[str, bytes]) -> None:
    if not blobs:
        return
    there = set(
        connection.execute(
            select(artifacts.c.sha256).where(
                artifacts.c.session == session, artifacts.c.sha256.in_(list(blobs))
            )
        ).scalars()
    )
    new = [
        {"session": session, "sha256": name, "content": content}
        for name, content in blobs.items()
        if name not in there
    ]
    if new:
        connection.execute(artifacts.insert(), new)
