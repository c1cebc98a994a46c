"""Connections: opened on demand, replaced when they break or stall, moved to the node that answers.

The driver can reconnect by itself, but then it also sends an unanswered append again, unseen. So that is switched off:
a broken client is thrown away and a fresh one opened, and whoever made the call decides what to do about it.

A driver's client carries one call at a time. Under concurrency a few are opened, up to ``IggyConfig.connections``.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final, NoReturn, TypeVar

from apache_iggy import AutoLogin, IggyClient, TcpConfig, TcpReconnectionConfig

from laser.engines.iggy.answers import Answer, Expired, Watch
from laser.engines.iggy.config import IggyConfig
from laser.engines.iggy.errors import DRIVER_ERRORS, Fault, Target, fault_of, translate
from laser.engines.iggy.roster import ROSTER_COMMAND, Node, decode_roster
from laser.errors import CodecError, ConfigError, DeadlineError, DisconnectedError, LaserError

__all__ = ["CallExpired", "Link", "LinkBroken", "Links", "Misplaced"]

T = TypeVar("T")

_CROWD: Final = 4  # calls in a row on every connection before another one is opened
_DIAL_SECONDS: Final = 2.0  # for one address; doubled at each round over the addresses
_GRACE_SECONDS: Final = 3.0  # that a first connection goes on after every address has refused it
_STALL_SECONDS: Final = 5.0  # without an answer before a call moves to a fresh connection
_STALL_BYTES: Final = 1_000_000  # that a slow network still carries in a second
_GARBLED: Final = 3  # answers in a row that do not fit, before they are believed
_PAUSES: Final = (0.0, 0.05, 0.1, 0.2, 0.5)
_HEARTBEAT: Final = timedelta(seconds=5)
_SLOW_SECONDS: Final = 0.045  # the driver repeats a call that a node could not take after 0.05 s
_DOUBT_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 1.0
# A thread of the driver still holds Python objects for a moment after its answer was handed over. If the interpreter
# ends in that moment, the driver aborts the process (measured: 11 ends of 40 without a pause, 0 of 40 with one).
_SETTLE_SECONDS: Final = 0.05


_unclosed: set[int] = set()  # numbers, not objects: those that are gone without a close count as well
_numbers = itertools.count()


def _settle_at_exit() -> None:
    if _unclosed:
        time.sleep(_SETTLE_SECONDS)


atexit.register(_settle_at_exit)


class LinkBroken(Exception):
    """The connection broke or stalled under a call; whether the call was carried out is not known.

    Attributes:
        garbled: an answer came, and it does not fit the question.
    """

    def __init__(self, reason: str, *, garbled: bool = False) -> None:
        super().__init__(reason)
        self.garbled = garbled


class Misplaced(RuntimeError):
    """An answer that belongs to another question. Raised by requests, in place of the driver."""

    def __init__(self) -> None:
        super().__init__("Invalid format: the answer does not fit the question")


class CallExpired(Exception):
    """The call's deadline passed while it waited for the answer."""


class Link:
    """One connected client of the driver.

    Attributes:
        clustered: whether it leads to one of several nodes.
        busy: calls under way. doubt_until: until when answers are checked, in the loop's time; see ``in_doubt``.
    """

    __slots__ = ("address", "busy", "client", "clustered", "doubt_until")

    def __init__(self, client: IggyClient, address: str, clustered: bool, now: float) -> None:
        self.client = client
        self.address = address
        self.clustered = clustered
        self.busy = 0
        self.doubt_until = now + _DOUBT_SECONDS if clustered else 0.0

    def in_doubt(self, now: float) -> bool:
        """Whether an answer may belong to another question.

        A node that becomes primary answers the calls that the dead one left open, and can send such an answer to a
        client of its own that has the number of the dead node's client (seen on 0.9.0-edge.5). The driver takes it
        for the answer to its next call, and all later answers are off by one. This happens around an election only,
        which shows as a fresh connection or a slow call.
        """
        return self.clustered and now < self.doubt_until

    def note(self, started: float, ended: float, size: int) -> None:
        """Takes note of how long a call took."""
        if self.clustered and ended - started > _SLOW_SECONDS + size / _STALL_BYTES:
            self.doubt_until = ended + _DOUBT_SECONDS

    def free(self, _: asyncio.Future[Any]) -> None:
        """Takes note that a call is over that nobody waits for any more."""
        self.busy -= 1


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
        self._dialling = asyncio.Lock()
        self._known: list[str] = list(config.addresses)
        self._no_more_until = 0.0
        self._number = next(_numbers)
        self._watch = Watch(self.loop)
        self._stall = min(_STALL_SECONDS, timeout / 2)
        self._dialled = 0

    @property
    def epoch(self) -> int:
        """While it is the same, every answer came over the same connections, so the server did not start anew."""
        return self._dialled

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
        self._add(await self._connect(now + self.timeout, give_up=now + min(_GRACE_SECONDS, self.timeout)))

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
        until = self._until(started, deadline, size)
        link.busy += 1
        try:
            async with asyncio.timeout_at(until):
                if settle and link.in_doubt(started):
                    await _read_roster(link.client)
                return await request(link.client)
        except TimeoutError as error:
            raise self._stalled(link, until < deadline) from error
        except (RuntimeError, CodecError) as error:
            self._raise_if_broken(link, error)
            raise
        finally:
            link.busy -= 1
            link.note(started, self.loop.time(), size)

    async def wait(self, link: Link, future: asyncio.Future[T], deadline: float, *, size: int = 0) -> T:
        """Like ``on``, for one call of the driver that is under way, and that goes on when the caller is cancelled."""
        started = self.loop.time()
        until = min(deadline, started + self._stall + size / _STALL_BYTES)
        answer = Answer(self.loop, future, until)
        self._watch.add(answer)
        link.busy += 1
        try:
            return await answer
        except Expired as error:
            future.cancel()
            raise self._stalled(link, until < deadline) from error
        except RuntimeError as error:
            self._raise_if_broken(link, error)
            raise
        finally:
            self._watch.remove(answer)
            if future.done():
                link.busy -= 1
            else:
                future.add_done_callback(link.free)
            if link.clustered:
                link.note(started, self.loop.time(), size)

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
            raise self._disconnected(str(broken)) from broken.__cause__
        await asyncio.sleep(min(rest, _PAUSES[min(failures - 1, len(_PAUSES) - 1)]))

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
            raise self._disconnected("") from error
        try:
            if best is not None:
                return await self._grow(best, deadline)
            if not self._links:
                self._add(await self._connect(deadline))
            return min(self._links, key=_busy)
        finally:
            self._dialling.release()

    @property
    def all(self) -> Sequence[Link]:
        """The connections that are open."""
        return self._links

    async def second(self, deadline: float) -> None:
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
            self._dialled += 1
            self._links = [other for other in self._links if other is not link and other.busy]

    async def roster(self, deadline: float) -> tuple[Node, ...]:
        """The nodes as the server that is connected announces them."""
        return await self.repeat(_read_roster, Target(), deadline) or ()

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
        if self._number in _unclosed:
            await asyncio.sleep(_SETTLE_SECONDS)
            _unclosed.discard(self._number)

    def _until(self, started: float, deadline: float, size: int) -> float:
        return min(deadline, started + self._stall + size / _STALL_BYTES)

    def _stalled(self, link: Link, time_is_left: bool) -> LinkBroken | CallExpired:
        self.discard(link)
        return LinkBroken(f"no answer from {link.address}") if time_is_left else CallExpired()

    def _raise_if_broken(self, link: Link, error: RuntimeError | CodecError) -> None:
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
            link = await self._connect(min(deadline, self.loop.time() + _DIAL_SECONDS), give_up=0.0)
        except DisconnectedError:
            # The calls can go on with the connections that there are.
            self._no_more_until = self.loop.time() + _DOUBT_SECONDS
            return spare
        self._add(link)
        if not link.clustered and await self._lives(spare, deadline):
            # The server that the older connection leads to has not ended since, so both lead to the same.
            self._dialled -= 1
        return link

    async def _lives(self, link: Link, deadline: float) -> bool:
        try:
            await self.on(link, lambda client: client.ping(), deadline)
        except (LinkBroken, CallExpired, *DRIVER_ERRORS):
            return False
        return True

    def _add(self, link: Link) -> None:
        self._links.append(link)
        self._dialled += 1

    async def _connect(self, deadline: float, *, give_up: float | None = None) -> Link:
        dial = _DIAL_SECONDS
        rounds = 0
        while True:
            reason, refused = "", True
            for address in tuple(self._known):
                now = self.loop.time()
                if now >= deadline:
                    break
                try:
                    async with asyncio.timeout_at(min(deadline, now + dial)):
                        link = await self._dial(address)
                except TimeoutError:
                    reason, refused = f"no answer from {address}", False
                except DRIVER_ERRORS as error:
                    if fault_of(error) in (Fault.CREDENTIALS, Fault.FORBIDDEN, Fault.CONFIG, Fault.INVALID):
                        raise translate(error, Target(), user=self.config.username or "") from error
                    reason = f"{address}: {error}"
                    refused = refused and str(error) == "Cannot establish connection"
                else:
                    self._prefer(address)
                    return link
            now = self.loop.time()
            if now >= deadline or (give_up is not None and refused and now >= give_up):
                raise self._disconnected(reason)
            rounds += 1
            dial *= 2
            await asyncio.sleep(min(deadline - now, _PAUSES[min(rounds, len(_PAUSES) - 1)]))

    async def _dial(self, address: str) -> Link:
        client = IggyClient(_driver_config(self.config, address))
        _unclosed.add(self._number)
        await client.connect()
        nodes: tuple[Node, ...] = ()
        try:
            nodes = await _read_roster(client)
        except RuntimeError as error:
            if fault_of(error) in (Fault.BROKEN, Fault.GARBLED):
                raise
            # A server or user without that command is taken for a single node.
        self._known += [node.address for node in nodes if len(nodes) > 1 and node.address not in self._known]
        return Link(client, address, len(nodes) > 1, self.loop.time())

    def _prefer(self, address: str) -> None:
        self._known.sort(key=lambda known: known != address)

    def _disconnected(self, reason: str) -> DisconnectedError:
        hint = "check that it runs and that the address is right"
        if self.config.tls:
            hint += ", that it speaks TLS, and that its certificate is valid for this host and from a trusted authority"
        return DisconnectedError(
            f"no connection to the Iggy server at {self.config.location} ({reason or 'no time left'}); {hint}"
        )


def _driver_config(config: IggyConfig, address: str) -> TcpConfig:
    login = (
        AutoLogin.personal_access_token(config.token)
        if config.token is not None
        else AutoLogin.username_password(config.username or "", config.password or "")
    )
    try:
        return TcpConfig(
            server_address=address,
            auto_login=login,
            reconnection=TcpReconnectionConfig(enabled=False),
            heartbeat_interval=_HEARTBEAT,
            tls_enabled=config.tls,
            tls_domain=config.tls_domain,
            tls_ca_file=config.tls_ca_file,
            tls_validate_certificate=config.tls_validate,
            nodelay=True,
        )
    except ValueError as error:
        raise ConfigError(f"the Iggy client refused the address {address}: {error}") from error


def _busy(link: Link) -> int:
    return link.busy


async def _read_roster(client: IggyClient) -> tuple[Node, ...]:
    data = await client.send_binary_request(ROSTER_COMMAND, b"")
    try:
        return decode_roster(data)
    except CodecError as error:
        raise Misplaced from error
