"""A real PostgreSQL for tests.

::

    with run_postgres() as postgres:
        store = await open_postgres_kv(postgres.url)
        postgres.restart(kill=True)     # same port, same data
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from laser.testing.service import Service, service_environment

if sys.platform != "win32":
    import pwd

__all__ = ["PostgresServer", "find_postgres", "run_postgres"]

_HOMES: Final = ("/usr/lib/postgresql", "/usr/local/lib/postgresql")
_NONE: Final = (
    "no PostgreSQL: LASER_TEST_POSTGRES is not set, and initdb is neither on the PATH nor below /usr/lib/postgresql"
)


class PostgresServer(Service):
    """One PostgreSQL with a superuser ``laser``, a password, and a database ``laser``.

    As root it runs as another user, which PostgreSQL insists on. It does not wait for the disk (``fsync=off``): what it
    acknowledged survives its own death, not the machine's.

    Args:
        running: the URL of one that runs already, to be used in place of one's own.
        settings: further ones, as ``name=value``.
    """

    ready = r"database system is ready to accept connections"
    starting_again = "pre-existing shared memory block"  # processes of a killed server are still ending

    def __init__(self, running: str | None = None, *, settings: Sequence[str] = (), timeout: float = 120.0) -> None:
        super().__init__("postgres", running, timeout)
        self._settings = tuple(settings)

    @property
    def own_url(self) -> str:
        return f"postgresql://laser:{self.password}@127.0.0.1:{self.port}/laser"

    def command(self) -> list[str]:
        settings = (
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "shared_buffers=16MB",
            "max_connections=60",
            "lc_messages=C",
            *self._settings,
        )
        flags = [part for setting in settings for part in ("-c", setting)]
        return [*_as_user(), str(_programs() / "postgres"), "-D", str(self._data), *flags]

    def prepare(self) -> None:
        secret = self.directory / "password"
        secret.write_text(self.password)
        user = _other_user()
        if user is not None:
            for path in (self.directory, *self.directory.iterdir()):
                os.chown(path, *user)
        server = str(_programs() / "postgres")
        self._run(
            str(_programs() / "initdb"),
            *("--pgdata", str(self._data), "--username", "laser", "--pwfile", str(secret)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )
        # A single-user backend makes the database before the server takes clients.
        self._run(server, "--single", "-D", str(self._data), "postgres", text="CREATE DATABASE laser")

    def stop(self) -> None:
        # SIGTERM alone would wait until the last client goes.
        os.kill(self.process.pid, signal.SIGINT)
        self.process.stop()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _run(self, *command: str, text: str | None = None) -> None:
        done = subprocess.run(
            [*_as_user(), *command],
            cwd=self.directory,
            env=service_environment(),
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=self.timeout,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{done.stdout}")


def find_postgres(*, own: bool = False) -> str | None:
    """Why there is no PostgreSQL to test against, in one line; ``None`` where there is one.

    Args:
        own: whether it must be one that can be started, stopped and killed.
    """
    if os.environ.get("LASER_TEST_POSTGRES") and not own:
        return None
    if _find_programs() is None:
        return _NONE
    if os.geteuid() == 0 and (_other_user() is None or shutil.which("setpriv") is None):
        return "no PostgreSQL: it does not run as root, and there is no user postgres or nobody, or no setpriv"
    return None


def run_postgres(*, settings: Sequence[str] = (), own: bool = False) -> PostgresServer:
    """A server to enter with ``with``: the one whose URL ``LASER_TEST_POSTGRES`` holds, else one of this run's own.

    Args:
        settings: as ``name=value``. own: do not look at the variable.
    """
    running = None if own else os.environ.get("LASER_TEST_POSTGRES")
    return PostgresServer(running or None, settings=settings)


def _programs() -> Path:
    found = _find_programs()
    if found is None:
        raise RuntimeError(_NONE)
    return found


def _find_programs() -> Path | None:
    """The directory of the server's programs; Debian keeps them off the PATH."""
    found = [path for home in _HOMES for path in Path(home).glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: _number(path.parts[-3])).parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent


def _number(version: str) -> int:
    digits = re.search(r"\d+", version)
    return int(digits.group()) if digits else 0


def _other_user() -> tuple[int, int] | None:
    """User and group to run as; ``None`` for the current ones."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    return None


def _as_user() -> list[str]:
    user = _other_user()
    if user is None:
        return []
    # setpriv becomes the program, so the process that was started is the one that is signalled.
    return ["setpriv", f"--reuid={user[0]}", f"--regid={user[1]}", "--clear-groups", "--"]
