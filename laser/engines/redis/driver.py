"""The driver's connections, as ``Remote`` wants them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import redis
from redis.exceptions import NoScriptError

from laser.engines._remote import Failure
from laser.engines.redis.config import RedisConfig
from laser.engines.redis.errors import ERRORS, translate

__all__ = ["Connection", "RedisDriver", "Script", "command"]


class Connection(Protocol):
    """What is used of the driver's connection, which has no types of its own."""

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def can_read(self, timeout: float = 0) -> bool: ...
    def send_command(self, *args: bytes | str | int) -> None: ...
    def read_response(self) -> Any: ...


class RedisDriver:
    """Makes and judges connections. The driver's own retries are off: it would repeat writes.

    Args:
        timeout: seconds that one read or write of a socket may take.
    """

    errors = ERRORS

    def __init__(self, config: RedisConfig, timeout: float) -> None:
        self.what = f"the Redis store at {config.address}"
        self._timeout = timeout
        self._class: Any = redis.Connection
        self._settings: dict[str, Any] = {
            "host": config.host,
            "port": config.port,
            "db": config.database,
            "username": config.username,
            "password": config.password,
            "protocol": 2,
            "socket_timeout": timeout,
        }
        if config.tls:
            self._class = redis.SSLConnection
            self._settings |= {
                "ssl_cert_reqs": "required",
                "ssl_check_hostname": True,
                "ssl_ca_certs": config.tls_ca_file,
                "ssl_certfile": config.tls_cert_file,
                "ssl_keyfile": config.tls_key_file,
            }

    def connect(self, seconds: float, begun: Callable[[Connection], object]) -> Connection:
        connection = cast(Connection, self._class(**self._settings, socket_connect_timeout=seconds))
        begun(connection)
        try:
            connection.connect()
        except BaseException:
            connection.disconnect()
            raise
        return connection

    def usable(self, connection: Connection) -> bool:
        try:
            # Something to read on an idle connection is the end of the stream, or the rest of a spoilt answer.
            return not connection.can_read(timeout=0)
        except self.errors:
            return False

    def abort(self, connection: Connection) -> None:
        connection.disconnect()

    def close(self, connection: Connection) -> None:
        connection.disconnect()

    def translate(self, error: Exception) -> Failure:
        return translate(error, self.what, self._timeout)


def command(connection: Connection, *args: bytes | str | int) -> Any:
    """Sends a command and returns the answer."""
    connection.send_command(*args)
    return connection.read_response()


class Script:
    """A Lua script, which the server keeps by its hash."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._hash = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def run(self, connection: Connection, keys: Sequence[bytes], args: Sequence[bytes | int]) -> Any:
        """Runs it atomically and returns the answer."""
        try:
            return command(connection, "EVALSHA", self._hash, len(keys), *keys, *args)
        except NoScriptError:
            # New to this server, or forgotten at its restart. Sent with its text it runs and is kept in one step.
            return command(connection, "EVAL", self._text, len(keys), *keys, *args)
