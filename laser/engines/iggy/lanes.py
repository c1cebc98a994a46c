"""Which connection suits which partition.

A server works with a thread for each core: every connection and every partition belongs to one of them. An append that
comes in on its partition's own thread needs no hop between threads (measured: 190 µs in place of 220 µs). Which thread
that is cannot be asked, so it is measured: a partition that is appended to often gets a few of its appends sent on
each connection, and then stays with the one that answered soonest.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary, ref

from laser.engines.iggy.errors import Target
from laser.engines.iggy.link import Link
from laser.engines.iggy.links import Links

__all__ = ["Lane", "Lanes"]

_OFTEN: Final = 64  # appends to a partition before it is worth another connection
_COMPARED: Final = 3  # connections; a server spreads them over its threads
_SAMPLES: Final = 24
_AGAIN: Final = 5_000  # appends after which it is measured again
_MOST: Final = 1_024


class Lane:
    """One partition's way to the server.

    It holds no connection: one that broke, or whose log was closed, is gone as soon as nobody uses it any more.
    """

    __slots__ = ("_appends", "_best", "_samples", "measuring")

    def __init__(self) -> None:
        self.measuring = False
        self._appends = 0
        self._best: ref[Link] | None = None
        self._samples: WeakKeyDictionary[Link, list[float]] = WeakKeyDictionary()

    def choose(self, links: Links) -> Link | None:
        """An idle connection for the next append, ``None`` when there is none."""
        self._appends += 1
        if self._best is not None:
            best = self._best()
            if best is not None and self._appends < _AGAIN and best in links.all:
                return best if not best.busy else links.idle()
            self._best = None
            self._appends = 0
            self._samples.clear()
        self.measuring = self._appends > _OFTEN * len(links.all)
        if not self.measuring:
            return links.idle()
        idle = [link for link in links.all if not link.busy]
        return min(idle, key=self._count, default=None)

    def wants_another(self, links: Links) -> bool:
        """Whether it is time to have another connection to compare with. Two can lead to the same thread."""
        return self._best is None and self._appends == _OFTEN * len(links.all) and len(links.all) < _COMPARED

    def note(self, link: Link, seconds: float, links: Links) -> None:
        """Takes note of how soon a connection answered, while that is measured."""
        samples = self._samples.setdefault(link, [])
        samples.append(seconds)
        if len(samples) >= _SAMPLES and all(len(self._samples.get(other, ())) >= _SAMPLES for other in links.all):
            self._best = ref(min(links.all, key=self._typical))
            self.measuring = False

    def _count(self, link: Link) -> int:
        return len(self._samples.get(link, ()))

    def _typical(self, link: Link) -> float:
        return sorted(self._samples[link])[2]  # near the least: whatever adds to that is the machine's other work


class Lanes:
    """The lanes of one log."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[Target, int], Lane] = {}

    def of(self, target: Target, partition: int) -> Lane:
        """The lane of a partition."""
        place = (target, partition)
        lane = self._lanes.get(place)
        if lane is None:
            if len(self._lanes) >= _MOST:
                self._lanes.clear()
            lane = self._lanes[place] = Lane()
        return lane
