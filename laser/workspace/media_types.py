"""Media types of files, by their names."""

from __future__ import annotations

import mimetypes
import os
from typing import Final

from laser.model.content import BYTES, TEXT

__all__ = ["type_of"]

_EXTRA_TYPES: Final = {".md": "text/markdown; charset=utf-8", ".jsonl": "application/jsonl"}


def type_of(path: str, data: object = None) -> str:
    """The media type by a path's ending, else by what the data are."""
    ending = os.path.splitext(path)[1].lower()
    known = _EXTRA_TYPES.get(ending) or mimetypes.guess_type(f"file{ending}")[0]
    if known is not None:
        return f"{known}; charset=utf-8" if known.startswith("text/") and ";" not in known else known
    return TEXT if isinstance(data, str) else BYTES
