"""Serving the inspector on a socket of this machine."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import anyio
import uvicorn

import laser as ls
from laser.inspector.app import make_app

__all__ = ["Listener", "listen", "serve"]

_TOKEN_BYTES: Final = 32
_GRACE_SECONDS: Final = 5
# An address may hold a cursor that names every partition of a topic.
_MAX_HEAD_BYTES: Final = 262_144
_BACKLOG: Final = 64


class Listener:
    """A socket that listens, and the token of those who may ask. ``listen`` makes it.

    Attributes:
        url: where the pages are, with the token: whoever has it can read every session. hosts: names of this server.
    """

    def __init__(self, sock: socket.socket, host: str, port: int) -> None:
        self.socket = sock
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        shown = f"[{host}]" if ":" in host else host
        self.hosts = frozenset({f"{shown}:{port}", f"localhost:{port}"})
        self.url = f"http://{shown}:{port}/{self.token}/"

    def close(self) -> None:
        """Gives the port back."""
        self.socket.close()

    def __repr__(self) -> str:
        return f"Listener({sorted(self.hosts)})"


def listen(host: str = "127.0.0.1", port: int = 0) -> Listener:
    """A listener on this machine's loopback.

    Args:
        host: an address such as ``127.0.0.1`` or ``::1``, or ``localhost``. port: 0 for a free one.

    Raises:
        InvalidError: an address that other machines can reach, or a bad port. ConfigError: the port is taken.
    """
    address = "127.0.0.1" if host == "localhost" else host
    try:
        found = ipaddress.ip_address(address)
    except ValueError as error:
        raise ls.InvalidError(f"host: {host!r:.60} is neither localhost nor an IP address", argument="host") from error
    if not found.is_loopback or getattr(found, "scope_id", None) is not None:
        raise ls.InvalidError(
            f"host: {host!r:.60} can be reached from other machines, and the pages show whole conversations; take "
            "127.0.0.1 and, from elsewhere, a tunnel such as ssh -L",
            argument="host",
        )
    if type(port) is not int or not 0 <= port <= 65_535:
        raise ls.InvalidError(f"port: {port!r:.40} is not a whole number from 0 to 65535", argument="port")
    sock = socket.socket(socket.AF_INET6 if found.version == 6 else socket.AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((str(found), port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise ls.ConfigError(f"port: {port} of {found} cannot be listened on: {error.strerror}") from error
    return Listener(sock, str(found), sock.getsockname()[1])


async def serve(laser: ls.Laser, listener: Listener, stop: Callable[[], Awaitable[object]]) -> None:
    """Serves the pages until ``stop`` returns; then answers what is under way, and closes the listener.

    Raises:
        UnsupportedError: the event loop is not asyncio's.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError as error:
        listener.close()
        raise ls.UnsupportedError("serve: the web server needs asyncio; on trio, serve make_app yourself") from error
    config = uvicorn.Config(
        make_app(laser, listener.token, listener.hosts),
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        # Addresses hold the token.
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = _Server(config)

    async def watch() -> None:
        await stop()
        server.should_exit = True

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await server.serve([listener.socket])
            group.cancel_scope.cancel()
    finally:
        listener.close()


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()
