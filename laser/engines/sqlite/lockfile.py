"""The lock that writers of one directory pass around."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Final, TypeVar
from zlib import crc32

from laser.engines._fork import call_in_child

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["LockFile"]

T = TypeVar("T")

_MARK: Final = struct.Struct("<QI")
_MARK_AT: Final = 16
_FIRST_PAUSE: Final = 50e-6
_LONGEST_PAUSE: Final = 2e-3


class LockFile:
    """An exclusive lock on a file, free again when its holder closes it or dies.

    SQLite has a write lock of its own. This one is held longer: through the checkpoint that may follow a commit. Up to
    version 3.51.2 SQLite can lose committed pages when one process checkpoints while another writes
    (https://www.sqlite.org/wal.html, "The WAL-reset bug"); behind this lock that cannot happen. And a waiter here sees
    the lock free within 2 ms, where SQLite's own pauses grow to 100 ms.
    """

    def __init__(self, path: str) -> None:
        self._fd: int | None = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        call_in_child(self._forget)

    def acquire(self, keep_waiting: Callable[[], bool]) -> bool:
        """Waits for the lock as long as ``keep_waiting()`` says so. Returns whether it was had."""
        pause = _FIRST_PAUSE
        while not self._try():
            if not keep_waiting():
                return False
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return True

    def release(self) -> None:
        """Gives the lock up."""
        if self._fd is not None:
            if sys.platform == "win32":
                msvcrt.locking(self._fd, msvcrt.LK_UNLCK, 1)
            else:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def is_gone(self) -> bool:
        """Whether the file was removed, and most likely all beside it: what is written there ends with this process."""
        return self._fd is not None and os.fstat(self._fd).st_nlink == 0

    def mark(self) -> int:
        """The number that a holder of the lock left in the file; 0 where there is none that makes sense."""
        data = self._at_mark(lambda fd: os.read(fd, _MARK.size))
        if len(data) != _MARK.size:
            return 0
        value, check = _MARK.unpack(data)
        number: int = value
        return number if check == crc32(data[:8]) else 0

    def set_mark(self, value: int) -> None:
        """Leaves a number, unsigned 64 bits, for the next holders of the lock."""
        data = value.to_bytes(8, "little")
        self._at_mark(lambda fd: os.write(fd, data + crc32(data).to_bytes(4, "little")))

    def _at_mark(self, call: Callable[[int], T]) -> T:
        if self._fd is None:
            raise ValueError("the lock file was closed")
        os.lseek(self._fd, _MARK_AT, os.SEEK_SET)
        try:
            return call(self._fd)
        finally:
            # Where locks cover bytes, as on Windows, the one at the file's position is meant.
            os.lseek(self._fd, 0, os.SEEK_SET)

    def close(self) -> None:
        """Closes the file, and with it gives the lock up. Calling it again does nothing."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _try(self) -> bool:
        if self._fd is None:
            raise ValueError("the lock file was closed")
        try:
            if sys.platform == "win32":
                msvcrt.locking(self._fd, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _forget(self) -> None:
        # A forked child shares the open file: it would keep the lock for its parent even after the parent's death.
        self.close()
