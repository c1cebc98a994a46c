"""Appending a reference to content: the content is held before, or together with, the record that names it.

Where the catalog is in the log's own file, record and hold are one transaction, and the hold goes when the log removes
the record. Elsewhere the order is: put, look at the topic, hold, append, note the offset in the hold. A process that
dies in between leaves a hold without a record, or without its offset; it never leaves a record without its bytes. Such
holds, and those of records that the log has removed, end with a collection (``laser.content.settling``).
"""

from __future__ import annotations

import logging
from typing import Final

import anyio

from laser.content.places import Place, encode_place, record_holder
from laser.content.store import ContentStore
from laser.errors import AppendIndeterminateError, LaserError
from laser.model.content import ContentEntry
from laser.model.records import Appended, NewRecord
from laser.model.topics import TopicInfo
from laser.ports.log import Log

__all__ = ["append_holding", "record_holder"]

_CONFIRM_SECONDS: Final = 5.0

_log = logging.getLogger("laser.context")


async def append_holding(
    log: Log,
    store: ContentStore,
    tenant: str,
    entry: ContentEntry,
    stream: str,
    topic: str,
    record: NewRecord,
    conversation: str,
    *,
    find_first: bool,
) -> Appended:
    """Appends a record and holds what its entry refers to.

    Raises:
        NotFoundError: a content, the topic or the stream is absent; nothing was written. Others as ``Log.append``.
    """
    digests = list(dict.fromkeys(ref.digest for ref in entry.refs))
    holder = record_holder(stream, topic, conversation, record.id)
    if store.joint is not None:
        return await store.joint.append_holding(
            tenant, holder, digests, stream, topic, record, key=conversation, find_first=find_first
        )
    info = await _look_up(log, stream, topic)
    place = Place.before(info, again=find_first)
    await store.catalog.hold(tenant, holder, digests, place=encode_place(place))
    try:
        done = await log.append(stream, topic, (record,), key=conversation, find_first=find_first)
    except AppendIndeterminateError:
        raise
    except LaserError:
        # Nothing was written. With an id of the caller's an earlier attempt may have been, and needs the hold.
        if not find_first:
            with anyio.CancelScope(shield=True):
                await _let_go(store, tenant, holder)
        raise
    confirmed = place.after(info, done)
    if confirmed is not None:
        # The message is there: whatever goes wrong from here on is for the next collection to put right.
        with anyio.move_on_after(_CONFIRM_SECONDS):
            await _confirm(store, tenant, holder, digests, encode_place(confirmed))
    return done


async def _look_up(log: Log, stream: str, topic: str) -> TopicInfo:
    while (info := await log.topic(stream, topic)) is None:
        # For the log's own error; there is none where the topic was made just now.
        await log.read(stream, topic, 0, start=0, limit=1)
    return info


async def _confirm(store: ContentStore, tenant: str, holder: str, digests: list[str], place: str) -> None:
    try:
        await store.catalog.hold(tenant, holder, digests, place=place)
    except LaserError as error:
        _log.info("the hold %r has no offset until it is looked for: %s", holder, error)


async def _let_go(store: ContentStore, tenant: str, holder: str) -> None:
    try:
        await store.catalog.release(tenant, holder)
    except LaserError as error:
        _log.warning("the hold %r stays, though its message was refused: %s", holder, error)
