"""The tables, as the newest version has them; ``migrations`` leads there.

``zpi_sessions`` has one row a session: whose it is, how much it holds, and
who may write it until when. Its records are kept as the lines they are.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

VERSION = 1
"""Version of the tables, kept in ``zpi_meta`` under ``version``."""

metadata = MetaData()

meta = Table(
    "zpi_meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

sessions = Table(
    "zpi_sessions",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("writer", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_at", Double, nullable=False),
    UniqueConstraint("user_id", "session_id"),
)
"""``writer`` is empty while nobody writes; ``epoch`` counts who ever did.
``expires_at`` is in seconds since 1970 by the database's own clock."""

_SESSION = "zpi_sessions.id"

records = Table(
    "zpi_records",
    metadata,
    Column("session", BigInteger, ForeignKey(_SESSION, ondelete="CASCADE"), primary_key=True),
    Column("position", BigInteger, primary_key=True),
    Column("line", LargeBinary, nullable=False),
)
"""``position`` counts from 0; a line has no newline."""

artifacts = Table(
    "zpi_artifacts",
    metadata,
    Column("session", BigInteger, ForeignKey(_SESSION, ondelete="CASCADE"), primary_key=True),
    Column("sha256", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

states = Table(
    "zpi_states",
    metadata,
    Column("session", BigInteger, ForeignKey(_SESSION, ondelete="CASCADE"), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""What a session's records came to when it was saved last."""

events = Table(
    "zpi_events",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Events as they are sent; ``seq`` counts from 1 in each session."""
