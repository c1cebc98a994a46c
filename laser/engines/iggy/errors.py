"""The one table that turns the driver's errors into laser's.

``apache_iggy`` raises a plain ``RuntimeError`` with a text and no code for all that the server or the connection says,
and ``ValueError``, ``TypeError`` or ``OverflowError`` for arguments. The texts are those of Iggy's public error list;
names are often missing from them, so the caller puts them back.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

import msgspec

from laser.errors import (
    AuthenticationError,
    ConfigError,
    InvalidError,
    LaserError,
    NotFoundError,
    TransportError,
    UnsupportedError,
)

__all__ = ["DRIVER_ERRORS", "Fault", "Target", "absent", "fault_of", "translate"]

DRIVER_ERRORS: Final = (RuntimeError, ValueError, TypeError, OverflowError)
"""What a call of the driver can raise."""


class Fault(Enum):
    """What went wrong, as far as the code acts on it."""

    BROKEN = auto()  # the connection is of no use any more; whether the request was carried out is not known
    GARBLED = auto()  # an answer that does not fit the question
    CREDENTIALS = auto()
    FORBIDDEN = auto()
    ABSENT = auto()
    EXISTS = auto()
    UNSUPPORTED = auto()
    INVALID = auto()
    CONFIG = auto()
    OTHER = auto()


_TABLE: Final = tuple(
    (re.compile(pattern), fault)
    for pattern, fault in (
        (
            r"^(Disconnected|Not connected|Cannot establish connection|Connection closed|Unauthenticated|Stale client"
            r"|TCP error|Empty response|Client shutdown|Request transiently|Request already applied"
            r"|Cannot sed messages|Cannot send messages|Shard communication error|Task execution timeout|VSR session)",
            Fault.BROKEN,
        ),
        (
            r"^Invalid (format|command|number|UTF-8|boolean|size bytes|bytes response|identifier)|deserialize",
            Fault.GARBLED,
        ),
        (r"^(Invalid credentials|Invalid username|Invalid password|User inactive)", Fault.CREDENTIALS),
        (r"(?i)personal access token", Fault.CREDENTIALS),
        (r"^Unauthorized", Fault.FORBIDDEN),
        (r"was not found|has no partitions", Fault.ABSENT),
        (r"already exists", Fault.EXISTS),
        (r"^(Unsupported option key|Invalid option value|Options block|Feature is unavailable)", Fault.UNSUPPORTED),
        (r"TLS|certificate|Invalid server address", Fault.CONFIG),
        (r"^(Invalid|Too (big|many)|Empty message|Partition id space)", Fault.INVALID),
    )
)


class Target(msgspec.Struct, frozen=True, gc=False):
    """What a call is about, to name it in errors. Empty texts are left out."""

    stream: str = ""
    topic: str = ""

    def __str__(self) -> str:
        if self.topic:
            return f"topic {self.topic!r} of stream {self.stream!r}"
        return f"stream {self.stream!r}" if self.stream else "the log"


def fault_of(error: BaseException) -> Fault:
    """What an error of the driver means."""
    if not isinstance(error, RuntimeError):
        return Fault.INVALID
    text = str(error)
    for pattern, fault in _TABLE:
        if pattern.search(text):
            return fault
    return Fault.OTHER


def absent(target: Target) -> NotFoundError:
    """The error for a stream or topic that is not there."""
    way_out = f"; create it with ensure_topic({target.topic!r}), or all agent topics with bootstrap()"
    return NotFoundError(
        f"{target} does not exist{way_out if target.topic else ''}",
        stream=target.stream or None,
        topic=target.topic or None,
    )


def translate(error: BaseException, target: Target, *, user: str = "") -> LaserError:
    """The typed error for a driver's error that ends a call. Raise it ``from`` the driver's."""
    fault, text = fault_of(error), str(error)
    if fault is Fault.ABSENT:
        if "artition" in text and target.topic:
            return NotFoundError(f"{target}: no such partition", stream=target.stream, topic=target.topic)
        return absent(target)
    if fault is Fault.CREDENTIALS:
        return AuthenticationError(f"the Iggy server refused the login{f' of {user!r}' if user else ''}: {text}")
    if fault is Fault.FORBIDDEN:
        return AuthenticationError(f"{target}: the Iggy server does not let this user do that; grant the permission")
    if fault is Fault.UNSUPPORTED:
        return UnsupportedError(f"{target}: the Iggy server cannot do that: {text}")
    if fault is Fault.CONFIG:
        return ConfigError(f"the connection to the Iggy server cannot be made as configured: {text}")
    if fault is Fault.INVALID:
        return InvalidError(f"{target}: the Iggy server refused a value: {text}")
    if fault is Fault.EXISTS:
        return InvalidError(f"{target} exists already")
    return TransportError(f"{target}: the Iggy server answered: {text}")
