"""A real S3 server for tests, with its objects in files.

::

    with run_s3() as s3:
        store = await open_s3_objects(s3.url)
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from laser.testing.service import Service

__all__ = ["S3Server", "find_s3", "run_s3"]

_NONE: Final = "no S3 server: LASER_TEST_S3 is not set, and the package nanio is not installed"
_BUCKET: Final = "laser-test"


class S3Server(Service):
    """One server with one bucket. It checks signatures as AWS's does.

    Args:
        running: the URL of a bucket that is there already, as ``Laser.connect(objects=…)`` takes it.
    """

    ready = "Application startup complete"
    starting_again = "in use"

    def __init__(self, running: str | None = None, *, timeout: float = 90.0) -> None:
        super().__init__("s3", running, timeout)

    @property
    def own_url(self) -> str:
        query = urlencode({"endpoint": self.endpoint, "region": "us-east-1"})
        return f"s3://laser:{self.password}@{_BUCKET}?{query}"

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def bucket(self) -> Path:
        """The directory of the bucket, where its objects are files."""
        return self.directory / "data" / _BUCKET

    def prepare(self) -> None:
        self.bucket.mkdir(parents=True)
        (self.directory / "options.toml").write_text(
            f'[[users]]\naccess_key = "laser"\nsecret_key = "{self.password}"\nbuckets = ["*"]\n'
        )

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-W", "ignore", "-m", "nanio", "serve", "--no-access-log"),
            *("--host", "127.0.0.1", "--port", str(self.port), "--data-dir", str(self.directory / "data")),
            *("--options", str(self.directory / "options.toml")),
        ]


def find_s3(*, own: bool = False) -> str | None:
    """Why there is no S3 server to test against, in one line; ``None`` where there is one.

    Args:
        own: whether it must be one that can be started, stopped and killed.
    """
    if os.environ.get("LASER_TEST_S3") and not own:
        return None
    try:
        version("nanio")
    except PackageNotFoundError:
        return _NONE
    return None


def run_s3(*, own: bool = False) -> S3Server:
    """A server to enter with ``with``: the one whose URL ``LASER_TEST_S3`` holds, else one of this run's own.

    Args:
        own: do not look at the variable.
    """
    running = None if own else os.environ.get("LASER_TEST_S3")
    return S3Server(running or None)
