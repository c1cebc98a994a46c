"""Connections: opened on demand, replaced when they break or stall, moved to the node that answers.

The driver can reconnect by itself, but then it also sends an unanswered append again, unseen. So that is switched off:
a broken client is thrown away and a fresh one opened, and whoever made the call decides what to do about it.

A driver's client carries one call at a time. Under concurrency a few are opened, up to ``IggyConfig.connections``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Final, NoReturn, TypeVar

from apache_iggy import IggyClient

from laser.engines.iggy.answers import Answer, Expired, Watch
from laser.engines.iggy.config import IggyConfig
from laser.engines.iggy.dialling import PAUSES, Dialler, read_roster
from laser.engines.iggy.errors import DRIVER_ERRORS, Fault, Target, fault_of, translate
from laser.engines.iggy.link import SLOW_BYTES, CallExpired, Link, LinkBroken
from laser.engines.iggy.roster import Node
from laser.errors import CodecError, DeadlineError, DisconnectedError, LaserError

__all__ = ["Links"]

T = TypeVar("T")

_CROWD: Final = 4  # calls in a row on every connection before another one is opened
_GROW_SECONDS: Final = 2.0  # to open another connection while others work
_GROW_AGAIN_SECONDS: Final = 10.0
_GRACE_SECONDS: Final = 3.0  # that a first connection goes on after every address has refused it
_STALL_SECONDS: Final = 5.0  # without an answer before a call moves to a fresh connection
_GARBLED: Final = 3  # answers in a row that do not fit, before they are believed
_CLOSE_SECONDS: Final = 1.0


class Links:
    """The connections of one log.

    Args:
        timeout: seconds that a call may take in all, reconnecting included.
    """

    def __init__(self, config: IggyConfig, timeout: float) -> None:
        self.config = config
        self.timeout = timeout
        self.loop = asyncio.get_running_loop()
        self._links: list[Link] = []
        self._dialler = Dialler(config)
        self._dialling = asyncio.Lock()
        self._no_more_until = 0.0
        self.watch = Watch(self.loop)
        self._stall = min(_STALL_SECONDS, timeout / 2)
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """While it is the same, every answer came over the same connections, so the server did not start anew."""
        return self._epoch

    @property
    def in_doubt(self) -> bool:
        """Whether one of the connections is, see ``Link.in_doubt``."""
        now = self.loop.time()
        return any(link.in_doubt(now) for link in self._links)

    def deadline(self) -> float:
        """When a call that begins now must have ended, in the loop's time."""
        return self.loop.time() + self.timeout

    async def open(self) -> None:
        """Opens the first connection.

        Raises:
            DisconnectedError: no address answers. AuthenticationError, ConfigError: the login or TLS is wrong.
        """
        now = self.loop.time()
        self._add(await self._dialler.connect(now + self.timeout, give_up=now + min(_GRACE_SECONDS, self.timeout)))

    async def on(
        self,
        link: Link,
        request: Callable[[IggyClient], Awaitable[T]],
        deadline: float,
        *,
        size: int = 0,
        settle: bool = False,
    ) -> T:
        """One attempt at a call on a connection.

        Args:
            size: bytes that go over the network, where they are many.
            settle: make sure first that a connection in doubt answers in step.

        Raises:
            LinkBroken, CallExpired: no answer. RuntimeError and others of ``DRIVER_ERRORS``: what the answer is.
        """
        started = self.loop.time()
        until = self.until(started, deadline, size)
        link.busy += 1
        try:
            async with asyncio.timeout_at(until):
                if settle and link.in_doubt(started):
                    await read_roster(link.client)
                return await request(link.client)
        except TimeoutError as error:
            raise self.stalled(link, until < deadline) from error
        except (RuntimeError, CodecError) as error:
            self.raise_if_broken(link, error)
            raise
        finally:
            link.busy -= 1
            link.note(started, self.loop.time(), size)

    def wait(self, link: Link, future: asyncio.Future[T], deadline: float, *, size: int = 0) -> Answer[T]:
        """Like ``on``, for one call of the driver that is under way, and that goes on when the caller is cancelled."""
        return _Call(self, link, future, deadline, size)

    async def repeat(
        self,
        request: Callable[[IggyClient], Awaitable[T]],
        target: Target,
        deadline: float,
        *,
        size: int = 0,
        tolerate: Fault | None = None,
        settle: bool = False,
    ) -> T | None:
        """A call that may be carried out more than once: attempts until one is answered.

        Args:
            tolerate: an answer that is as good as success; the result is ``None`` then. size, settle: see ``on``.

        Raises:
            DisconnectedError, DeadlineError, AuthenticationError, and what ``translate`` makes of the server's answer.
        """
        failures = garbled = 0
        while True:
            try:
                return await self.on(await self.pick(deadline), request, deadline, size=size, settle=settle)
            except LinkBroken as broken:
                failures += 1
                garbled += broken.garbled
                if garbled == _GARBLED and broken.__cause__ is not None:
                    self._raise_answer(broken.__cause__, target)  # fresh connections say the same, so it is one
                await self.pause(failures, deadline, broken)
            except LaserError:
                raise
            except CallExpired as expired:
                raise self.late(target) from expired.__cause__
            except DRIVER_ERRORS as error:
                if tolerate is not None and fault_of(error) is tolerate:
                    return None
                self._raise_answer(error, target)

    async def pause(self, failures: int, deadline: float, broken: LinkBroken) -> None:
        """Waits a little before another attempt.

        Raises:
            DisconnectedError: there is no time left for one.
        """
        rest = deadline - self.loop.time()
        if rest <= 0:
            raise self._dialler.disconnected(str(broken)) from broken.__cause__
        await asyncio.sleep(min(rest, PAUSES[min(failures - 1, len(PAUSES) - 1)]))

    def late(self, target: Target) -> DeadlineError:
        """The error of a call that had no answer in time."""
        return DeadlineError(
            f"{target}: no answer from {self.config.location} within {self.timeout:g} s", seconds=self.timeout
        )

    async def pick(self, deadline: float) -> Link:
        """A connection for the next call: an idle one, the least busy one, or a new one."""
        idle = self.idle()
        if idle is not None:
            return idle
        best: Link | None = None
        for link in self._links:
            if best is None or link.busy < best.busy:
                best = link
        if best is not None and (best.busy < _CROWD or not self._may_grow()):
            return best
        try:
            async with asyncio.timeout_at(deadline):
                await self._dialling.acquire()
        except TimeoutError as error:
            raise self._dialler.disconnected() from error
        try:
            if best is not None:
                return await self._grow(best, deadline)
            if not self._links:
                self._add(await self._dialler.connect(deadline))
            return min(self._links, key=_busy)
        finally:
            self._dialling.release()

    @property
    def all(self) -> Sequence[Link]:
        """The connections that are open."""
        return self._links

    async def another(self, deadline: float) -> None:
        """Opens another connection, unless there is no room for one or none can be made now."""
        if self._links and self._may_grow():
            async with self._dialling:
                await self._grow(self._links[0], deadline)

    def idle(self) -> Link | None:
        """A connection that carries no call now."""
        for link in self._links:
            if not link.busy:
                return link
        return None

    def discard(self, link: Link) -> None:
        """Forgets a connection that is of no use, and idle ones with it: what broke it has most likely broken them."""
        if link in self._links:
            self._epoch += 1
            self._links = [other for other in self._links if other is not link and other.busy]

    async def roster(self, deadline: float) -> tuple[Node, ...]:
        """The nodes as the server that is connected announces them."""
        return await self.repeat(read_roster, Target(), deadline) or ()

    async def close(self) -> None:
        """Logs every connection out and lets go of it."""
        while self._links:
            link = self._links.pop()
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await link.client.logout_user()
            except (TimeoutError, *DRIVER_ERRORS):
                continue  # gone already, so there is nothing to log out of
            finally:
                del link
        await self._dialler.settle()

    def until(self, started: float, deadline: float, size: int) -> float:
        """When to give up one attempt at a call."""
        return min(deadline, started + self._stall + size / SLOW_BYTES)

    def stalled(self, link: Link, time_is_left: bool) -> LinkBroken | CallExpired:
        """Forgets a connection that gave no answer; the error for the call."""
        self.discard(link)
        return LinkBroken(f"no answer from {link.address}") if time_is_left else CallExpired()

    def raise_if_broken(self, link: Link, error: RuntimeError | CodecError) -> None:
        """Forgets the connection and raises ``LinkBroken`` where an error says that it is of no use any more."""
        fault = Fault.GARBLED if isinstance(error, CodecError) else fault_of(error)
        if fault is Fault.BROKEN or (fault is Fault.GARBLED and link.in_doubt(self.loop.time())):
            self.discard(link)
            raise LinkBroken(str(error), garbled=fault is Fault.GARBLED) from error

    def _raise_answer(self, error: BaseException, target: Target) -> NoReturn:
        if isinstance(error, LaserError):
            raise error
        raise translate(error, target, user=self.config.username or "") from error

    def _may_grow(self) -> bool:
        return (
            len(self._links) < self.config.connections
            and not self._dialling.locked()
            and self.loop.time() >= self._no_more_until
        )

    async def _grow(self, spare: Link, deadline: float) -> Link:
        try:
            link = await self._dialler.connect(min(deadline, self.loop.time() + _GROW_SECONDS), give_up=0.0)
        except DisconnectedError:
            # The calls can go on with the connections that there are.
            self._no_more_until = self.loop.time() + _GROW_AGAIN_SECONDS
            return spare
        # If the server that the older connection leads to has not ended since, both lead to the same.
        known = not link.clustered and await self._lives(spare, deadline)
        self._add(link, epoch=not known)
        return link

    async def _lives(self, link: Link, deadline: float) -> bool:
        try:
            await self.on(link, lambda client: client.ping(), deadline)
        except (LinkBroken, CallExpired, *DRIVER_ERRORS):
            return False
        return True

    def _add(self, link: Link, *, epoch: bool = True) -> None:
        self._links.append(link)
        self._epoch += epoch


class _Call(Answer[T]):
    """One call of the driver on a connection, under way."""

    __slots__ = ("_deadline", "_link", "_links", "_size", "_started")

    def __init__(self, links: Links, link: Link, future: asyncio.Future[T], deadline: float, size: int) -> None:
        started = links.loop.time()
        super().__init__(links.loop, future, links.until(started, deadline, size))
        self._links = links
        self._link = link
        self._started = started
        self._deadline = deadline
        self._size = size

    def __await__(self) -> Generator[Any, None, T]:
        links, link, future = self._links, self._link, self.future
        links.watch.add(self)
        link.busy += 1
        try:
            if not future.done():
                self._asyncio_future_blocking = True
                yield self
            return future.result()
        except Expired as error:
            future.cancel()
            raise links.stalled(link, self.until < self._deadline) from error
        except RuntimeError as error:
            links.raise_if_broken(link, error)
            raise
        finally:
            links.watch.remove(self)
            if future.done():
                link.busy -= 1
            else:
                future.add_done_callback(link.free)
            if link.clustered:
                link.note(self._started, links.loop.time(), self._size)


def _busy(link: Link) -> int:
    return link.busy
