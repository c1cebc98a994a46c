"""The embedded engine: log, key-value store and content catalog in one directory of this machine, for several
processes at once."""

from laser.engines.sqlite.contents import SqliteCatalog, open_sqlite_catalog
from laser.engines.sqlite.kv import SqliteKeyValue, open_sqlite_kv
from laser.engines.sqlite.log import SqliteLog, open_sqlite_log

__all__ = [
    "SqliteCatalog",
    "SqliteKeyValue",
    "SqliteLog",
    "open_sqlite_catalog",
    "open_sqlite_kv",
    "open_sqlite_log",
]
