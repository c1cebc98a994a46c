"""Opening connections: which address, how long, with which login."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import time
from datetime import timedelta
from typing import Final

from apache_iggy import AutoLogin, IggyClient, TcpConfig, TcpReconnectionConfig

from laser.engines.iggy.config import IggyConfig
from laser.engines.iggy.errors import DRIVER_ERRORS, Fault, Target, fault_of, translate
from laser.engines.iggy.link import Link, Misplaced
from laser.engines.iggy.roster import ROSTER_COMMAND, Node, decode_roster
from laser.errors import CodecError, ConfigError, DisconnectedError, LaserError

__all__ = ["PAUSES", "Dialler", "read_roster"]

PAUSES: Final = (0.0, 0.05, 0.1, 0.2, 0.5)
"""Seconds between attempts at the same thing."""

_NO_TIME: Final = "no time left"
_DIAL_SECONDS: Final = 2.0  # for one address; doubled at each round over the addresses
_HEARTBEAT: Final = timedelta(seconds=5)
# A thread of the driver still holds Python objects for a moment after its answer was handed over. If the interpreter
# ends in that moment, the driver aborts the process (measured: 11 ends of 40 without a pause, 0 of 40 with one).
_SETTLE_SECONDS: Final = 0.05

_unsettled: set[int] = set()  # numbers, not objects: those that are gone without a close count as well
_numbers = itertools.count()


def _settle_at_exit() -> None:
    if _unsettled:
        time.sleep(_SETTLE_SECONDS)


atexit.register(_settle_at_exit)


class Dialler:
    """Opens the connections of one log. The nodes of a cluster that it meets are addresses to try as well."""

    def __init__(self, config: IggyConfig) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._known: list[str] = list(config.addresses)
        self._number = next(_numbers)
        self._reason = _NO_TIME  # why the last attempt failed

    async def settle(self) -> None:
        """Waits until the driver has let go of what it was given; for the end, after the last call of all."""
        if self._number in _unsettled:
            await asyncio.sleep(_SETTLE_SECONDS)
            _unsettled.discard(self._number)

    async def connect(self, deadline: float, *, give_up: float | None = None) -> Link:
        """A fresh connection to the first address that answers.

        Args:
            give_up: when to end, in the loop's time, if every address refuses at once; ``None`` to go on until the
                deadline.

        Raises:
            DisconnectedError: none answers. AuthenticationError, ConfigError: the login or TLS is wrong.
        """
        dial = _DIAL_SECONDS
        rounds = 0
        while True:
            refused = True
            for address in tuple(self._known):
                now = self._loop.time()
                if now >= deadline:
                    break
                try:
                    async with asyncio.timeout_at(min(deadline, now + dial)):
                        link = await self._dial(address)
                except TimeoutError:
                    self._reason, refused = f"no answer from {address}", False
                except LaserError:
                    raise
                except DRIVER_ERRORS as error:
                    if fault_of(error) in (Fault.CREDENTIALS, Fault.FORBIDDEN, Fault.CONFIG, Fault.INVALID):
                        raise translate(error, Target(), user=self._config.username or "") from error
                    self._reason = f"{address}: {error}"
                    refused = refused and str(error) == "Cannot establish connection"
                else:
                    self._reason = _NO_TIME
                    self._prefer(address)
                    return link
            now = self._loop.time()
            if now >= deadline or (give_up is not None and refused and now >= give_up):
                raise self.disconnected()
            rounds += 1
            dial *= 2
            await asyncio.sleep(min(deadline - now, PAUSES[min(rounds, len(PAUSES) - 1)]))

    async def _dial(self, address: str) -> Link:
        client = IggyClient(_driver_config(self._config, address))
        _unsettled.add(self._number)
        await client.connect()
        nodes: tuple[Node, ...] = ()
        try:
            nodes = await read_roster(client)
        except RuntimeError as error:
            if fault_of(error) in (Fault.BROKEN, Fault.GARBLED):
                raise
            # A server or user without that command is taken for a single node.
        self._known += [node.address for node in nodes if len(nodes) > 1 and node.address not in self._known]
        return Link(client, address, len(nodes) > 1, self._loop.time())

    def _prefer(self, address: str) -> None:
        self._known.sort(key=lambda known: known != address)

    def disconnected(self, reason: str | None = None) -> DisconnectedError:
        """The error for a call that found no connection."""
        hint = "check that it runs and that the address is right"
        if self._config.tls:
            hint += ", that it speaks TLS, and that its certificate is valid for this host and from a trusted authority"
        return DisconnectedError(
            f"no connection to the Iggy server at {self._config.location} ({reason or self._reason}); {hint}"
        )


async def read_roster(client: IggyClient) -> tuple[Node, ...]:
    """The nodes as the server announces them. Misplaced: the answer is something else."""
    data = await client.send_binary_request(ROSTER_COMMAND, b"")
    try:
        return decode_roster(data)
    except CodecError as error:
        raise Misplaced from error


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
