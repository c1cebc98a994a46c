"""Appends whose answers get lost, retried with the ids that the error names: nothing lost, nothing seen twice."""

from __future__ import annotations

import random
import time

import anyio
import pytest

import laser as ls
from laser.client.opening import read_target
from laser.engines.memory import MemoryLog
from laser.model.topics import TopicConfig
from laser.testing.faulty_log import FaultRates, FaultyLog
from laser.testing.history import HistoryRecorder, Seen, check_history

pytestmark = pytest.mark.anyio

TOPIC = "notes"
KEYS = [ls.derive_conversation_id(f"key {number}") for number in range(6)]


async def append_until_known(scope: ls.ContextScope, recorder: HistoryRecorder, value: str) -> None:
    """What the documentation tells users to do: after doubt, append again with the same id."""
    operation = recorder.append(scope.conversation, value)
    record_id: int | None = None
    while True:
        try:
            receipt = await scope.append(TOPIC, value, id=record_id)
        except ls.AppendIndeterminateError as error:
            record_id = error.record_ids[0]
        except ls.DisconnectedError:
            if record_id is None:
                recorder.failed(operation)
                return
        else:
            recorder.acknowledged(operation, receipt.partition, receipt.offset)
            return


async def read_all(laser: ls.Laser, process: str, recorder: HistoryRecorder, stop: anyio.Event) -> None:
    ends: dict[int, int] = {}
    while not stop.is_set():
        for partition in range(3):
            started = time.monotonic_ns()
            try:
                page = await laser.open_log().read(
                    laser.stream, TOPIC, partition, start=ends.get(partition, 0), limit=50
                )
            except ls.DisconnectedError:
                continue
            recorder.polled(started, [Seen(partition, r.offset, r.payload.decode()) for r in page.records])
            ends[partition] = page.next
        await anyio.sleep(0.001)


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_is_lost_and_nothing_shows_twice(seed: int) -> None:
    rates = FaultRates(
        refuse=0.05, lose_answer=0.1, lose_request=0.05, late_request=0.05, copy=0.05, read_fault=0.05, short_page=0.3
    )
    faulty = FaultyLog(MemoryLog(), rates, seed)
    async with ls.Laser(faulty, read_target("memory:", None, None, None, 30.0)) as laser:
        await faulty.ensure_topic(laser.stream, TOPIC, TopicConfig(3))
        recorders = [HistoryRecorder(f"process {number}") for number in range(4)]
        reader = HistoryRecorder("reader")
        stop = anyio.Event()

        async def write(recorder: HistoryRecorder, name: int) -> None:
            rng = random.Random(f"{seed} {name}")
            for number in range(60):
                scope = laser.context(rng.choice(KEYS))
                await append_until_known(scope, recorder, f"{name}-{number}")

        async with anyio.create_task_group() as readers:
            readers.start_soon(read_all, laser, "reader", reader, stop)
            async with anyio.create_task_group() as writers:
                for name, recorder in enumerate(recorders):
                    writers.start_soon(write, recorder, name)
            await faulty.write_late()
            stop.set()

        faulty.rates = FaultRates()
        raw = [
            Seen(partition, record.offset, record.payload.decode())
            for partition in range(3)
            for record in (await faulty.read(laser.stream, TOPIC, partition, start=0, limit=10_000)).records
        ]
        visible = [message.text for key in KEYS for message in await laser.context(key).fetch(topics=[TOPIC], n=10_000)]
        operations = [operation for recorder in (*recorders, reader) for operation in recorder.operations]
        report = check_history(operations, raw, visible)
        # A late request can come in after its retry was written: the record then stands at two raw places, and the
        # first one, which users see, is not the one in the receipt only if it came in before. It never shows twice.
        assert report.clean, report.examples
        assert report.acknowledged > 150
        assert report.raw_copies > 0
        assert faulty.struck["lose_answer"] > 0
        assert faulty.struck["late_request"] > 0
