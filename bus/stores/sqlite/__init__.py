"""The embedded store: SQLite files in one directory, one per day and retention class, and one for unfinished work."""

from bus.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
