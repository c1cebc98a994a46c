"""The pages as an ASGI application."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

import laser as ls
from laser.inspector.compacting import compaction_page, fold_page
from laser.inspector.context import context_page
from laser.inspector.frames import frame_picture, frames_page
from laser.inspector.guard import Guard
from laser.inspector.layout import page
from laser.inspector.listing import session_page, sessions_page
from laser.inspector.markup import tag
from laser.inspector.prompts import prompts_page
from laser.inspector.room import Room, typed_session
from laser.inspector.style import STYLE
from laser.inspector.transcript import transcript_page

__all__ = ["make_app"]

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{16,}")
_PAGE: Final = "text/html; charset=utf-8"
# What is wrong by class: the first that fits.
_STATUSES: Final[tuple[tuple[type[ls.LaserError], int], ...]] = (
    (ls.IdError, 404),
    (ls.StaleCheckpointError, 410),
    (ls.InvalidError, 400),
    (ls.NotFoundError, 404),
    (ls.RetentionGapError, 410),
)

Page = Callable[[Room, Request], Awaitable[bytes]]


def make_app(laser: ls.Laser, token: str, hosts: Iterable[str]) -> ASGIApp:
    """The inspector of a client's stream. It answers GET requests for ``/TOKEN/…`` only, and writes nothing.

    Args:
        laser: connected; it stays open for as long as the application is used.
        token: at least 16 of letters, digits, ``-`` and ``_``, from ``secrets.token_urlsafe``.
        hosts: what the header ``Host`` may say, such as ``127.0.0.1:8000``.

    Raises:
        InvalidError: a token that is too short, or cannot stand in an address.
    """
    if _TOKEN.fullmatch(token) is None:
        # Nothing of it in the text: it is a secret.
        raise ls.InvalidError("token: expected at least 16 letters, digits, - and _", argument="token")
    room = Room(laser, token)

    def html(path: str, build: Page) -> Route:
        return _route(path, room, build, _PAGE)

    async def style(request: Request) -> Response:
        del request
        return Response(STYLE, media_type="text/css")

    async def find(request: Request) -> Response:
        return RedirectResponse(room.links.to("s", typed_session(request.query_params.get("id", ""))), 303)

    async def refused(request: Request, error: Exception) -> Response:
        del request
        status = next((code for kind, code in _STATUSES if isinstance(error, kind)), 503)
        return Response(
            page(room.links, "This cannot be shown", tag("p", str(error), class_="note")), status, None, _PAGE
        )

    async def missing(request: Request, error: Exception) -> Response:
        del request
        assert isinstance(error, HTTPException)
        return Response(page(room.links, error.detail), error.status_code, None, _PAGE)

    routes = [
        html("/", sessions_page),
        Route("/style.css", style),
        Route("/open", find),
        html("/s/{session}", session_page),
        html("/s/{session}/transcript", transcript_page),
        html("/s/{session}/context", context_page),
        html("/s/{session}/compaction", compaction_page),
        html("/s/{session}/lcm/{node:int}", fold_page),
        html("/s/{session}/frames", frames_page),
        _route("/s/{session}/frames/{number:int}.png", room, frame_picture, "image/png"),
        html("/s/{session}/prompts", prompts_page),
    ]
    handlers = {ls.LaserError: refused, HTTPException: missing}
    app = Starlette(routes=routes, exception_handlers=handlers)
    # A redirect to the same path with or without a slash would leave the token out.
    app.router.redirect_slashes = False
    return Guard(app, token, frozenset(host.lower() for host in hosts))


def _route(path: str, room: Room, build: Page, media_type: str) -> Route:
    async def answer(request: Request) -> Response:
        return Response(await build(room, request), media_type=media_type)

    return Route(path, answer)
