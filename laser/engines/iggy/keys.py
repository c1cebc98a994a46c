"""Which partition a key belongs to: the rule of Iggy's clients and server, so that all of them agree.

``partition = xxHash32(key, seed 0) % partitions``. The driver applies it too, but with a number of partitions that it
never looks up again; so it is applied here and each append names its partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

from laser.model.topics import PartitionInfo

__all__ = ["key_hash", "partition_of", "partitions_of"]

_MASK: Final = 0xFFFF_FFFF
_P1: Final = 0x9E37_79B1
_P2: Final = 0x85EB_CA77
_P3: Final = 0xC2B2_AE3D
_P4: Final = 0x27D4_EB2F
_P5: Final = 0x1656_67B1


def partition_of(key: str, ids: Sequence[int]) -> int:
    """The partition of a key among all of a topic, whose ids are ascending."""
    return ids[key_hash(key) % len(ids)]


def partitions_of(key: str, partitions: Sequence[PartitionInfo]) -> list[int]:
    """The partition of a key, and those that it had before partitions were added, newest first.

    Added partitions have a later creation time than those before them.
    """
    count, found = 0, list[int]()
    for _, added in groupby(partitions, key=lambda part: part.created_at_micros):
        count += len(list(added))
        found.append(partitions[key_hash(key) % count].id)
    return list(dict.fromkeys(reversed(found)))


@lru_cache(maxsize=8192)
def key_hash(key: str) -> int:
    """xxHash32 of the key's UTF-8 bytes with seed 0."""
    data = key.encode()
    size, at = len(data), 0
    if size >= 16:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        while at + 16 <= size:
            for lane in range(4):
                word = int.from_bytes(data[at : at + 4], "little")
                lanes[lane] = _rotate((lanes[lane] + word * _P2) & _MASK, 13) * _P1 & _MASK
                at += 4
        value = sum(_rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    else:
        value = _P5
    value = (value + size) & _MASK
    while at + 4 <= size:
        word = int.from_bytes(data[at : at + 4], "little")
        value = _rotate((value + word * _P3) & _MASK, 17) * _P4 & _MASK
        at += 4
    for byte in data[at:]:
        value = _rotate((value + byte * _P5) & _MASK, 11) * _P1 & _MASK
    value = (value ^ value >> 15) * _P2 & _MASK
    value = (value ^ value >> 13) * _P3 & _MASK
    return value ^ value >> 16


def _rotate(value: int, turn: int) -> int:
    return (value << turn | value >> (32 - turn)) & _MASK
