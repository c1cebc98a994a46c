"""Read views on SQLite."""

from laser.engines.sqlite.views.opening import SqliteViews, open_sqlite_views

__all__ = ["SqliteViews", "open_sqlite_views"]
