"""When the write-ahead log goes back into the database file, and when commits wait for the disk."""

from __future__ import annotations

import sqlite3
from typing import Final

__all__ = ["Checkpoints"]

_PAGE_BYTES: Final = 4_096
_PAGES: Final = 8_000
"""Pages of log, estimated, after which a commit is followed by a checkpoint: 32 MB."""

_IDLE_PAGES: Final = 1_000
_LONGEST_LOG: Final = 4 * _PAGES
_RESTART_MILLIS: Final = 200


class Checkpoints:
    """Counts what was committed, and moves it from the log to the file.

    A checkpoint waits for the disk twice, so it comes seldom, and rather while nothing else is to be done. SQLite's own
    trigger looks at the log's length instead, which stays over the mark for as long as readers keep the log from being
    begun anew: then every commit would pay for a checkpoint.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._pages = 0
        self._power: bool | None = None

    def set_power(self, power: bool) -> None:
        """Whether the next commit waits for the disk.

        Without it, commits are in the system's cache when they return: the death of a process loses nothing. A power
        cut loses the newest commits and none before them, since each frame of the log carries a checksum over all
        frames before it, and the log reaches the disk before a checkpoint touches the file.
        """
        if power is not self._power:
            self._connection.execute("PRAGMA synchronous = FULL" if power else "PRAGMA synchronous = NORMAL")
            self._power = power

    def wrote(self, jobs: int, size: int) -> None:
        """Notes a commit of that many writes and record bytes."""
        self._pages += 2 + jobs + size * 3 // (2 * _PAGE_BYTES)

    def wanted(self, *, idle: bool) -> bool:
        """Whether enough was committed since the last checkpoint."""
        return self._pages >= (_IDLE_PAGES if idle else _PAGES)

    def run(self) -> None:
        """Writes the log back. The caller holds the lock file, not a transaction."""
        self._pages = 0
        _, length, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if length > _LONGEST_LOG:
            # Readers were always in the way of a new beginning. This one waits for them a little; new ones pass by it.
            (patience,) = self._connection.execute("PRAGMA busy_timeout").fetchone()
            self._connection.execute(f"PRAGMA busy_timeout = {_RESTART_MILLIS:d}")
            try:
                self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {patience:d}")
