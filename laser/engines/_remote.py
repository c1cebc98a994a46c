"""Calls of a blocking driver to a remote store: in threads, each with a deadline, on connections that heal."""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import anyio
import anyio.to_thread

from laser.engines._loop import HomeLoop
from laser.errors import ClosedError, DeadlineError, DisconnectedError, LaserError

__all__ = ["Driver", "Failure", "Remote"]

C = TypeVar("C")
T = TypeVar("T")

_MOST_CALLS: Final = 16
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5
# Firewalls forget silent connections, often after minutes; a new one costs milliseconds.
_IDLE_SECONDS: Final = 60.0
# One attempt to connect; where an address does not answer another attempt, perhaps to another address, may do better.
_CONNECT_SECONDS: Final = 5.0
_LEAST_SECONDS: Final = 0.001


class Failure(NamedTuple):
    """A driver's error in laser's words.

    Attributes:
        error: to be raised. refused: whether the server turned the call away for now, before doing anything.
    """

    error: LaserError
    refused: bool = False


class Driver(Protocol[C]):
    """What an engine knows about its driver. All methods are called in worker threads but ``abort``, which must not
    block.

    Attributes:
        what: the store in words, without credentials, for error texts. errors: what the driver raises.
    """

    what: str
    errors: tuple[type[Exception], ...]

    def connect(self, seconds: float, begun: Callable[[C], object]) -> C:
        """A new connection, made within about that time.

        Args:
            begun: told of the connection as soon as there is something to ``abort``.
        """
        ...

    def usable(self, connection: C) -> bool:
        """Whether an idle connection is open, with nothing unread in it."""
        ...

    def abort(self, connection: C) -> None:
        """Makes a call end soon that another thread is in."""
        ...

    def close(self, connection: C) -> None:
        """Closes a connection, whatever its state. Never raises."""
        ...

    def translate(self, error: Exception) -> Failure:
        """The laser error for one of ``errors``."""
        ...


class Remote(Generic[C]):
    """A remote store's connections, and the threads that work on them.

    A connection that fails is thrown away. A call that could not be sent, was turned away, or may be repeated is tried
    again on a new one until its deadline, so a server may restart in between.

    Args:
        timeout: seconds that a call may take, waiting for a thread and a connection included.
    """

    def __init__(self, driver: Driver[C], timeout: float) -> None:
        self.driver = driver
        self.timeout = timeout
        self._home = HomeLoop(driver.what)
        self._slots = anyio.CapacityLimiter(_MOST_CALLS)
        # The slots are the bound: they stay taken until a thread has really ended, also when its task has gone.
        self._threads = anyio.CapacityLimiter(math.inf)
        self._idle: _Idle[C] = _Idle(driver)
        self._under_way = 0
        self._quiet = anyio.Event()
        self._ended = anyio.Event()
        self.closed = False

    async def call(self, work: Callable[[C], T], *, repeatable: bool, patient: bool = True) -> T:
        """Does some work on a connection, in a thread.

        Args:
            repeatable: whether doing it twice is as good as once.
            patient: whether to wait for a server that cannot be reached now. One that is silent, or says that it is not
                ready yet, is waited for in any case.

        Raises:
            ClosedError, DeadlineError: see ``KeyValue``. Else what ``translate`` makes of the driver's errors.
        """
        self._home.check()
        if self.closed:
            raise ClosedError(f"{self.driver.what} was closed; open it again")
        call: _Call[C] = _Call(self.timeout)
        self._under_way += 1
        try:
            with anyio.move_on_after(self.timeout):
                return await self._in_thread(call, work, repeatable, patient)
            raise self._late(repeatable)
        finally:
            self._under_way -= 1
            if self.closed and not self._under_way:
                self._quiet.set()

    async def aclose(self) -> None:
        """Closes the connections once every call under way has ended. Calling it again waits for the same end."""
        self._home.check()
        if self.closed:
            await self._ended.wait()
            return
        self.closed = True
        try:
            if self._under_way:
                await self._quiet.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._idle.close, limiter=self._threads)
            self._ended.set()

    def forget(self, owner: object) -> None:
        """For ``__del__`` of a store: warns when it was not closed, and closes what can be closed without a loop."""
        if not self.closed and not self._home.forked:
            warnings.warn(f"unclosed {owner!r}", ResourceWarning, source=owner, stacklevel=3)
            self.closed = True
            self._idle.close()

    # ------------------------------------------------------------------------------------------------- the thread

    async def _in_thread(self, call: _Call[C], work: Callable[[C], T], repeatable: bool, patient: bool) -> T:
        await self._slots.acquire_on_behalf_of(call)
        try:
            return await anyio.to_thread.run_sync(
                self._run, call, work, repeatable, patient, abandon_on_cancel=True, limiter=self._threads
            )
        except BaseException:
            if call.claim():  # the thread has not begun, and never will
                self._slots.release_on_behalf_of(call)
            else:
                call.abandon(self.driver)
            raise

    def _run(self, call: _Call[C], work: Callable[[C], T], repeatable: bool, patient: bool) -> T:
        if not call.claim():
            raise _Abandoned
        try:
            return self._attempts(call, work, repeatable, patient)
        finally:
            self._home.post(self._slots.release_on_behalf_of, call)

    def _attempts(self, call: _Call[C], work: Callable[[C], T], repeatable: bool, patient: bool) -> T:
        pause = _FIRST_PAUSE
        while True:
            sent = False
            try:
                connection = self._idle.take() or self.driver.connect(min(call.left, _CONNECT_SECONDS), call.attach)
                sent = True
                return self._work(call, connection, work)
            except self.driver.errors as error:
                call.detach()
                failure = self.driver.translate(error)
                if not (self._again(failure, sent, repeatable, patient) and call.pause(pause)):
                    raise failure.error from error
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _again(self, failure: Failure, sent: bool, repeatable: bool, patient: bool) -> bool:
        """Whether another attempt may do better, and does no harm."""
        if failure.refused:
            return True
        if not sent and isinstance(failure.error, DeadlineError):
            return True
        return isinstance(failure.error, DisconnectedError) and patient and (repeatable or not sent)

    def _work(self, call: _Call[C], connection: C, work: Callable[[C], T]) -> T:
        good = False
        try:
            if not call.attach(connection):
                good = True
                raise _Abandoned
            try:
                result = work(connection)
            finally:
                # From here on nobody aborts it; who did so before has spoilt it.
                untouched = call.detach()
            good = untouched
            return result
        finally:
            if good:
                self._idle.put(connection)
            else:
                self.driver.close(connection)

    def _late(self, repeatable: bool) -> DeadlineError:
        then = "call again" if repeatable else "the write may or may not have happened: read to find out"
        return DeadlineError(
            f"{self.driver.what} did not answer within {self.timeout:g} s; {then}", seconds=self.timeout
        )


class _Call(Generic[C]):
    """One call on its way, shared by its task and its thread."""

    def __init__(self, timeout: float) -> None:
        self._deadline = time.monotonic() + timeout
        self._claim = threading.Lock()
        self._lock = threading.Lock()
        self._abandoned = threading.Event()
        self._connection: list[C] = []

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return max(self._deadline - time.monotonic(), _LEAST_SECONDS)

    def claim(self) -> bool:
        """``True`` for the first caller only: the thread that begins, or the task that will not wait for it."""
        return self._claim.acquire(blocking=False)

    def pause(self, seconds: float) -> bool:
        """Waits before another attempt. Returns whether there may be one."""
        if self.left <= seconds:
            return False
        return not self._abandoned.wait(seconds)

    def attach(self, connection: C) -> bool:
        """Notes which connection the thread works on. Returns whether anybody still waits for it."""
        with self._lock:
            if self._abandoned.is_set():
                return False
            self._connection = [connection]
            return True

    def detach(self) -> bool:
        """The thread is done with it. Returns whether it was left alone."""
        with self._lock:
            self._connection = []
            return not self._abandoned.is_set()

    def abandon(self, driver: Driver[C]) -> None:
        """The task has gone: the thread is to end soon."""
        with self._lock:
            self._abandoned.set()
            for connection in self._connection:
                driver.abort(connection)


class _Idle(Generic[C]):
    """Connections that nobody works on now, the newest on top."""

    def __init__(self, driver: Driver[C]) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._stack: list[tuple[C, float]] = []
        self._closed = False

    def take(self) -> C | None:
        """One that is fit for use, ``None`` where a new one is needed."""
        while True:
            with self._lock:
                if not self._stack:
                    return None
                connection, since = self._stack.pop()
            if time.monotonic() - since < _IDLE_SECONDS and self._driver.usable(connection):
                return connection
            self._driver.close(connection)

    def put(self, connection: C) -> None:
        with self._lock:
            if not self._closed:
                self._stack.append((connection, time.monotonic()))
                return
        self._driver.close(connection)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            stack, self._stack = self._stack, []
        for connection, _ in stack:
            self._driver.close(connection)


class _Abandoned(Exception):
    """Nobody waits for the result any more."""
