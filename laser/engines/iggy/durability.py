"""What laser's durabilities are on a server, by the topic options that it lists.

A server without a ``durability`` option (0.9.0-edge.5) writes an acknowledged batch to its file when the topic holds
``messages_required_to_save`` records, 1,024 by default, and until then keeps it in memory:

- ``memory``: the server's defaults. On a single node the death of the server loses what was not written yet, up to
  1,024 records or 1 MiB. In a cluster a majority holds the record in memory, so the death of one node loses nothing.
- ``process``: ``messages_required_to_save`` = 1. The record is in the server's file, and so in the hands of the
  operating system, before it is acknowledged.
- ``power``: the same and ``enforce_fsync``: on the disk before it is acknowledged. On a cluster that is the primary's
  disk; the other nodes follow, so a power cut of all nodes at once can lose the newest records (they are on the disk
  of one node, and another one may become the primary).

A topic gets the strongest unless another one is named. ``python -m benchmarks durability`` measures what each costs;
the README has the figures.

A server with that option promises ``replicated`` (a majority in memory) or ``persisted`` (on the disks of a majority).
It promises nothing in between, so there ``process`` asks for ``persisted`` as ``power`` does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from laser.engines.iggy.requests import Option, bool_option, u32_option
from laser.errors import UnsupportedError
from laser.model.topics import DURABILITIES, Durability

__all__ = ["DURABILITY_KEY", "asks_persisted", "default_of", "durabilities_of", "durability_of", "options_for"]

DURABILITY_KEY: Final = "durability"
_FLUSH: Final = "messages_required_to_save"
_FSYNC: Final = "enforce_fsync"
_PERSISTED: Final = "persisted"


def durabilities_of(keys: Collection[str]) -> tuple[Durability, ...]:
    """The durabilities that a server with these topic options can give, the strongest last."""
    if DURABILITY_KEY in keys or (_FLUSH in keys and _FSYNC in keys):
        return DURABILITIES
    return ("memory", "process") if _FLUSH in keys else ("memory",)


def default_of(keys: Collection[str]) -> Durability:
    """What a topic gets when none is asked for: the strongest."""
    return durabilities_of(keys)[-1]


def asks_persisted(wanted: Durability) -> bool:
    """Whether a server with a ``durability`` option is asked for ``persisted``."""
    return wanted != "memory"


def options_for(wanted: Durability, keys: Collection[str]) -> list[Option]:
    """The topic options for a durability, on a server without a ``durability`` option.

    Raises:
        UnsupportedError: the server cannot give it.
    """
    if wanted not in durabilities_of(keys):
        raise UnsupportedError(
            f"durability: this Iggy server cannot give {wanted!r}, it gives {', '.join(durabilities_of(keys))}"
        )
    if wanted == "memory":
        return []
    flush = u32_option(_FLUSH, 1)
    return [flush] if wanted == "process" else [flush, bool_option(_FSYNC, True)]


def durability_of(options: Mapping[str, Any]) -> Durability | None:
    """The durability of a topic with these options, ``None`` where they do not say."""
    if DURABILITY_KEY in options:
        return "power" if options[DURABILITY_KEY] == _PERSISTED else "memory"
    if _FLUSH not in options:
        return None
    if options[_FLUSH] != 1:
        return "memory"
    return "power" if options.get(_FSYNC) is True else "process"
