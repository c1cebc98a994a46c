"""The driver's errors as laser's, in one table."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import psycopg
from psycopg import errors as driver

from laser.engines._remote import Failure
from laser.errors import (
    AuthenticationError,
    ConfigError,
    DeadlineError,
    DisconnectedError,
    LaserError,
    TransportError,
)

__all__ = ["ERRORS", "Rejected", "translate"]

ERRORS: Final[tuple[type[Exception], ...]] = (psycopg.Error, OSError)


class Rejected(psycopg.OperationalError):
    """A connection that could not be made, without what the driver's own error carries along: the password.

    Attributes:
        meaning: which laser error it is. refused: whether the server is there, but takes nobody in for now.
    """

    meaning: type[LaserError] = DisconnectedError
    refused = False

    @classmethod
    def of(cls, error: psycopg.Error) -> Rejected:
        """From the driver's error. libpq gives no code for a failed connection, only its text."""
        text = str(error).strip()
        made = cls(text)
        if isinstance(error, driver.ConnectionTimeout):
            made.meaning = DeadlineError
        elif getattr(error.pgconn, "needs_password", False):
            made.meaning = AuthenticationError
        else:
            made.meaning = next((kind for mark, kind in _MARKS if re.search(mark, text)), DisconnectedError)
            made.refused = re.search(_NOT_NOW, text) is not None
        return made


# Words of libpq and the server, as regular expressions, and what they mean.
_MARKS: Final[tuple[tuple[str, type[LaserError]], ...]] = (
    ('authentication failed|no password supplied|pg_hba\\.conf|role ".*" does not exist', AuthenticationError),
    ("permission denied for database", AuthenticationError),
    ('database ".*" does not exist', ConfigError),
    ("invalid sslmode value|invalid [a-z_]+ value:|invalid connection option", ConfigError),
    ('(certificate|key|CRL) file ".*" (does not exist|has )|could not (read|load) .* file', ConfigError),
    ("certificate|does not support SSL|SSL error", TransportError),
)
_NOT_NOW: Final = "starting up|shutting down|in recovery mode|not accepting connections|too many (clients|connections)"


class _Meaning(NamedTuple):
    error: type[LaserError]
    text: str
    refused: bool = False  # for now; it did nothing of the call


# The first that fits decides: specific ones come first.
_TABLE: Final[tuple[tuple[type[Exception], _Meaning], ...]] = (
    (driver.QueryCanceled, _Meaning(DeadlineError, "the server ended the statement")),
    (driver.TooManyConnections, _Meaning(DisconnectedError, "the server takes no more connections", refused=True)),
    (driver.CannotConnectNow, _Meaning(DisconnectedError, "the server is starting or stopping", refused=True)),
    (driver.AdminShutdown, _Meaning(DisconnectedError, "the server is stopping")),
    (driver.CrashShutdown, _Meaning(DisconnectedError, "the server is stopping")),
    (driver.ReadOnlySqlTransaction, _Meaning(DisconnectedError, "the server is a read-only replica", refused=True)),
    (driver.InvalidAuthorizationSpecification, _Meaning(AuthenticationError, "the user may not connect")),
    (driver.InvalidPassword, _Meaning(AuthenticationError, "user name or password are wrong or missing")),
    (
        driver.InsufficientPrivilege,
        _Meaning(AuthenticationError, "the user may not do this; grant it CREATE on the database for the first time, "
                 "and from then on the use of schema laser, its tables, sequences and functions"),
    ),
    (driver.InvalidCatalogName, _Meaning(ConfigError, "the database does not exist")),
    (driver.DiskFull, _Meaning(TransportError, "the server's disk is full; nothing of this call was written")),
    (driver.OutOfMemory, _Meaning(TransportError, "the server's memory is full; nothing of this call was written")),
    (driver.UndefinedTable, _Meaning(TransportError, "a table of schema laser is gone; open the store again")),
    (driver.UndefinedFunction, _Meaning(TransportError, "a function of schema laser is gone; open the store again")),
    (driver.InvalidSchemaName, _Meaning(TransportError, "the schema laser is gone; open the store again")),
    (OSError, _Meaning(DisconnectedError, "cannot be reached or closed the connection")),
)  # fmt: skip
_LOST: Final = _Meaning(DisconnectedError, "cannot be reached or closed the connection")
_OTHER: Final = _Meaning(TransportError, "the server refused the call")


def translate(error: Exception, what: str, seconds: float) -> Failure:
    """The laser error for one of ``ERRORS``.

    Args:
        what: the store in words. seconds: the deadline of a call.
    """
    if isinstance(error, Rejected):
        return Failure(_build(error.meaning, f"{what}: cannot connect ({error})", seconds), error.refused)
    meaning = next((meaning for kind, meaning in _TABLE if isinstance(error, kind)), None)
    if meaning is None:
        # Without a code it is libpq that speaks, of a connection; class 08 are the server's words for the same.
        code = getattr(error, "sqlstate", None)
        lost = isinstance(error, psycopg.OperationalError) and (code is None or code.startswith("08"))
        meaning = _LOST if lost else _OTHER
    text = str(error).strip()
    return Failure(_build(meaning.error, f"{what}: {meaning.text} ({text})", seconds), meaning.refused)


def _build(kind: type[LaserError], text: str, seconds: float) -> LaserError:
    return DeadlineError(text, seconds=seconds) if kind is DeadlineError else kind(text)
