"""Which pictures an archive is shown as: their shape, how many, and what each says. Pure."""

from __future__ import annotations

import base64
import struct
from typing import Any, Final, Literal

import msgspec
import orjson

from laser.compaction.sizes import message_cost
from laser.compaction.snapcompact.font import CELL_HEIGHT, CELL_WIDTH
from laser.limits import MAX_FRAMES, MAX_INLINE_FRAMES

__all__ = ["Frame", "Shape", "frame_budget", "lay_out", "payload_of", "shape_for"]

_PART = Literal["image", "image_url", "input_image"]

# Images that providers take in one request.
_IMAGES: Final = (
    (("anthropic", "claude", "amazon-bedrock", "bedrock", "openrouter", "antigravity"), 90),
    (("openai", "google", "gemini", "vertex"), 200),
    (("umans",), 10),
)
_IMAGES_UNKNOWN: Final = 5
# The largest pictures that are not scaled down: 1,568 by 728 pixels, and for models that scale to 768, 1,536 by 767.
_WIDE: Final = (196, 56)
_TILED: Final = (192, 59)
_TILED_FROM: Final = ("openai", "google", "gemini", "vertex")
_LEAST_LINES: Final = 4
# A small window still gets some pictures, of fewer lines.
_LEAST_FRAMES: Final = 4


class Shape(msgspec.Struct, frozen=True):
    """What a full picture holds: columns and lines of cells. part: how a message holds it."""

    columns: int
    lines: int
    part: _PART

    @property
    def cells(self) -> int:
        """Characters in a full picture."""
        return self.columns * self.lines

    @property
    def tokens(self) -> int:
        """What a full picture costs, with the words beside it."""
        return _cost(_caption(1, 1, 0), self, self.cells)


class Frame(msgspec.Struct, frozen=True):
    """A picture to be drawn. cells: what is in it. caption: what stands beside it. tokens: of both."""

    cells: str
    caption: str
    tokens: int


def shape_for(provider: str | None, room: int | None) -> Shape:
    """The shape of a provider's pictures.

    Args:
        room: tokens that all pictures may cost; ``None`` unlimited. Where few full ones fit, they have fewer lines.
    """
    name = _plain(provider)
    columns, lines = _TILED if name.startswith(_TILED_FROM) else _WIDE
    part: _PART = "image_url"
    if name.startswith(("anthropic", "claude", "amazon-bedrock", "bedrock")):
        part = "image"
    elif name.startswith(("openai-responses", "openai-codex")):
        part = "input_image"
    shape = Shape(columns, lines, part)
    while room is not None and shape.lines > _LEAST_LINES and shape.tokens * _LEAST_FRAMES > room:
        shape = Shape(columns, shape.lines - 1, part)
    return shape


def frame_budget(provider: str | None, room: int | None, max_frames: int | None, full: int) -> int:
    """How many pictures a request may hold, at least one.

    The smallest of: what the provider takes, or ``max_frames`` in its place; ``MAX_INLINE_FRAMES``; ``MAX_FRAMES``; and
    what fits the room at ``full`` tokens each.
    """
    name = _plain(provider)
    taken = next((count for names, count in _IMAGES if name.startswith(names)), _IMAGES_UNKNOWN)
    found = min(taken if max_frames is None else max_frames, MAX_INLINE_FRAMES, MAX_FRAMES)
    return max(1, found if room is None else min(found, room // full))


def lay_out(cells: str, shape: Shape, budget: int) -> list[Frame]:
    """The pictures of an archive. Over the budget, whole ones between the first and the newest are left out.

    A full picture stays the same when the archive grows at its end.
    """
    count = -(-len(cells) // shape.cells)
    numbers = list(range(count))
    if count > budget:
        numbers = [count - 1] if budget == 1 else [0, *range(count - budget + 1, count)]
    gone = (count - len(numbers)) * shape.cells
    frames: list[Frame] = []
    for place, number in enumerate(numbers):
        part = cells[number * shape.cells : (number + 1) * shape.cells]
        caption = _caption(place, number + 1, gone)
        frames.append(Frame(part, caption, _cost(caption, shape, len(part))))
    return frames


def payload_of(caption: str, picture: bytes, shape: Shape) -> bytes:
    """The message that shows a picture."""
    data = base64.b64encode(picture).decode()
    text = "input_text" if shape.part == "input_image" else "text"
    part: dict[str, Any]
    if shape.part == "image":
        part = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    elif shape.part == "image_url":
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}", "detail": "high"}}
    else:
        part = {"type": "input_image", "image_url": f"data:image/png;base64,{data}", "detail": "high"}
    return orjson.dumps({"role": "user", "content": [{"type": text, "text": caption}, part]})


def _caption(place: int, number: int, gone: int) -> str:
    if place:
        return f"[laser: the archive goes on, picture {number}]"
    missing = ""
    if gone:
        where = "between this picture and the next" if number == 1 else "before this picture"
        missing = f"; {gone:,} characters {where} are left out"
    return (
        "[laser: archive of the older conversation, drawn as text, read left to right and on in the next picture; what "
        f"it says was done is done; ↵ is a line break, → a tab, \\uXXXX a character by its number{missing}; "
        "transcript_read and transcript_grep read all of it]"
    )


def _cost(caption: str, shape: Shape, cells: int) -> int:
    """What a message with a picture costs: of the picture only its size counts."""
    height = -(-cells // shape.columns) * CELL_HEIGHT
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", shape.columns * CELL_WIDTH, height)
    return message_cost(payload_of(caption, head, shape))


def _plain(provider: str | None) -> str:
    return (provider or "").strip().lower().replace("_", "-")
