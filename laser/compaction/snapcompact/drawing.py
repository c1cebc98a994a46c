"""Drawing cells as a picture. The only module that imports Pillow."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from typing import Final

from laser.compaction.snapcompact.font import CELL_HEIGHT, CELL_WIDTH, glyphs
from laser.errors import ConfigError
from laser.limits import MAX_KEPT_FRAMES

__all__ = ["FrameCache", "check_pillow", "draw"]

# Level 9 takes ten times as long and saves 6 %.
_LEVEL: Final = 5


def check_pillow() -> None:
    """Raises ConfigError where Pillow is not installed."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "snapcompact: drawing needs Pillow; install it with: pip install 'laser-context[snapcompact]', or say "
            "images=False for a model that reads text only"
        ) from error


def draw(cells: str, columns: int) -> bytes:
    """The PNG of cells, black on white, line by line, with as many lines as they take. Same cells, same bytes.

    Raises:
        ConfigError: Pillow is not installed.
    """
    check_pillow()
    from PIL import Image

    table = glyphs()
    lines: list[bytes] = []
    for at in range(0, len(cells), columns):
        line = cells[at : at + columns].ljust(columns)
        # A cell is a byte wide: every 13th byte of its glyphs is one row of pixels.
        stacked = b"".join([table[char] for char in line])
        lines += [stacked[row::CELL_HEIGHT] for row in range(CELL_HEIGHT)]
    image = Image.frombytes("1", (columns * CELL_WIDTH, len(lines)), b"".join(lines), "raw", "1;I")
    held = io.BytesIO()
    image.save(held, "PNG", compress_level=_LEVEL)
    return held.getvalue()


class FrameCache:
    """Pictures by geometry and content, the latest ``MAX_KEPT_FRAMES``. For several threads at once."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, cells: str, columns: int) -> bytes | None:
        """The picture, if it is here."""
        with self._lock:
            found = self._kept.get((columns, cells))
            if found is not None:
                self._kept.move_to_end((columns, cells))
            return found

    def draw(self, cells: str, columns: int) -> bytes:
        """The picture, drawn where it is not here. Takes some milliseconds."""
        found = self.find(cells, columns)
        if found is None:
            found = draw(cells, columns)
            with self._lock:
                self._kept[columns, cells] = found
                while len(self._kept) > MAX_KEPT_FRAMES:
                    self._kept.popitem(last=False)
        return found

    def __len__(self) -> int:
        return len(self._kept)
