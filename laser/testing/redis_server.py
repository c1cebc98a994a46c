"""A real Redis or Valkey for tests.

::

    with run_redis() as redis:
        store = await open_redis_kv(redis.url)
        redis.restart(kill=True)        # same port, same data
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Final

from laser.testing.service import Service

__all__ = ["RedisServer", "find_redis", "run_redis"]

_NONE: Final = "no Redis: LASER_TEST_REDIS is not set, and neither redis-server nor valkey-server is on the PATH"


class RedisServer(Service):
    """One server with a password, whose append-only file is written through at each command.

    Args:
        running: the URL of one that runs already, to be used in place of one's own.
        arguments: further ones of the command line, such as ``--tls-port``.
    """

    ready = r"Ready to accept connections"
    starting_again = "in use"

    def __init__(self, running: str | None = None, *, arguments: Sequence[str] = (), timeout: float = 90.0) -> None:
        super().__init__("redis", running, timeout)
        self._arguments = tuple(arguments)

    @property
    def own_url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        program = _program()
        if program is None:
            raise RuntimeError(_NONE)
        return [
            program,
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory)),
            *("--requirepass", self.password, "--appendonly", "yes", "--appendfsync", "always", "--save", ""),
            *self._arguments,
        ]


def find_redis(*, own: bool = False) -> str | None:
    """Why there is no Redis to test against, in one line; ``None`` where there is one.

    Args:
        own: whether it must be one that can be started, stopped and killed.
    """
    if os.environ.get("LASER_TEST_REDIS") and not own:
        return None
    return None if _program() else _NONE


def run_redis(*, arguments: Sequence[str] = (), own: bool = False) -> RedisServer:
    """A server to enter with ``with``: the one whose URL ``LASER_TEST_REDIS`` holds, else one of this run's own.

    Args:
        arguments: of the command line. own: do not look at the variable.
    """
    running = None if own else os.environ.get("LASER_TEST_REDIS")
    return RedisServer(running or None, arguments=arguments)


def _program() -> str | None:
    return shutil.which("redis-server") or shutil.which("valkey-server")
