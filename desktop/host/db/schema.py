"""The tables of ``state.sqlite``, as the newest version has them.

What a session says is in its JSONL file; the rows here are what the desktop
needs besides: its lists, its queues, its log of events and its keys. Sessions
and events can be made again from the files, the others are written nowhere
else. ``migrations`` brings older files up to this.
"""

from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, MetaData, Table, Text

VERSION = 2
"""Newest version, as ``PRAGMA user_version``."""

APPLICATION_ID = 0x7A706931
"""``PRAGMA application_id`` of our files: "zpi1"."""

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Single values: ``install_id``, ``default_model``."""

projects = Table(
    "projects",
    metadata,
    Column("id", Text, primary_key=True),
    Column("path", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("hidden", Integer, nullable=False),
)
"""Folders; one that was closed stays as a hidden row, so that its id stays the same."""

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("projects.id"), nullable=False),
    Column("title", Text, nullable=False),
    Column("last_used", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("unread", Integer, nullable=False),
    Column("path", Text, nullable=False),
    Column("error_code", Text, nullable=False),
    Column("error", Text, nullable=False),
)

prompts = Table(
    "prompts",
    metadata,
    Column("position", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("session_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("record", Text, nullable=False),
    sqlite_autoincrement=True,
)
"""Prompts; those delivered stay, so that none is taken twice."""

events = Table(
    "events",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("record", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

permissions = Table(
    "permissions",
    metadata,
    Column("position", Integer, primary_key=True),
    Column("request_id", Text, nullable=False, unique=True),
    Column("session_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("asked", LargeBinary, nullable=False),
    Column("reply", Text, nullable=False),
    Column("reason", Text, nullable=False),
    sqlite_autoincrement=True,
)
"""Questions; ``reply`` is empty while one waits."""

settings = Table(
    "settings",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""One JSON object a scope; fields that this version does not know are kept."""

providers = Table(
    "providers",
    metadata,
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("api", Text, nullable=False),
    Column("base_url", Text, nullable=False),
    Column("models", LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)

vault = Table(
    "vault",
    metadata,
    Column("position", Integer, primary_key=True),
    Column("key_id", Text, nullable=False, unique=True),
    Column("wrapped", LargeBinary, nullable=False),
    Column("derivation", LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)
"""Data keys, each encrypted with a key that lies in the system's key ring; or,
where ``derivation`` is not empty, with one that is made from a passphrase."""

credentials = Table(
    "credentials",
    metadata,
    Column("row_id", Text, primary_key=True),
    Column("provider", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("counter", Integer, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
)
