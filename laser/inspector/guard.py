"""The guard in front of the pages: who may ask, for what, and what browsers may do with the answer."""

from __future__ import annotations

import secrets
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "Guard"]

HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every answer. The pages have no scripts, and nothing from another origin."""

_NAMES: Final = frozenset(name for name, _ in HEADERS)


class Guard:
    """Lets GET requests through that name this server and know the token; to all others it says nothing.

    The token is the first part of the path. A cookie would be sent to every other port of this machine as well.

    Args:
        app: what it guards; it gets the path without the token. token: letters, digits, ``-`` and ``_``.
        hosts: what the header ``Host`` may say. A page of elsewhere whose name was made to point to this machine (DNS
            rebinding) says another.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [header for header in message.get("headers", ()) if header[0].lower() not in _NAMES]
                message = {**message, "headers": [*kept, *HEADERS]}
            await send(message)

        hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
        token, _, rest = scope["path"].removeprefix("/").partition("/")
        knows = secrets.compare_digest(token.encode("utf-8", "replace"), self._token)
        if len(hosts) != 1 or hosts[0] not in self._hosts or not knows:
            await _refuse(guarded, 403)
        elif scope["method"] != "GET":
            await _refuse(guarded, 405, (b"allow", b"GET"))
        else:
            path = f"/{rest}"
            inner = {**scope, "path": path, "raw_path": path.encode("utf-8", "replace"), "root_path": ""}
            await self._app(inner, receive, guarded)

    def __repr__(self) -> str:
        return f"Guard({sorted(self._hosts)})"


async def _refuse(send: Send, status: int, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0"), *headers]})
    await send({"type": "http.response.body", "body": b""})
