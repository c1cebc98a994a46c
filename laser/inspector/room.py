"""What the pages share: the client, addresses, and handles on the sessions that were looked at last."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final
from urllib.parse import quote, urlencode

from starlette.requests import Request

import laser as ls
from laser.compaction.compaction import Compaction
from laser.compaction.registry import StrategyRegistry
from laser.model.ids import derive_conversation_id, parse_conversation_id

__all__ = ["Links", "Room", "number_of", "session_of", "typed_session"]

# A handle keeps the rows of its session in memory.
_MAX_HANDLES: Final = 8


class Links:
    """Addresses of the pages, each with the token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def to(self, *parts: object, **query: object) -> str:
        """The address of a page.

        Args:
            parts: of the path. query: ``None`` is left out.
        """
        path = "/".join(quote(str(part), safe="") for part in (self._token, *parts))
        given = {name: str(value) for name, value in query.items() if value is not None}
        ending = "/" if not parts else ""
        return f"/{path}{ending}{'?' if given else ''}{urlencode(given)}"

    def __repr__(self) -> str:
        return "Links()"


class Room:
    """What the pages share.

    Attributes:
        laser: the client. links: addresses. registry: strategies, with the pictures that they drew.
    """

    def __init__(self, laser: ls.Laser, token: str) -> None:
        self.laser = laser
        self.links = Links(token)
        self.registry = StrategyRegistry()
        self._handles: OrderedDict[str, Compaction] = OrderedDict()

    def compaction(self, session: str) -> Compaction:
        """A handle on a session's compaction that only looks."""
        handle = self._handles.get(session)
        if handle is None:
            handle = self._handles[session] = Compaction(self.laser, session, registry=self.registry, inherit=False)
            while len(self._handles) > _MAX_HANDLES:
                self._handles.popitem(last=False)
        self._handles.move_to_end(session)
        return handle


def session_of(request: Request) -> str:
    """The session that a request is about.

    Raises:
        IdError: it names none.
    """
    return parse_conversation_id(request.path_params["session"])


def typed_session(text: str) -> str:
    """The session that a person typed: an id, or ``@KEY``.

    Raises:
        IdError: it is neither.
    """
    text = text.strip()
    return derive_conversation_id(text[1:]) if len(text) > 1 and text[0] == "@" else parse_conversation_id(text)


def number_of(request: Request, name: str, default: int | None, low: int, high: int) -> int | None:
    """A whole number of a request's query; the default where it is absent or blank.

    Raises:
        InvalidError: it is none, or out of its range.
    """
    text = request.query_params.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16 and low <= int(text) <= high):
        raise ls.InvalidError(f"{name}: {text!r:.40} is not a whole number from {low} to {high}", argument=name)
    return int(text)
