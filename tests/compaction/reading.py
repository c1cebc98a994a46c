"""Reading pictures back, by laying the font's glyphs over every cell. Only what a picture itself says is used."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable

from PIL import Image

from laser.compaction.inputs import PreparedInput
from laser.compaction.snapcompact.font import CELL_HEIGHT, CELL_WIDTH, glyphs

__all__ = ["alike", "caption_of", "frames_of", "picture_of", "read_picture"]


def read_picture(picture: bytes) -> str:
    """The characters of a picture, the blanks after the last one left out.

    Of letters that look alike, the first one is read.
    """
    letters: dict[bytes, str] = {}
    for char, glyph in glyphs().items():
        letters.setdefault(glyph, char)
    image = Image.open(io.BytesIO(picture)).convert("L")
    width, height = image.size
    assert (width % CELL_WIDTH, height % CELL_HEIGHT) == (0, 0)
    pixels = image.tobytes()
    found: list[str] = []
    for top in range(0, height, CELL_HEIGHT):
        for left in range(0, width, CELL_WIDTH):
            cell = bytearray()
            for y in range(top, top + CELL_HEIGHT):
                row = pixels[y * width + left : y * width + left + CELL_WIDTH]
                cell.append(sum(1 << 7 - x for x, shade in enumerate(row) if shade < 128))
            found.append(letters[bytes(cell)])
    return "".join(found).rstrip(" ")


def alike(cells: str) -> str:
    """The cells with letters that look like those of another script, such as the Greek A, as the first of these."""
    table = glyphs()
    first = {glyph: char for char, glyph in reversed(list(table.items()))}
    return "".join([first[table[char]] for char in cells])


def frames_of(inputs: Iterable[PreparedInput]) -> list[PreparedInput]:
    """The pictures among the inputs of a request."""
    return [one for one in inputs if one.kind == "frame"]


def picture_of(one: PreparedInput) -> bytes:
    """The PNG in an input, whatever the provider's form."""
    _, part = json.loads(one.payload)["content"]
    if part["type"] == "image":
        return base64.b64decode(part["source"]["data"])
    link = part["image_url"] if part["type"] == "input_image" else part["image_url"]["url"]
    return base64.b64decode(link.removeprefix("data:image/png;base64,"))


def caption_of(one: PreparedInput) -> str:
    """The words beside a picture."""
    text: str = json.loads(one.payload)["content"][0]["text"]
    return text
