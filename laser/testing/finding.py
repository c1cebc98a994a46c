"""Which Apache Iggy the tests run against: one that is there, a program that can be started, or a container.

In this order:

1. ``LASER_TEST_IGGY``: the ``host:port`` (or ``user:password@host:port``) of a server that runs already;
2. ``LASER_TEST_IGGY_SERVER`` or ``iggy-server`` on the PATH: started on a free loopback port;
3. a Docker engine: the ``apache/iggy`` image of the client's version, through ``testcontainers``;
4. else none, with a reason to print.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, metadata
from typing import Any, Final

import msgspec

from laser.testing.server import IggyServer, find_server_binary

__all__ = ["FoundIggy", "OpenIggy", "find_iggy", "open_iggy"]

_CONTAINER_PORT: Final = 8090


class FoundIggy(msgspec.Struct, frozen=True):
    """Where a server can be had.

    Attributes:
        kind: ``running``, ``binary``, ``docker`` or ``none``.
        detail: an address without credentials, a path, an image; for ``none`` the reason, in one line.
    """

    kind: str
    detail: str


class OpenIggy(msgspec.Struct, frozen=True):
    """A server to test against.

    Attributes:
        url: with credentials, as ``Laser.connect`` takes it. found: where it came from.
        server: the process, to stop, kill and restart; ``None`` where it is not this run's own.
    """

    url: str
    found: FoundIggy
    server: IggyServer | None = None


def find_iggy() -> FoundIggy:
    """Looks for a server without starting anything. A setting that names something unusable raises ``RuntimeError``."""
    running = os.environ.get("LASER_TEST_IGGY")
    if running:
        return FoundIggy("running", running.rpartition("@")[2])
    binary = find_server_binary()
    if binary is not None:
        return FoundIggy("binary", str(binary))
    missing = _docker_missing()
    if missing is None:
        return FoundIggy("docker", f"apache/iggy:{metadata.version('apache-iggy')}")
    return FoundIggy(
        "none",
        "no Apache Iggy server: LASER_TEST_IGGY and LASER_TEST_IGGY_SERVER are not set, no iggy-server on the PATH, "
        f"and no Docker ({missing})",
    )


@contextmanager
def open_iggy(found: FoundIggy | None = None) -> Iterator[OpenIggy]:
    """Starts what ``find_iggy`` found, where it needs starting, and ends it afterwards.

    Raises:
        RuntimeError: there is none (the reason is the text), or it did not start.
    """
    found = found or find_iggy()
    if found.kind == "running":
        named = os.environ["LASER_TEST_IGGY"]
        yield OpenIggy(f"iggy://{named if '@' in named else f'iggy:iggy@{named}'}", found)
    elif found.kind == "binary":
        with IggyServer() as server:
            yield OpenIggy(server.url, found, server)
    elif found.kind == "docker":
        with _container(found.detail) as address:
            yield OpenIggy(f"iggy://iggy:iggy@{address}", found)
    else:
        raise RuntimeError(found.detail)


def _docker_missing() -> str | None:
    try:
        client: Any = import_module("testcontainers.core.docker_client")
        errors: Any = import_module("docker.errors")
    except ImportError as error:
        return f"the package {error.name} is not installed"
    try:
        client.DockerClient().client.ping()
    except errors.DockerException:
        return "no engine answers"
    return None


@contextmanager
def _container(image: str) -> Iterator[str]:
    containers: Any = import_module("testcontainers.core.container")
    strategies: Any = import_module("testcontainers.core.wait_strategies")
    container = containers.DockerContainer(image)
    # Loopback only, on a free port. The server needs io_uring and locked memory, which Docker's defaults forbid.
    container.ports[f"{_CONTAINER_PORT}/tcp"] = ("127.0.0.1", None)
    container.with_kwargs(
        cap_add=["SYS_NICE"],
        security_opt=["seccomp=unconfined"],
        ulimits=[{"Name": "memlock", "Soft": -1, "Hard": -1}],
    )
    for key, value in {
        "IGGY_TCP_ADDRESS": f"0.0.0.0:{_CONTAINER_PORT}",
        "IGGY_HTTP_ENABLED": "false",
        "IGGY_QUIC_ENABLED": "false",
        "IGGY_WEBSOCKET_ENABLED": "false",
        # Without it the server ends at once on machines of one NUMA node; its name differs between versions.
        "IGGY_SHARDING_CPU_ALLOCATION": "all",
        "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "all",
        "IGGY_NODE_ADVERTISED_ADDRESS": "localhost",
        "IGGY_ROOT_USERNAME": "iggy",
        "IGGY_ROOT_PASSWORD": "iggy",
    }.items():
        container.with_env(key, value)
    ready = strategies.LogMessageWaitStrategy(re.compile(r"Client listener \(TCP\) accepting"))
    container.waiting_for(ready.with_startup_timeout(60))
    with container:
        yield f"{container.get_container_host_ip()}:{container.get_exposed_port(_CONTAINER_PORT)}"
