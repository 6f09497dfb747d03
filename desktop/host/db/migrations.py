"""From any older ``state.sqlite`` to the newest: one function a version, nothing else.

A function that has been released is never changed. They are written in SQL,
not with the tables of ``schema``, which describe the newest version only.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sqlalchemy import Connection

Migration: TypeAlias = Callable[[Connection], None]


def to_1(connection: Connection) -> None:
    """Make the first version's tables."""
    for statement in _VERSION_1:
        connection.exec_driver_sql(statement)


_VERSION_1 = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)",
    "CREATE TABLE projects (id TEXT PRIMARY KEY NOT NULL, path TEXT NOT NULL UNIQUE,"
    " name TEXT NOT NULL, position INTEGER NOT NULL, hidden INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE sessions (id TEXT PRIMARY KEY NOT NULL,"
    " project_id TEXT NOT NULL REFERENCES projects (id),"
    " title TEXT NOT NULL, last_used TEXT NOT NULL, status TEXT NOT NULL, run_id TEXT NOT NULL,"
    " unread INTEGER NOT NULL, path TEXT NOT NULL, error_code TEXT NOT NULL, error TEXT NOT NULL)",
    "CREATE INDEX sessions_by_project ON sessions (project_id)",
    "CREATE TABLE prompts (position INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " session_id TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, record TEXT NOT NULL)",
    "CREATE INDEX prompts_waiting ON prompts (session_id, position) WHERE record = ''",
    "CREATE TABLE events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL,"
    " at TEXT NOT NULL, record TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (session_id, seq))",
    "CREATE TABLE permissions (position INTEGER PRIMARY KEY AUTOINCREMENT,"
    " request_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL, run_id TEXT NOT NULL,"
    " asked BLOB NOT NULL, reply TEXT NOT NULL, reason TEXT NOT NULL)",
    "CREATE INDEX permissions_waiting ON permissions (position) WHERE reply = ''",
    "CREATE TABLE settings (scope TEXT PRIMARY KEY NOT NULL, revision INTEGER NOT NULL,"
    " body BLOB NOT NULL)",
    "CREATE TABLE providers (position INTEGER PRIMARY KEY AUTOINCREMENT,"
    " name TEXT NOT NULL UNIQUE, api TEXT NOT NULL, base_url TEXT NOT NULL, models BLOB NOT NULL)",
    "CREATE TABLE vault (position INTEGER PRIMARY KEY AUTOINCREMENT, key_id TEXT NOT NULL UNIQUE,"
    " wrapped BLOB NOT NULL)",
    "CREATE TABLE credentials (row_id TEXT PRIMARY KEY NOT NULL, provider TEXT NOT NULL,"
    " origin TEXT NOT NULL, key_id TEXT NOT NULL, counter INTEGER NOT NULL, sealed BLOB NOT NULL,"
    " UNIQUE (provider, origin))",
)


def to_2(connection: Connection) -> None:
    """Note with a data key how its wrapping key is made from a passphrase, if it is."""
    connection.exec_driver_sql("ALTER TABLE vault ADD COLUMN derivation BLOB NOT NULL DEFAULT x''")


MIGRATIONS: Sequence[Migration] = (to_1, to_2)
"""The function at index n leads from version n to version n + 1."""
