"""The embedded engine: a log in one directory of this machine, for several processes at once."""

from laser.engines.sqlite.log import SqliteLog, open_sqlite_log

__all__ = ["SqliteLog", "open_sqlite_log"]
