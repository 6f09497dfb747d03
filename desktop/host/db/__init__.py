"""The state database: engine, schema, migrations and what is kept in it."""

from desktop.host.db.database import StateDatabase, open_database

__all__ = ["StateDatabase", "open_database"]
