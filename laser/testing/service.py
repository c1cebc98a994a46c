"""A real server for tests, of whatever kind: on a free loopback port, with a directory of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from laser.testing.process import ServerProcess

__all__ = ["Service", "service_environment"]

_ATTEMPTS: Final = 20
_PAUSE_SECONDS: Final = 0.5


class Service(ABC):
    """A server to test against: one of this run's own, or one that runs already. Enter it with ``with``.

    Methods block: call them from a fixture without an event loop, or through ``anyio.to_thread``.

    Args:
        name: of the kind of server. running: the URL of one that runs already.
        timeout: seconds that a start may take.

    Attributes:
        own: whether this object starts the server, and so may stop, kill and pause it.
        port: on 127.0.0.1, kept over restarts. password: of the server's user.
    """

    ready: str
    """What the log says once clients are taken, as a regular expression."""

    starting_again: str
    """What the log says when a start fails that may succeed soon, as part of a line."""

    def __init__(self, name: str, running: str | None, timeout: float) -> None:
        self.own = running is None
        self.timeout = timeout
        self.port = 0
        self.password = secrets.token_hex(12)
        self._name = name
        self._running = running
        self._process: ServerProcess | None = None
        self._directory: Path | None = None

    @property
    def url(self) -> str:
        """With the credentials, as ``Laser.connect(kv=…)`` takes it."""
        return self._running or self.own_url

    @property
    @abstractmethod
    def own_url(self) -> str:
        """The URL of a server that this object started."""

    @abstractmethod
    def command(self) -> list[str]:
        """Program and arguments, for ``self.port`` and ``self.directory``."""

    @property
    def process(self) -> ServerProcess:
        """The server's process, to pause and resume.

        Raises:
            RuntimeError: the server is not this run's own, or was never started.
        """
        if self._process is None:
            raise RuntimeError("this server is not this run's own, or was not started")
        return self._process

    @property
    def directory(self) -> Path:
        """Where data and log are."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix=f"laser-{self._name}-")).resolve()
        return self._directory

    def prepare(self) -> None:  # noqa: B027 - most servers need nothing
        """Called once, before the first start."""

    def start(self) -> None:
        """Starts the server and returns when it answers: on the port and with the data of an earlier run.

        Raises:
            RuntimeError: it was not ready in time; the end of its log is in the text.
        """
        if not self.own:
            return
        first = self._process is None
        if first:
            self.prepare()
        for attempt in range(1, _ATTEMPTS + 1):
            if first:
                # A port that was free a moment ago may be taken by now: then another one is tried.
                self.port = _free_port()
                self._process = ServerProcess(
                    self.command(),
                    directory=self.directory,
                    env=service_environment(),
                    log=self.directory / "server.log",
                )
            try:
                self.process.start()
                self.process.wait_for(self.ready, timeout=self.timeout)
                return
            except BaseException as error:
                said = self.process.output()
                self.process.kill()
                passing = "in use" in said or self.starting_again in said
                if attempt == _ATTEMPTS or not passing or not isinstance(error, RuntimeError):
                    raise
            time.sleep(_PAUSE_SECONDS)

    def stop(self) -> None:
        """Ends the server in order, whoever is connected."""
        self.process.stop()

    def kill(self) -> None:
        """Ends the server at once, as a crash does."""
        self.process.kill()

    def restart(self, *, kill: bool = False) -> None:
        """Stops or kills the server, and starts it on the same port and data."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

    def close(self) -> None:
        """Ends the server and removes its directory. One that ran already is left alone."""
        if self._process is not None:
            self._process.kill()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {f'127.0.0.1:{self.port}' if self.own else 'running already'}>"


def service_environment() -> dict[str, str]:
    """The environment of a test server: settings of the caller's own clients stay out of it."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")}


def _free_port() -> int:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        return port
