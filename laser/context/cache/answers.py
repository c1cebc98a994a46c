"""Answers that were given already, to give them again while the log is the same."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from laser.model.messages import Messages
from laser.model.window import Match, Window, WindowQuery
from laser.wire.batches import record_bytes

__all__ = ["Answers", "Extent"]

Extent = list[tuple[int, int, int]]
"""By partition its id, the first offset that the log holds, and where what is known of it ends."""

_Key = tuple[Match, int, int]

_MAX_ANSWERS: Final = 64
_MAX_RECORDS: Final = 512


class Answers:
    """The answers to the latest queries of one topic that ask for the newest records.

    An answer holds for the extent that it was made from. Whoever forgets records must clear the answers too.

    Attributes:
        size: bytes that they hold, about. The messages made of the records share their bytes.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[_Key, tuple[Extent, Window, int]] = OrderedDict()
        self.size = 0

    def find(self, query: WindowQuery, extent: Extent) -> Window | None:
        """The answer that was given for this extent."""
        if query.newest is None or query.starts is not None:
            return None
        key = (query.match, query.newest, query.size)
        known = self._known.get(key)
        if known is None:
            return None
        if known[0] != extent:
            self._drop(key)
            return None
        self._known.move_to_end(key)
        return known[1]

    def keep(self, query: WindowQuery, extent: Extent, window: Window) -> Window:
        """The answer, with room for what is made of it where it is kept."""
        if query.newest is None or query.starts is not None or len(window.records) > _MAX_RECORDS:
            return window
        made: dict[int, Messages] = {}
        window = Window(window.topic, window.records, made)
        key = (query.match, query.newest, query.size)
        self._drop(key)
        size = record_bytes(window.records)
        self._known[key] = (extent, window, size)
        self.size += size
        if len(self._known) > _MAX_ANSWERS:
            self._drop(next(iter(self._known)))
        return window

    def clear(self) -> None:
        """Forgets them all."""
        self._known.clear()
        self.size = 0

    def _drop(self, key: _Key) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self.size -= known[2]
