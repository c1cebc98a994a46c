"""Appending a reference to content: the content is held before, or together with, the record that names it.

Where the catalog is in the log's own file, record and hold are one transaction, and the hold goes when the log removes
the record. Elsewhere the order is: put, hold, append. A process that dies in between leaves a hold without a record,
which keeps bytes for nothing; it never leaves a record without its bytes.
"""

from __future__ import annotations

import logging

import anyio

from laser.content.store import ContentStore
from laser.errors import AppendIndeterminateError, LaserError
from laser.model.content import ContentEntry
from laser.model.records import Appended, NewRecord
from laser.ports.log import Log

__all__ = ["append_holding", "record_holder"]

_log = logging.getLogger("laser.context")


def record_holder(stream: str, topic: str, conversation: str, record_id: int | None = None) -> str:
    """The name under which a message holds content; without an id, what those of a conversation's messages begin with.

    Args:
        conversation: its id. record_id: of the message, as in ``AppendReceipt.id``.
    """
    names = [name.replace("%", "%25").replace("/", "%2F") for name in (stream, topic, conversation)]
    return f"record:{'/'.join(names)}/" + ("" if record_id is None else f"{record_id:032x}")


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
    await store.catalog.hold(tenant, holder, digests)
    try:
        return await log.append(stream, topic, (record,), key=conversation, find_first=find_first)
    except AppendIndeterminateError:
        raise
    except LaserError:
        # Nothing was written. With an id of the caller's an earlier attempt may have been, and needs the hold.
        if not find_first:
            with anyio.CancelScope(shield=True):
                await _let_go(store, tenant, holder)
        raise


async def _let_go(store: ContentStore, tenant: str, holder: str) -> None:
    try:
        await store.catalog.release(tenant, holder)
    except LaserError as error:
        _log.warning("the hold %r stays, though its message was refused: %s", holder, error)
