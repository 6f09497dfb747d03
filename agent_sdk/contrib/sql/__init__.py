"""Sessions and their events in an SQL database: SQLite, or PostgreSQL for many machines.

Needs the extra ``sql``, and for PostgreSQL a driver (``psycopg``). One
database holds the sessions of many users; each is written by one program at
a time, which the database itself sees to.
"""
