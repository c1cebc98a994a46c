"""One poll, and what comes of it: the only module that looks into the driver's received messages.

Every poll names its partition and its offset and commits nothing on the server: laser keeps its own checkpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from apache_iggy import Consumer, HeaderKey, HeaderValue, IggyClient, PollingStrategy, ReceiveMessage

from laser.engines.iggy.errors import Target
from laser.engines.iggy.headers import UNREADABLE, Headers, block_of
from laser.engines.iggy.link import Misplaced
from laser.engines.iggy.links import Links
from laser.errors import IdError
from laser.model.ids import parse_conversation_id
from laser.model.records import LogRecord
from laser.model.window import Match
from laser.wire.envelope import ENVELOPE_KEY
from laser.wire.provenance import CONVERSATION_KEY
from laser.wire.routing import route

__all__ = ["CONSUMER_NAME", "Poll", "Stretch", "find_ids", "first_held", "has_records", "read_stretch"]

# One name for all of laser: servers keep an offset per consumer name, and this one never has any.
CONSUMER_NAME: Final = "laser"
_CONSUMER: Final = Consumer.Single(CONSUMER_NAME)
_FIRST: Final = PollingStrategy.First()
_TURN: Final = 256  # records decoded before other tasks get their turn

_CONVERSATION: Final = HeaderKey.String(CONVERSATION_KEY.decode())
_ANCESTORS: Final = (HeaderKey.String("agdx.parent_conv"), HeaderKey.String("agdx.root_conv"))
_ENVELOPE: Final = HeaderKey.String(ENVELOPE_KEY.decode())


class Poll(msgspec.Struct, frozen=True, gc=False):
    """What to ask for.

    Attributes:
        start: the first offset. count: the most records.
        deadline: in the loop's time. size: bytes that they may have, for the patience with a slow network.
    """

    target: Target
    partition: int
    start: int
    count: int
    deadline: float
    size: int = 0


class Stretch(msgspec.Struct, frozen=True):
    """A run of a partition.

    Attributes:
        records: those that match, ascending. seen: how many there were before the match.
        next: the offset after the last one seen.
    """

    records: list[LogRecord]
    seen: int
    next: int


async def read_stretch(links: Links, poll: Poll, match: Match | None) -> Stretch:
    """The records of a poll, or fewer: that says nothing about the end."""
    messages = await _messages(links, poll, PollingStrategy.Offset(poll.start))
    records: list[LogRecord] = []
    partition, following = poll.partition, poll.start
    for number, message in enumerate(messages):
        if number % _TURN == _TURN - 1:
            await asyncio.sleep(0)
        following = message.offset() + 1
        try:
            headers = message.user_headers()
        except ValueError:  # one float that is not finite hides them all
            block = UNREADABLE
        else:
            if match is not None and headers and _is_foreign(headers, match):
                continue
            block = block_of(headers) if headers else b""
        payload = message.payload()
        if match is None or route(block, payload).meets(match):
            records.append(LogRecord(partition, following - 1, message.id(), message.timestamp(), block, payload))
    return Stretch(records, len(messages), following)


async def find_ids(links: Links, poll: Poll, owners: Mapping[int, str | None]) -> tuple[dict[int, int], int]:
    """The offsets of the records with these ids, each of its conversation, among those of a poll, and the offset after
    the last one seen.

    A partition can hold a record twice, after an answer was lost; the first one counts. Callers choose ids, and two
    conversations can choose the same one.
    """
    messages = await _messages(links, poll, PollingStrategy.Offset(poll.start))
    found: dict[int, int] = {}
    following = poll.start
    for number, message in enumerate(messages):
        if number % _TURN == _TURN - 1:
            await asyncio.sleep(0)
        following = message.offset() + 1
        record_id = message.id()
        if record_id in owners and _owner(message) == owners[record_id]:
            found.setdefault(record_id, following - 1)
    return found, following


def _owner(message: ReceiveMessage) -> str | None:
    try:
        headers = message.user_headers()
    except ValueError:  # one float that is not finite hides them all
        return None
    return route(block_of(headers) if headers else b"", message.payload()).conversation_id


async def first_held(links: Links, target: Target, partition: int, deadline: float) -> int | None:
    """The first offset that a partition holds, ``None`` when it holds nothing."""
    messages = await _messages(links, Poll(target, partition, 0, 1, deadline), _FIRST)
    return messages[0].offset() if messages else None


async def has_records(client: IggyClient, target: Target, partition: int, start: int, ids: Sequence[int]) -> bool:
    """Whether the records from an offset on have these ids, in this order. Asks on this very connection, once."""
    messages = await client.poll_messages(
        target.stream,
        target.topic,
        consumer=_CONSUMER,
        polling_strategy=PollingStrategy.Offset(start),
        count=len(ids),
        auto_commit=False,
        partition_id=partition,
    )
    return [(message.offset(), message.id()) for message in messages] == list(enumerate(ids, start))


async def _messages(links: Links, poll: Poll, strategy: PollingStrategy) -> list[ReceiveMessage]:
    async def request(client: IggyClient) -> list[ReceiveMessage]:
        messages = await client.poll_messages(
            poll.target.stream,
            poll.target.topic,
            consumer=_CONSUMER,
            polling_strategy=strategy,
            count=poll.count,
            auto_commit=False,
            partition_id=poll.partition,
        )
        if messages and messages[0].partition_id() != poll.partition:
            raise Misplaced
        return messages

    return await links.repeat(request, poll.target, poll.deadline, size=poll.size) or []


def _is_foreign(headers: Headers, match: Match) -> bool:
    # Only a shortcut past the block: whatever is not plainly another conversation's goes the long way, to route().
    if _ENVELOPE in headers:
        return False
    wanted = match.conversation_id
    own = _canonical(headers.get(_CONVERSATION))
    if own is None or own == wanted:
        return False
    return not (match.children and any(_canonical(headers.get(key)) == wanted for key in _ANCESTORS))


def _canonical(value: HeaderValue | None) -> str | None:
    return _canonical_text(value.value) if isinstance(value, HeaderValue.String) else None


@lru_cache(maxsize=8192)
def _canonical_text(text: str) -> str | None:
    try:
        return parse_conversation_id(text)
    except IdError:
        return None
