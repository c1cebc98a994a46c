"""The driver's connections, as ``Remote`` wants them."""

from __future__ import annotations

import math
import select
import socket
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from laser.engines._remote import Failure
from laser.engines.postgres.config import PostgresConfig
from laser.engines.postgres.errors import ERRORS, Rejected, translate

__all__ = ["Connection", "PostgresDriver"]

Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresDriver:
    """Makes and judges connections, each in autocommit mode.

    Args:
        timeout: seconds after which the server itself ends a statement.
    """

    errors = ERRORS

    def __init__(self, config: PostgresConfig, timeout: float) -> None:
        self.what = f"the PostgreSQL store at {config.address}"
        self._timeout = timeout
        millis = math.ceil(timeout * 1_000)
        self._settings: dict[str, Any] = {
            "host": config.host,
            "port": config.port,
            "dbname": config.database,
            "user": config.user,
            "password": config.password,
            "client_encoding": "UTF8",
            "fallback_application_name": "laser",
            "keepalives_idle": 30,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": millis,
            **config.parameters,
        }
        # A statement that outlives its caller must not write later on. Set by statements and not at the connection's
        # start, because poolers between here and the server refuse that.
        self._begin = (
            f"SET statement_timeout = {millis:d}; SET lock_timeout = 0; "
            "SET default_transaction_isolation = 'read committed'"
        )

    def connect(self, seconds: float, begun: Callable[[Connection], object]) -> Connection:
        # The driver shows a connection only once it stands; until then it keeps to whole seconds, two at least.
        # Prepared statements are off: they do not go through every pooler.
        rejected: Rejected | psycopg.OperationalError
        try:
            connection = psycopg.connect(
                autocommit=True, prepare_threshold=None, connect_timeout=math.ceil(seconds), **self._settings
            )
        except psycopg.Error as error:
            rejected = Rejected.of(error)
        else:
            begun(connection)
            try:
                connection.execute(self._begin)
            except BaseException:
                connection.close()
                raise
            return connection
        # Raised out here, so that the driver's error is not in its context: it carries the password.
        raise rejected

    def usable(self, connection: Connection) -> bool:
        if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
            return False
        # Something to read on an idle connection is the server's farewell.
        return not _readable(connection.fileno())

    def abort(self, connection: Connection) -> None:
        try:
            with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as handle:
                handle.shutdown(socket.SHUT_RDWR)
        except (OSError, psycopg.Error):
            return  # it is down already

    def close(self, connection: Connection) -> None:
        connection.close()

    def translate(self, error: Exception) -> Failure:
        return translate(error, self.what, self._timeout)


def _readable(fileno: int) -> bool:
    if hasattr(select, "poll"):
        # Unlike select(), poll() takes descriptors above 1023.
        poll = select.poll()
        poll.register(fileno, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([fileno], [], [], 0)[0])
