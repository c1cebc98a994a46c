"""Where the tests get a real Apache Iggy server from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from laser.testing.server import IggyServer, find_server_binary

IMAGE = f"apache/iggy:{version('apache-iggy')}"
"""The image of the client's own version."""

_PORT = 8090


@dataclass
class IggyForTests:
    """One Iggy server for the whole test session, or the reason why there is none.

    Attributes:
        version: what it is, for the closing line. missing: why there is no server; empty where there is one.
        url: set by ``start``.
    """

    version: str = ""
    missing: str = ""
    url: str = ""
    _start: Callable[[], tuple[str, Callable[[], None]]] | None = None
    _stop: list[Callable[[], None]] = field(default_factory=list)

    def start(self) -> None:
        """Starts the server, unless it runs already."""
        if self._start is not None and not self._stop:
            self.url, stop = self._start()
            self._stop.append(stop)

    def stop(self) -> None:
        """Stops what ``start`` started."""
        while self._stop:
            self._stop.pop()()


def find_iggy() -> IggyForTests:
    """The first of: ``LASER_TEST_IGGY`` (a running ``host:port``), a server program, a Docker engine, none."""
    running = os.environ.get("LASER_TEST_IGGY")
    if running:
        url = running if "@" in running else f"iggy:iggy@{running}"
        return IggyForTests(version=f"server at {running.rpartition('@')[2]}", url=f"iggy://{url}")
    program = find_server_binary()
    if program is not None:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
        return IggyForTests(version=said.stdout.strip() or "server of unknown version", _start=_run_program)
    if _docker_answers():
        return IggyForTests(version=f"server {IMAGE} in Docker", _start=_run_image)
    return IggyForTests(
        missing="no server: neither LASER_TEST_IGGY nor LASER_TEST_IGGY_SERVER is set, iggy-server is not on the PATH, "
        "and no Docker engine answers"
    )


def _run_program() -> tuple[str, Callable[[], None]]:
    server = IggyServer()
    try:
        server.start_blocking()
    except BaseException:
        server.close_blocking()
        raise
    return server.url, server.close_blocking


def _docker_answers() -> bool:
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=5)
    except DockerException:
        return False
    try:
        return bool(client.ping())
    except DockerException:
        return False
    finally:
        client.close()


def _run_image() -> tuple[str, Callable[[], None]]:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    environment = {
        "IGGY_ROOT_USERNAME": "iggy",
        "IGGY_ROOT_PASSWORD": "iggy",
        "IGGY_TCP_ADDRESS": f"0.0.0.0:{_PORT}",
        "IGGY_NODE_ADVERTISED_ADDRESS": "localhost",
        # Without it the server ends at once on machines of one NUMA node, which is most developers' machines.
        "IGGY_SHARDING_CPU_ALLOCATION": "all",
    }
    # Docker's default seccomp profile forbids the io_uring calls that the server is built on.
    container: Any = DockerContainer(IMAGE, env=environment, security_opt=["seccomp=unconfined"])
    # Loopback only, on a free port: Docker by itself publishes on every address of the machine.
    container.ports[f"{_PORT}/tcp"] = ("127.0.0.1", None)
    container.waiting_for(LogMessageWaitStrategy("server client listeners started"))
    container.start()
    return f"iggy://iggy:iggy@127.0.0.1:{container.get_exposed_port(_PORT)}", container.stop
