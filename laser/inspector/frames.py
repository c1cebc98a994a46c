"""The pictures that stand for older messages in the next request."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import orjson
from starlette.requests import Request

import laser as ls
from laser.compaction.inputs import PreparedInput
from laser.inspector.compacting import model_form, preview
from laser.inspector.layout import page, tokens
from laser.inspector.markup import Markup, tag
from laser.inspector.room import Room, session_of

__all__ = ["frame_picture", "frames_page"]

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_ASKED: Final = ("window", "provider", "images")


async def frames_page(room: Room, request: Request) -> bytes:
    """All pictures of the next request, each with its caption."""
    chosen = session_of(request)
    found = await preview(room.compaction(chosen), request)
    body: list[Markup] = []
    if isinstance(found, str):
        body.append(tag("p", found, class_="note"))
    else:
        query = {name: request.query_params.get(name) for name in _ASKED}
        for number, one in enumerate(_frames(found.inputs)):
            caption, _ = _read(one)
            address = room.links.to("s", chosen, "frames", f"{number}.png", **query)
            picture = tag("img", src=address, alt=f"picture {number + 1}, drawn text", loading="lazy")
            words = tag("figcaption", f"{number + 1}: about {tokens(one.tokens)} tokens. ", caption, class_="dim")
            body.append(tag("figure", words, tag("a", picture, href=address)))
        strategy = found.observation.strategy or "none"
        body = body or [tag("p", f"The next request has no pictures; the strategy is {strategy}.", class_="dim")]
    form = model_form(room, request, chosen, "frames")
    return page(room.links, "frames", form, body, session=chosen, tab="frames")


async def frame_picture(room: Room, request: Request) -> bytes:
    """The PNG of one picture.

    Raises:
        NotFoundError: the request has none of this number.
    """
    found = await preview(room.compaction(session_of(request)), request)
    frames = [] if isinstance(found, str) else _frames(found.inputs)
    number = int(request.path_params["number"])
    picture = _read(frames[number])[1] if number < len(frames) else b""
    if not picture.startswith(_PNG):
        raise ls.NotFoundError(f"the next request has no picture {number + 1}")
    return picture


def _frames(inputs: tuple[PreparedInput, ...]) -> list[PreparedInput]:
    return [one for one in inputs if one.kind == "frame"]


def _read(one: PreparedInput) -> tuple[str, bytes]:
    """The caption and the picture of a message, in the shape of any provider."""
    value: Any = orjson.loads(one.payload)
    parts: list[dict[str, Any]] = value["content"]
    caption = " ".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    for part in parts:
        data = part.get("source", {}).get("data")
        held = part.get("image_url")
        url = held.get("url") if isinstance(held, dict) else held
        if isinstance(url, str):
            data = url.partition("base64,")[2]
        if isinstance(data, str):
            try:
                return caption, base64.b64decode(data, validate=True)
            except binascii.Error:
                break
    return caption, b""
