"""One connection, and the ways in which a call on it can end without an answer."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from apache_iggy import IggyClient

__all__ = ["SLOW_BYTES", "CallExpired", "Link", "LinkBroken", "Misplaced"]

SLOW_BYTES: Final = 1_000_000
"""Bytes that a slow network still carries in a second."""

_SLOW_SECONDS: Final = 0.045  # the driver repeats a call that a node could not take after 0.05 s
_DOUBT_SECONDS: Final = 10.0


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

    __slots__ = ("__weakref__", "address", "busy", "client", "clustered", "doubt_until")

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
        if self.clustered and ended - started > _SLOW_SECONDS + size / SLOW_BYTES:
            self.doubt_until = ended + _DOUBT_SECONDS

    def free(self, _: asyncio.Future[Any]) -> None:
        """Takes note that a call is over that nobody waits for any more."""
        self.busy -= 1
