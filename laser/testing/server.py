"""A real Apache Iggy server for tests: one node on a free loopback port, with a directory of its own.

::

    async with run_iggy_server() as server:
        laser = await Laser.connect(server.url)
        await server.kill()         # as kill -9 does
        await server.start()        # same port, same data

``with`` works as well as ``async with``, for fixtures that live longer than one event loop.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from laser.testing.lifetime import Lifetime, uncancelled
from laser.testing.process import ServerProcess

__all__ = ["IggyServer", "find_server_binary", "run_iggy_server", "server_environment"]

_READY: Final = r"Client listener \(TCP(?:-TLS)?\) accepting on Some\(127\.0\.0\.1:(\d+)\)"
_TAKEN: Final = re.compile(r"address (?:already )?in use|AddrInUse|CannotBindToSocket|Cannot bind", re.IGNORECASE)
_ATTEMPTS: Final = 10
_PAUSE_SECONDS: Final = 0.5


def find_server_binary() -> Path | None:
    """The server's program: ``LASER_TEST_IGGY_SERVER``, else ``iggy-server`` on the PATH, else ``None``.

    Raises:
        RuntimeError: the variable names something that cannot be run.
    """
    named = os.environ.get("LASER_TEST_IGGY_SERVER")
    if named:
        found = shutil.which(named)
        if found is None:
            raise RuntimeError(f"LASER_TEST_IGGY_SERVER: {named!r} is not a program that can be run")
        return Path(found)
    found = shutil.which("iggy-server")
    return None if found is None else Path(found)


def server_environment(
    directory: Path, *, username: str, password: str, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a server whose data live in ``directory`` and that listens for TCP on loopback only."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("IGGY_")}
    env |= {
        "IGGY_SYSTEM_PATH": str(directory / "data"),
        "IGGY_SYSTEM_LOGGING_FILE_ENABLED": "false",
        "IGGY_SYSTEM_SHARDING_PIN_CORES": "false",
        "IGGY_TCP_ADDRESS": "127.0.0.1:0",
        "IGGY_HTTP_ENABLED": "false",
        "IGGY_QUIC_ENABLED": "false",
        "IGGY_WEBSOCKET_ENABLED": "false",
        "IGGY_ROOT_USERNAME": username,
        "IGGY_ROOT_PASSWORD": password,
    }
    return env | dict(extra or {})


class IggyServer(Lifetime):
    """One server. Start it with ``start`` or use it as a context manager.

    Args:
        binary: the program; ``None`` for the one that ``find_server_binary`` finds.
        directory: where data and log go, kept afterwards; ``None`` for a temporary one, removed on ``close``.
        port: the TCP port on 127.0.0.1; 0 for a free one, chosen by the server itself and kept over restarts.
        username, password: of the root user, made at the first start.
        env: further ``IGGY_…`` settings. arguments: of the command line.
        timeout: seconds that a start may take.
    """

    def __init__(
        self,
        *,
        binary: Path | None = None,
        directory: Path | None = None,
        port: int = 0,
        username: str = "iggy",
        password: str = "iggy",
        env: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        timeout: float = 90.0,
    ) -> None:
        program = binary or find_server_binary()
        if program is None:
            raise RuntimeError("no Iggy server: put iggy-server on the PATH or its path into LASER_TEST_IGGY_SERVER")
        self._own = tempfile.mkdtemp(prefix="laser-iggy-") if directory is None else None
        self.directory = Path(self._own or directory or ".").resolve()
        self.port = port
        self.username = username
        self.password = password
        self.timeout = timeout
        self.process = ServerProcess(
            [str(program), *arguments],
            directory=self.directory,
            env=server_environment(self.directory, username=username, password=password, extra=env),
            log=self.directory / "server.log",
        )

    def __repr__(self) -> str:
        return f"IggyServer({self.address}, running={self.process.running})"

    @property
    def address(self) -> str:
        """``127.0.0.1:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The address with the credentials, as ``Laser.connect`` takes it."""
        return f"iggy://{self.username}:{self.password}@{self.address}"

    async def stop(self) -> None:
        """Ends the server in order (SIGTERM)."""
        await uncancelled(self.process.stop)

    async def kill(self) -> None:
        """Ends the server at once (SIGKILL)."""
        await uncancelled(self.process.kill)

    async def restart(self, *, kill: bool = False) -> None:
        """Stops or kills the server, and starts it on the same port and data."""
        await (self.kill() if kill else self.stop())
        await self.start()

    def start_blocking(self) -> None:
        self.process.env["IGGY_TCP_ADDRESS"] = self.address
        for attempt in range(1, _ATTEMPTS + 1):
            self.process.start()
            try:
                ready = self.process.wait_for(_READY, timeout=self.timeout)
            except BaseException as error:
                said = self.process.output()
                self.process.kill()
                # While it was away somebody else may have been given its port, mostly for a moment.
                if attempt == _ATTEMPTS or not isinstance(error, RuntimeError) or not _TAKEN.search(said):
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                self.port = int(ready.group(1))
                return

    def close_blocking(self) -> None:
        self.process.kill()
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)


def run_iggy_server(
    *,
    binary: Path | None = None,
    directory: Path | None = None,
    port: int = 0,
    env: Mapping[str, str] | None = None,
    timeout: float = 90.0,
) -> IggyServer:
    """A server to enter with ``async with`` or ``with``; see ``IggyServer`` for the arguments."""
    return IggyServer(binary=binary, directory=directory, port=port, env=env, timeout=timeout)
