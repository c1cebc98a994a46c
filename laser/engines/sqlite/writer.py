"""The writer's thread: takes every write that is queued and commits them as one group."""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from laser.engines._fork import ForkGate
from laser.engines._loop import HomeLoop
from laser.engines._threads import Job, finish, linger
from laser.engines.sqlite.checkpoints import Checkpoints
from laser.engines.sqlite.errors import DRIVER_ERRORS, locked, removed, translate
from laser.engines.sqlite.lockfile import LockFile
from laser.engines.sqlite.retention import Upkeep
from laser.engines.sqlite.stamps import Stamps
from laser.engines.sqlite.transaction import Known, PowerNeeded, Transaction
from laser.errors import LaserError, StorageError
from laser.ports.clock import Clock

__all__ = ["Unfinished", "Writer"]

_log = logging.getLogger(__name__)

_GROUP_JOBS: Final = 1_024
_GROUP_BYTES: Final = 16 << 20
_IDLE_SECONDS: Final = 0.5
_SWEEP_PAUSE_SECONDS: Final = 0.005
_LAST_LOCK_SECONDS: Final = 1.0


class Unfinished(StorageError):
    """The writer broke down while it worked on a call: what it wrote may or may not be there."""


class Writer:
    """The only writer of this process for one file.

    Args:
        connection: for this thread alone, in autocommit mode. The writer closes it, and the lock.
        timeout: seconds that the write lock is waited for.
        end: finished when the thread has ended and the files are closed.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        lock: LockFile,
        home: HomeLoop,
        path: str,
        clock: Clock,
        timeout: float,
        end: Job[None],
    ) -> None:
        self.upkeep = Upkeep(self._wake)
        self._connection = connection
        self._lock = lock
        self._home = home
        self._path = path
        self._clock = clock
        self._timeout = timeout
        self._gate = ForkGate()
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._pending: deque[Job[Any]] = deque()
        self._group: list[Job[Any]] = []
        self._checkpoints = Checkpoints(connection)
        self._known = Known()
        self._stamps = Stamps(lock)
        self._stopping = False
        self._power = False
        self._failure: BaseException | None = None
        self._end_job = end
        self._others: Sequence[threading.Thread] = ()
        self.thread = threading.Thread(target=self._run, name="laser-sqlite-writer", daemon=True)

    def submit(self, job: Job[Any]) -> None:
        """Queues a write: its ``run`` gets the ``Transaction``. It may run more than once, when a group is begun anew.

        Raises:
            StorageError: the thread has failed.
        """
        if self._failure is not None:
            raise self._broken() from self._failure
        self._queue.put(job)

    def stop(self, *, after: Sequence[threading.Thread]) -> None:
        """Ends the thread once everything queued so far is done, and other threads have closed their connections."""
        self._others = after
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        self._queue.put(None)

    # ------------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            while not (self._stopping and not self._pending and self._queue.empty()):
                self._take()
                if self._pending:
                    self._serve()
                if not self._stopping and self.upkeep.wanted(idle=self._queue.empty()):
                    self._keep_up()
        except BaseException as error:  # noqa: BLE001 - whatever it was, the tasks that wait must be told
            self._failure = error
            _log.exception("%s: the writer failed", self._path)
        finally:
            self._end()

    def _take(self) -> None:
        if not self._pending:
            linger(self._queue)
            if self.upkeep.sweeping:
                patience: float | None = _SWEEP_PAUSE_SECONDS
            else:
                patience = _IDLE_SECONDS if self.upkeep.waiting or self._checkpoints.wanted(idle=True) else None
            try:
                job = self._queue.get(timeout=patience)
            except queue.Empty:
                self._rest()
                return
            if job is not None:
                self._pending.append(job)
        self._drain()

    def _drain(self) -> None:
        while not self._queue.empty():
            job = self._queue.get()
            if job is not None:
                self._pending.append(job)

    def _serve(self) -> None:
        if not self._lock.acquire(self._keep_waiting):
            return
        try:
            self._drain()
            while self._pending and len(self._group) < _GROUP_JOBS:
                job = self._pending.popleft()
                if job.claim():
                    self._group.append(job)
            while self._group:
                with self._gate:
                    done = self._transact(self._group)
                self._home.post(finish, self._group[:done])
                del self._group[:done]
            self._checkpoint(idle=False)
        finally:
            self._lock.release()

    def _keep_waiting(self) -> bool:
        """Called while another process has the lock. Lets go of the writes that have waited long enough."""
        self._drain()
        now, late = time.monotonic(), []
        while self._pending and self._pending[0].deadline <= now:
            job = self._pending.popleft()
            if job.claim():
                job.error = locked(self._path, job.timeout)
                late.append(job)
        if late:
            self._home.post(finish, late)
        return bool(self._pending)

    def _transact(self, group: Sequence[Job[Any]]) -> int:
        """Runs and commits jobs from the front of a group. Returns how many are done, well or not; at least one."""
        db = self._connection
        done = 0
        if self._lock.is_gone():
            for job in group:
                job.error = removed(self._path)
            return len(group)
        try:
            self._begin()
        except DRIVER_ERRORS as error:
            self._roll_back()
            for job in group:
                job.error = translate(error, self._path, self._timeout)
            return len(group)
        try:
            tx = Transaction(db, self._path, self._clock, self._power, self._known, self._stamps)
            for job in group:
                done += 1
                changes = db.total_changes
                job.error = None
                try:
                    job.result = job.run(tx)
                except (*DRIVER_ERRORS, PowerNeeded):
                    raise
                except Exception as error:  # the job's own refusal, for its task
                    job.error = error
                    if db.total_changes != changes:
                        raise _Spoilt from error
                if tx.written >= _GROUP_BYTES:
                    break
            self._stamps.keep()
            db.execute("COMMIT")
        except PowerNeeded:
            self._roll_back()
            self._power = True
            return self._transact(group)
        except (*DRIVER_ERRORS, _Spoilt) as error:
            self._roll_back()
            return self._apart(group[:done], error)
        # Nobody needed the disk this time: the next group does not wait for it either, unless it says so.
        self._power = self._power and tx.used_power
        self._checkpoints.wrote(done, tx.written)
        return done

    def _apart(self, jobs: Sequence[Job[Any]], error: Exception) -> int:
        """After a failure of a group: one bad write must not fail the others, so each gets its own transaction."""
        if len(jobs) == 1:
            if isinstance(error, DRIVER_ERRORS):
                jobs[0].error = translate(error, self._path, self._timeout)
            return 1
        for job in jobs:
            self._transact([job])
        return len(jobs)

    def _begin(self) -> None:
        self._checkpoints.set_power(self._power)
        self._connection.execute("BEGIN IMMEDIATE")
        self._known.refresh(self._connection)
        self._stamps.refresh()

    def _roll_back(self) -> None:
        self._known.forget()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    # ------------------------------------------------------------------------------------------------- upkeep

    def _keep_up(self) -> None:
        """One piece of retention work. A failure is logged: it is no caller's, and the next append tells of it too."""
        if not self._lock.acquire(lambda: False):
            return
        try:
            with self._gate:
                self._begin()
                try:
                    self._known.forget()
                    self.upkeep.run(self._connection, self._path, self._clock.now_micros())
                    self._connection.execute("COMMIT")
                finally:
                    self._roll_back()
            self._checkpoints.wrote(1, 0)
            self._checkpoint(idle=False)
        except (*DRIVER_ERRORS, LaserError) as error:
            _log.warning("%s: retention stopped short: %s", self._path, error)
            self.upkeep.sweeping = False
        finally:
            self._lock.release()

    def _rest(self) -> None:
        """Nothing was queued for a while."""
        if self._checkpoints.wanted(idle=True) and self._lock.acquire(lambda: False):
            try:
                self._checkpoint(idle=True)
            finally:
                self._lock.release()

    def _checkpoint(self, *, idle: bool) -> None:
        if self._checkpoints.wanted(idle=idle):
            try:
                with self._gate:
                    self._checkpoints.run()
            except DRIVER_ERRORS as error:
                # The commits are safe in the write-ahead log; only its size suffers.
                _log.warning("%s: checkpoint failed: %s", self._path, error)

    # ------------------------------------------------------------------------------------------------- the end

    def _end(self) -> None:
        for thread in self._others:
            thread.join()
        patience = time.monotonic() + _LAST_LOCK_SECONDS
        try:
            # The last connection of all processes writes the log back on closing, which is a checkpoint too.
            self._lock.acquire(lambda: time.monotonic() < patience)
            with self._gate:
                self._connection.close()
        except (*DRIVER_ERRORS, OSError) as error:
            _log.warning("%s: closing failed: %s", self._path, error)
        finally:
            self._lock.close()
        self._drain()
        left = [job for job in self._pending if job.claim()]
        for job in left:
            job.error = self._broken()
        for job in self._group:
            job.error = Unfinished(f"{self._path}: the writer failed ({type(self._failure).__name__})", path=self._path)
        left += self._group
        self._home.post(finish, [*left, self._end_job])

    def _broken(self) -> StorageError:
        return StorageError(
            f"{self._path}: the writer failed earlier ({type(self._failure).__name__}); open the log again",
            path=self._path,
        )


class _Spoilt(Exception):
    """A job failed after it had written: its group cannot be committed."""
