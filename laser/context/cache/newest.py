"""The newest records of a conversation: which are known to be, and where more must be read to know."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laser.context.cache.stretch import Run
from laser.limits import COPY_DISTANCE

__all__ = ["Held", "NewestPlan", "plan_newest"]


class Held(msgspec.Struct, frozen=True, gc=False):
    """What is known of one partition.

    Attributes:
        bound: the first offset that the read window examines.
        run: the conversation's records from ``run.low`` on.
        oldest_micros: a time that no record below ``run.low`` exceeds; ``None`` when nothing is held.
    """

    bound: int
    run: Run
    oldest_micros: int | None


class NewestPlan(msgspec.Struct, frozen=True):
    """What to do.

    Attributes:
        short: partitions whose unread part can still change the answer. cuts: by partition, the offset from which
            its records belong to the answer, once nothing is short.
    """

    short: list[int]
    cuts: dict[int, int]


def plan_newest(held: Mapping[int, Held], newest: int) -> NewestPlan:
    """Finds the newest records among what is held, and what could be newer among what is not.

    Times never go back within a partition, so a partition is settled when even its oldest record held is older than
    the oldest record wanted. A partition that has a wanted record must be known ``COPY_DISTANCE`` further back too:
    an earlier copy of it could be there.
    """
    times: list[int] = []
    for part in held.values():
        times += (r.timestamp_micros for r in part.run.own[-newest:] if r.offset >= part.bound)
    unread = [partition for partition, part in held.items() if part.run.low > part.bound]
    if len(times) < newest:
        return NewestPlan(unread, {partition: part.bound for partition, part in held.items()})
    times.sort()
    oldest_wanted = times[-newest]
    cuts = {partition: _cut(part, newest, oldest_wanted) for partition, part in held.items()}
    short = []
    for partition in unread:
        part = held[partition]
        unsettled = part.oldest_micros is None or part.oldest_micros >= oldest_wanted
        if unsettled or part.run.low > cuts[partition]:
            short.append(partition)
    return NewestPlan(short, cuts)


def _cut(part: Held, newest: int, oldest_wanted: int) -> int:
    first = part.run.high
    for record in reversed(part.run.own[-newest:]):
        if record.offset < part.bound or record.timestamp_micros < oldest_wanted:
            break
        first = record.offset
    else:
        # More records than were asked for may share the time of the oldest wanted one.
        for record in reversed(part.run.own[:-newest]):
            if record.offset < part.bound or record.timestamp_micros < oldest_wanted:
                break
            first = record.offset
    # Unattributable records are reported from the oldest wanted time on, so the cut goes there even without a match.
    for record in reversed(part.run.strays):
        if record.offset < part.bound or record.timestamp_micros < oldest_wanted:
            break
        first = min(first, record.offset)
    return max(part.bound, first - COPY_DISTANCE)
