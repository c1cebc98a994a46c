"""The driver's errors as laser's, in one table."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Final, NamedTuple

from redis import exceptions as driver

from laser.engines._remote import Failure
from laser.errors import (
    AuthenticationError,
    ConfigError,
    DeadlineError,
    DisconnectedError,
    LaserError,
    TransportError,
    UnsupportedError,
)

__all__ = ["ERRORS", "translate"]

ERRORS: Final[tuple[type[Exception], ...]] = (driver.RedisError, OSError)


class _Meaning(NamedTuple):
    error: type[LaserError]
    text: str
    refused: bool = False  # for now; it did nothing of the call


# The first that fits decides: specific ones come first.
_TABLE: Final[tuple[tuple[type[Exception], _Meaning], ...]] = (
    (
        driver.NoPermissionError,
        _Meaning(AuthenticationError, "the user may not run what laser needs on keys laser:kv1:*: GET, EVALSHA, EVAL, "
                 "and what scripts call (GETRANGE, SET, DEL, EXISTS, INCR, PEXPIREAT, TIME, those of sorted sets)"),
    ),
    (driver.AuthenticationWrongNumberOfArgsError, _Meaning(AuthenticationError, "the server knows no user names")),
    (driver.AuthenticationError, _Meaning(AuthenticationError, "user name or password are wrong or missing")),
    (driver.AuthorizationError, _Meaning(AuthenticationError, "the user may not connect")),
    (driver.BusyLoadingError, _Meaning(DisconnectedError, "the server is still loading its data", refused=True)),
    (driver.ReadOnlyError, _Meaning(DisconnectedError, "the server is a read-only replica", refused=True)),
    (driver.ClusterDownError, _Meaning(DisconnectedError, "the server's cluster or primary is down", refused=True)),
    (driver.TryAgainError, _Meaning(DisconnectedError, "the server's cluster is moving keys", refused=True)),
    (
        driver.AskError,
        _Meaning(UnsupportedError, "the server is one node of a Redis Cluster; give the URL of a single server, "
                 "of a primary with replicas, or of a proxy"),
    ),
    (
        driver.OutOfMemoryError,
        _Meaning(TransportError, "the server's memory is full; raise its maxmemory or remove keys"),
    ),
    (driver.ResponseError, _Meaning(TransportError, "the server refused the call")),
    (driver.InvalidResponse, _Meaning(TransportError, "the server's answer is not Redis's protocol")),
    (driver.TimeoutError, _Meaning(DeadlineError, "no answer in time")),
    (TimeoutError, _Meaning(DeadlineError, "no answer in time")),
    (driver.ConnectionError, _Meaning(DisconnectedError, "cannot be reached or closed the connection")),
    (OSError, _Meaning(DisconnectedError, "cannot be reached or closed the connection")),
)  # fmt: skip
# The driver gives this answer no class of its own.
_FULL_ANSWER: Final = "max number of clients"
_FULL: Final = _Meaning(DisconnectedError, "the server takes no more connections", refused=True)
_OTHER: Final = _Meaning(TransportError, "the call failed")


def translate(error: Exception, what: str, seconds: float) -> Failure:
    """The laser error for one of ``ERRORS``.

    Args:
        what: the store in words. seconds: the deadline of a call.
    """
    for cause in _causes(error):
        if isinstance(cause, FileNotFoundError | PermissionError):
            return Failure(ConfigError(f"kv: a certificate or key file of the URL cannot be read ({cause})"))
        if isinstance(cause, ssl.SSLCertVerificationError):
            text = f"{what}: its certificate was refused ({error}); name its issuer with ?tls_ca_file=PATH"
            return Failure(TransportError(text))
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return Failure(TransportError(f"{what}: encryption failed ({error}); does the server speak TLS there?"))
    if isinstance(error, driver.ResponseError) and "DB index" in str(error):
        return Failure(ConfigError(f"kv: {what} does not have this database ({error})"))
    if _FULL_ANSWER in str(error):
        meaning = _FULL
    else:
        meaning = next((meaning for kind, meaning in _TABLE if isinstance(error, kind)), _OTHER)
    text = f"{what}: {meaning.text} ({error})"
    if meaning.error is DeadlineError:
        return Failure(DeadlineError(text, seconds=seconds))
    return Failure(meaning.error(text), meaning.refused)


def _causes(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__
