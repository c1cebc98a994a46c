"""Images in messages: what kind and how large, read from their first bytes. Their bytes go no further."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

import msgspec

__all__ = ["FILE_TOKENS", "IMAGE_TOKENS", "ImageFacts", "image_facts", "part_facts", "read_dimensions"]

IMAGE_TOKENS: Final = 1_600
"""Tokens of an image whose dimensions are not known: what the largest one that models look at costs."""

FILE_TOKENS: Final = 3_000
"""Tokens of an attached file that is no image."""

_LONG_EDGE: Final = 1_568
_PIXELS_A_TOKEN: Final = 750
_LEAST_TOKENS: Final = 85
# As much as the markers before a JPEG's dimensions take, with a preview picture among them.
_HEAD_BYTES: Final = 96 * 1024
_DATA_URI: Final = re.compile(r"data:([\w.+/-]{0,100})[^,]{0,200},")
_START_OF_FRAME: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


class ImageFacts(msgspec.Struct, frozen=True, gc=False):
    """What is known of an attached image or file.

    Attributes:
        media_type: as given; empty when it was not. width, height: pixels; 0 unknown. size: bytes; 0 unknown.
        image: whether it is an image.
    """

    media_type: str
    width: int = 0
    height: int = 0
    size: int = 0
    image: bool = True

    @property
    def tokens(self) -> int:
        """What it is estimated to cost a model: pixels divided by 750, after it was made to fit 1,568 a side."""
        if not self.image:
            return FILE_TOKENS
        if not self.width or not self.height:
            return IMAGE_TOKENS
        scale = min(1.0, _LONG_EDGE / max(self.width, self.height))
        pixels = int(self.width * scale) * int(self.height * scale)
        return min(IMAGE_TOKENS * 2, max(_LEAST_TOKENS, -(-pixels // _PIXELS_A_TOKEN)))

    @property
    def text(self) -> str:
        """A few words for a text that cannot hold it."""
        parts = ["image" if self.image else "file"]
        if self.media_type:
            parts.append(self.media_type)
        if self.width and self.height:
            parts.append(f"{self.width}x{self.height}")
        if self.size:
            parts.append(f"{self.size:,} bytes")
        return f"[{' '.join(parts)}]"


def image_facts(source: object, media_type: str = "", *, image: bool = True) -> ImageFacts:
    """The facts of an image or file by its source.

    Args:
        source: a ``data:`` URI, base64 text, or a link; anything else is of unknown size.
    """
    if not isinstance(source, str):
        return ImageFacts(media_type, image=image)
    match = _DATA_URI.match(source)
    if match is not None:
        media_type, start = match[1] or media_type, match.end()
    elif source[:8].lower().startswith(("http:", "https:", "file:")):
        return ImageFacts(media_type, image=image)
    else:
        start = 0
    size = (len(source) - start) * 3 // 4
    width, height = read_dimensions(_decode_head(source, start)) if image else (0, 0)
    return ImageFacts(media_type, width, height, size, image)


def read_dimensions(data: bytes) -> tuple[int, int]:
    """Width and height in pixels by the first bytes of a PNG, JPEG, GIF or WebP; zeros when they do not say."""
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            return _number(data, 16, 4), _number(data, 20, 4)
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
        if data[:2] == b"\xff\xd8":
            return _jpeg(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
    except IndexError:
        pass
    return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return 0, 0
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _START_OF_FRAME:
            return _number(data, at + 7, 2), _number(data, at + 5, 2)
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:
            at += 2
        else:
            at += 2 + max(2, _number(data, at + 2, 2))
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return 0, 0


def _number(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + width], "big")


def _decode_head(text: str, start: int) -> bytes:
    head = text[start : start + _HEAD_BYTES]
    try:
        return base64.b64decode(head[: len(head) // 4 * 4], validate=False)
    except (binascii.Error, ValueError):
        return b""


def part_facts(part: dict[str, Any]) -> ImageFacts | None:
    """The facts of a part of a message that is an image or a file, in the shapes of the three APIs; else ``None``."""
    kind = part.get("type")
    if kind == "image_url":
        link = part.get("image_url")
        return image_facts(link.get("url") if isinstance(link, dict) else link)
    if kind == "input_image":
        return image_facts(part.get("image_url"))
    if kind in ("image", "document"):
        source = part.get("source")
        if isinstance(source, dict):
            media_type = source.get("media_type")
            named = media_type if isinstance(media_type, str) else ""
            return image_facts(source.get("data") or source.get("url"), named, image=kind == "image")
        return ImageFacts("", image=kind == "image")
    if kind in ("file", "input_file", "input_audio", "audio"):
        held = part.get("file") if isinstance(part.get("file"), dict) else part.get("input_audio", part)
        data = held.get("file_data") or held.get("data") if isinstance(held, dict) else None
        return image_facts(data, image=False)
    return None
