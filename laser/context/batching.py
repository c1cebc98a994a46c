"""Background batching: many small appends become few large ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from types import TracebackType
from typing import Any, Final

import anyio
import anyio.abc
import msgspec

from laser.context.appending import build_provenance, build_record
from laser.context.connection import Connection
from laser.context.telemetry import observe
from laser.errors import ClosedError, InvalidError, LaserError
from laser.limits import MAX_BATCH_BYTES, MAX_BATCH_RECORDS
from laser.model.checks import check_name
from laser.model.ids import parse_conversation_id
from laser.model.messages import AppendReceipt
from laser.model.provenance import Provenance
from laser.model.records import NewRecord

__all__ = ["Batching", "PendingReceipt"]

_SENDS_AT_ONCE: Final = 8


class PendingReceipt:
    """The receipt of an append that may not have been sent yet. Await it, as often as you like.

    Attributes:
        id: the record's id; append again with it when the answer got lost.
    """

    def __init__(self, record_id: int) -> None:
        self.id = record_id
        self._done = anyio.Event()
        self._receipt: AppendReceipt | None = None
        self._error: Exception | None = None
        self._seen = False

    def done(self) -> bool:
        """Whether awaiting it returns, or raises, at once."""
        return self._done.is_set()

    def __await__(self) -> Generator[Any, Any, AppendReceipt]:
        return self._wait().__await__()

    async def _wait(self) -> AppendReceipt:
        await self._done.wait()
        if self._error is not None:
            self._seen = True
            raise self._error
        assert self._receipt is not None
        return self._receipt

    def _resolve(self, receipt: AppendReceipt) -> None:
        self._receipt = receipt
        self._done.set()

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._done.set()

    def _unseen_error(self) -> Exception | None:
        return None if self._seen else self._error


class Batching:
    """Appends in the background, in batches of one topic and conversation. ``Laser.batching`` makes it.

    ``append`` returns as soon as the record is queued; awaiting what it returned gives the receipt. A record is
    durable when its receipt is there, and not before: a crash loses what was not acknowledged. The records of a
    conversation and topic are written in the order in which they were appended. When a batch fails, what was queued
    behind it for the same conversation and topic fails with it, so that the log never has a hole that nobody was told
    of.

    Leaving the ``async with`` block sends what is queued, and raises the first error that no receipt has reported.
    When the block is left by an exception or cancelled, what is not sent yet is not sent, and its receipts raise
    ``ClosedError``.

    Args:
        linger: seconds that a record may wait for company. max_records, max_bytes: a batch is sent at once when it
            has so many. max_pending: records that may wait or be under way; ``append`` waits for room above that.
    """

    def __init__(self, laser: Connection, *, linger: float, max_records: int, max_bytes: int, max_pending: int) -> None:
        if isinstance(linger, bool) or not isinstance(linger, int | float) or not 0 <= linger <= 60:
            raise InvalidError(f"linger: {linger!r} is not a number of seconds from 0 to 60", argument="linger")
        for name, value, limit in (
            ("max_records", max_records, MAX_BATCH_RECORDS),
            ("max_bytes", max_bytes, MAX_BATCH_BYTES),
            ("max_pending", max_pending, 10_000_000),
        ):
            if type(value) is not int or not 1 <= value <= limit:
                raise InvalidError(f"{name}: {value!r} is not a whole number from 1 to {limit}", argument=name)
        self._laser = laser
        self._linger = linger
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._max_pending = max_pending
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._pending = 0
        self._room = anyio.Event()
        self._idle = anyio.Event()
        self._sending = anyio.Semaphore(_SENDS_AT_ONCE)
        self._tasks: anyio.abc.TaskGroup | None = None
        self._unseen: list[PendingReceipt] = []

    async def append(
        self,
        conversation_id: str,
        topic: str,
        payload: bytes | str,
        *,
        agent: str | None = None,
        provenance: Provenance | None = None,
    ) -> PendingReceipt:
        """Queues one message; see ``ContextScope.append`` for the arguments.

        Raises:
            InvalidError, LimitError: a bad argument; nothing was queued. ClosedError: outside of ``async with``.
        """
        conversation = parse_conversation_id(conversation_id)
        check_name(topic, "topic")
        record = build_record(payload, build_provenance(conversation, topic, agent, provenance), None)
        while self._tasks is not None and self._pending >= self._max_pending:
            self._room = anyio.Event()
            await self._room.wait()
        if self._tasks is None:
            raise ClosedError("this batching is not open; use it inside its async with block")
        receipt = PendingReceipt(record.id)
        key = (topic, conversation)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
            self._tasks.start_soon(self._drain, key, queue)
        queue.put(_Item(record, receipt))
        self._pending += 1
        if queue.is_full(self._max_records, self._max_bytes):
            queue.full.set()
        return receipt

    async def flush(self) -> None:
        """Waits until everything queued so far is on the log or has failed.

        Raises:
            The first error that no receipt has reported.
        """
        for queue in self._queues.values():
            queue.full.set()
        while self._pending:
            self._idle = anyio.Event()
            await self._idle.wait()
            for queue in self._queues.values():
                queue.full.set()
        self._raise_unseen()

    async def __aenter__(self) -> Batching:
        if self._tasks is not None:
            raise ClosedError("this batching is open already")
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, None
        assert tasks is not None
        try:
            if error is None:
                await self.flush()
        finally:
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)
            self._abandon()

    async def _drain(self, key: tuple[str, str], queue: _Queue) -> None:
        """Sends one queue's records until it is empty."""
        while queue.items:
            with anyio.move_on_after(self._linger):
                await queue.full.wait()
            async with self._sending:
                await self._send(key, queue)
        del self._queues[key]

    async def _send(self, key: tuple[str, str], queue: _Queue) -> None:
        topic, conversation = key
        batch = queue.take(self._max_records, self._max_bytes)
        try:
            with observe("append", self._laser.stream, conversation, topic) as observed:
                done = await self._laser.open_log().append(
                    self._laser.stream, topic, [item.record for item in batch], key=conversation
                )
                observed.note(messages=len(batch), partition=done.partition)
        except LaserError as error:
            behind = queue.take(len(queue.items) or 1, None)
            for item in (*batch, *behind):
                item.receipt._fail(error)
                self._unseen.append(item.receipt)
            self._finished(len(batch) + len(behind))
        except BaseException:
            # Cancelled while the broker may have had the batch: its receipts are settled when the block is left.
            queue.put_back(batch)
            raise
        else:
            for item, offset in zip(batch, done.offsets, strict=True):
                item.receipt._resolve(
                    AppendReceipt(done.stream_id, done.topic_id, done.partition, offset, item.record.id)
                )
            self._finished(len(batch))

    def _finished(self, count: int) -> None:
        self._pending -= count
        self._room.set()
        self._idle.set()

    def _abandon(self) -> None:
        for queue in self._queues.values():
            for item in queue.items:
                item.receipt._fail(ClosedError("the batching was left before this record was known to be written"))
        self._queues.clear()
        self._pending = 0
        self._room.set()

    def _raise_unseen(self) -> None:
        unseen, self._unseen = self._unseen, []
        for receipt in unseen:
            error = receipt._unseen_error()
            if error is not None:
                raise error


class _Item(msgspec.Struct, frozen=True):
    record: NewRecord
    receipt: PendingReceipt

    @property
    def size(self) -> int:
        return len(self.record.payload) + len(self.record.headers)


class _Queue:
    """What waits for one conversation and topic.

    Attributes:
        full: set when there is no reason to wait for more.
    """

    def __init__(self) -> None:
        self.items: deque[_Item] = deque()
        self.size = 0
        self.full = anyio.Event()

    def put(self, item: _Item) -> None:
        self.items.append(item)
        self.size += item.size

    def put_back(self, items: list[_Item]) -> None:
        self.items.extendleft(reversed(items))
        self.size += sum(item.size for item in items)

    def is_full(self, max_records: int, max_bytes: int) -> bool:
        return len(self.items) >= max_records or self.size >= max_bytes

    def take(self, max_records: int, max_bytes: int | None) -> list[_Item]:
        batch: list[_Item] = []
        size = 0
        while self.items and len(batch) < max_records:
            size += self.items[0].size
            if batch and max_bytes is not None and size > max_bytes:
                break
            batch.append(self.items.popleft())
        self.size -= sum(item.size for item in batch)
        if not self.is_full(max_records, max_bytes if max_bytes is not None else MAX_BATCH_BYTES):
            self.full = anyio.Event()
        return batch
