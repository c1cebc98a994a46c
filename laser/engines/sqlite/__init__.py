"""The embedded engine: a log and a key-value store in one directory of this machine, for several processes at once."""

from laser.engines.sqlite.kv import SqliteKeyValue, open_sqlite_kv
from laser.engines.sqlite.log import SqliteLog, open_sqlite_log

__all__ = ["SqliteKeyValue", "SqliteLog", "open_sqlite_kv", "open_sqlite_log"]
