"""The times that records get."""

from __future__ import annotations

from laser.engines.sqlite.lockfile import LockFile

__all__ = ["Stamps"]


class Stamps:
    """Gives each append a time later than that of every append before it, in all partitions and processes.

    A reader merges partitions by time. If two appends could have one time, or a later one an earlier time, a message
    could come up before others that were folded already. The newest time lies in the lock file, which is at hand
    whenever a time is given out. Should it get lost, the clock alone decides until it has moved on; within a partition
    times never go back in any case.

    Every method is called with the lock held.
    """

    def __init__(self, lock: LockFile) -> None:
        self._lock = lock
        self._last = self._kept = 0

    def refresh(self) -> None:
        """Learns what other processes have given out."""
        self._kept = self._lock.mark()
        self._last = max(self._last, self._kept)

    def next(self, now: int, newest: int) -> int:
        """The time of an append to a partition whose newest record has a time, microseconds since 1970 UTC."""
        self._last = max(now, newest, self._last + 1)
        return self._last

    def keep(self) -> None:
        """Tells other processes; before the commit, so that no record is newer than what they know."""
        if self._last != self._kept:
            try:
                self._lock.set_mark(self._last)
            except OSError:
                return  # such as a full disk, of which the commit will tell; the next one tries again
            self._kept = self._last
