"""The state database: engine, schema, migrations and what is kept in it."""
