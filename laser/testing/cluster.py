"""Three real Apache Iggy nodes on one machine, for tests of what survives the loss of one.

::

    async with run_iggy_cluster() as cluster:
        laser = await Laser.connect(cluster.url)
        primary = await cluster.primary()
        await primary.kill()
        ...
        await primary.start()
"""

from __future__ import annotations

import secrets
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from laser.testing.lifetime import Lifetime
from laser.testing.server import IggyServer

__all__ = ["IggyCluster", "run_iggy_cluster"]

_MESHED: Final = "replica mesh complete"
_ATTEMPTS: Final = 3


class IggyCluster(Lifetime):
    """Nodes that replicate each other. Start it with ``start`` or use it as a context manager.

    Args:
        nodes: how many; an odd number keeps a majority when one is lost.
        binary: the program; ``None`` for the one that ``find_server_binary`` finds.
        directory: where data and logs go, kept afterwards; ``None`` for a temporary one, removed on ``close``.
        username, password: of the root user.
        env: further ``IGGY_…`` settings of every node.
        timeout: seconds that the nodes may take to find each other.

    Attributes:
        nodes: the servers, by replica id. Each can be stopped, killed, paused and started by itself.
    """

    def __init__(
        self,
        *,
        nodes: int = 3,
        binary: Path | None = None,
        directory: Path | None = None,
        username: str = "iggy",
        password: str = "iggy",
        env: Mapping[str, str] | None = None,
        timeout: float = 120.0,
    ) -> None:
        self.username = username
        self.password = password
        self.timeout = timeout
        self._own = tempfile.mkdtemp(prefix="laser-iggy-cluster-") if directory is None else None
        self.directory = Path(self._own or directory or ".").resolve()
        self._binary = binary
        self._env = dict(env or {})
        self._started = False
        self.nodes: tuple[IggyServer, ...] = self._make_nodes(nodes)

    def __repr__(self) -> str:
        return f"IggyCluster({', '.join(node.address for node in self.nodes)})"

    @property
    def url(self) -> str:
        """All addresses with the credentials, as ``Laser.connect`` takes them."""
        return f"iggy://{self.username}:{self.password}@{','.join(node.address for node in self.nodes)}"

    async def primary(self, *, timeout: float = 90.0) -> IggyServer:
        """The node that takes the writes now, as the living nodes tell.

        Raises:
            DeadlineError: the nodes did not agree on a living one in time.
        """
        from laser.engines.iggy import IggyConfig, find_primary

        living = tuple(node.address for node in self.nodes if node.process.running)
        config = IggyConfig(addresses=living, username=self.username, password=self.password)
        address = await find_primary(config, timeout=timeout, among=living)
        return next(node for node in self.nodes if node.address == address)

    def start_blocking(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                for node in self.nodes:
                    node.start_blocking()
                for node in self.nodes:
                    node.process.wait_for(_MESHED, timeout=self.timeout / _ATTEMPTS)
                self._started = True
                return
            except BaseException as error:
                for node in self.nodes:
                    node.process.kill()
                # A link that drops in the first handshakes leaves the mesh open for good; a fresh start mends it.
                if attempt == _ATTEMPTS or not isinstance(error, RuntimeError):
                    raise
                if not self._started:
                    # Nobody knows the addresses yet, and one of the ports may be somebody else's by now.
                    for node in self.nodes:
                        shutil.rmtree(node.directory, ignore_errors=True)
                    self.nodes = self._make_nodes(len(self.nodes))

    def close_blocking(self) -> None:
        for node in self.nodes:
            node.close_blocking()
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)

    def _make_nodes(self, count: int) -> tuple[IggyServer, ...]:
        ports = free_ports(2 * count)
        clients, replicas = ports[:count], ports[count:]
        settings = _roster(clients, replicas) | self._env
        return tuple(self._node(index, port, settings) for index, port in enumerate(clients))

    def _node(self, index: int, port: int, settings: Mapping[str, str]) -> IggyServer:
        directory = self.directory / f"node-{index}"
        directory.mkdir(exist_ok=True)
        return IggyServer(
            binary=self._binary,
            directory=directory,
            port=port,
            username=self.username,
            password=self.password,
            env=settings,
            timeout=self.timeout / _ATTEMPTS,
            arguments=("--replica-id", str(index)),
        )


def free_ports(count: int) -> list[int]:
    """Different TCP ports of 127.0.0.1 that nobody listens on now."""
    holders = [socket.socket() for _ in range(count)]
    try:
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]
    finally:
        for holder in holders:
            holder.close()


def run_iggy_cluster(
    *, nodes: int = 3, binary: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 120.0
) -> IggyCluster:
    """A cluster to enter with ``async with`` or ``with``; see ``IggyCluster`` for the arguments."""
    return IggyCluster(nodes=nodes, binary=binary, env=env, timeout=timeout)


def _roster(clients: list[int], replicas: list[int]) -> dict[str, str]:
    env = {
        "IGGY_CLUSTER_ENABLED": "true",
        "IGGY_CLUSTER_NAME": f"laser-{secrets.token_hex(4)}",
        # Several nodes share the machine: one thread each, and links that come back quickly after a restart.
        "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "1",
        "IGGY_MESSAGE_BUS_RECONNECT_PERIOD": "100ms",
    }
    for index, (client, replica) in enumerate(zip(clients, replicas, strict=True)):
        env |= {
            f"IGGY_CLUSTER_NODES_{index}_NAME": f"node-{index}",
            f"IGGY_CLUSTER_NODES_{index}_IP": "127.0.0.1",
            f"IGGY_CLUSTER_NODES_{index}_REPLICA_ID": str(index),
            f"IGGY_CLUSTER_NODES_{index}_PORTS_TCP": str(client),
            f"IGGY_CLUSTER_NODES_{index}_PORTS_TCP_REPLICA": str(replica),
        }
    return env
