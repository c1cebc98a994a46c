"""Processes for the tests of the embedded engine: ``python -m tests.engines.sqlite_worker COMMAND DIRECTORY …``.

Each prints one line of JSON for what was acknowledged, as soon as it was.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import anyio

from laser.engines.sqlite import SqliteLog, open_sqlite_log
from laser.engines.sqlite.lockfile import LockFile
from laser.errors import ClosedError, StorageError
from laser.model.ids import derive_conversation_id, new_record_id
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.topics import Durability, TopicConfig
from laser.wire.provenance import encode_provenance

STREAM, TOPIC = "app", "events"


def record(payload: bytes, conversation: str = "worker") -> NewRecord:
    """A record of a conversation named by any text."""
    provenance = Provenance(conversation_id=derive_conversation_id(conversation))
    return NewRecord(new_record_id(), payload, encode_provenance(provenance))


def say(*values: object) -> None:
    """One line to the parent, at once."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


async def write(directory: str, name: str, tasks: str, each: str, durability: Durability = "process") -> None:
    """Appends from several tasks; for ever if ``each`` is 0."""
    async with await open_sqlite_log(directory) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(4, durability=durability))
        async with anyio.create_task_group() as group:
            for task in range(int(tasks)):
                group.start_soon(_write, log, f"{name}-{task}", int(each))


async def _write(log: SqliteLog, key: str, each: int) -> None:
    number = 0
    while each == 0 or number < each:
        batch = [record(f"{key}:{number + index}".encode(), key) for index in range(1 + number % 3)]
        done = await log.append(STREAM, TOPIC, batch, key=key)
        for offset, one in zip(done.offsets, batch, strict=True):
            say(key, done.partition, offset, one.id, one.payload.decode())
        number += len(batch)


async def partitions(directory: str, *keys: str) -> None:
    """Where keys go."""
    async with await open_sqlite_log(directory) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(7))
        say(*[(await log.append(STREAM, TOPIC, [record(b"x")], key=key)).partition for key in keys])


async def first_open(directory: str, start_at: str) -> None:
    """Opens a new directory at the same moment as others."""
    while time.time() < float(start_at):
        pass
    async with await open_sqlite_log(directory) as log:
        info = await log.ensure_topic(STREAM, TOPIC, TopicConfig(4))
        await log.append(STREAM, TOPIC, [record(str(os.getpid()).encode())], key="k")
        say(info.topic_id, info.created_at_micros)


async def fork(directory: str) -> None:
    """Forks while the log is in use. The child must be refused, and may open the log anew."""
    async with await open_sqlite_log(directory) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
        async with anyio.create_task_group() as group:
            for task in range(4):
                group.start_soon(_write, log, f"parent-{task}", 50)
            await anyio.sleep(0.02)
            children = []
            for _ in range(5):
                pid = os.fork()
                if pid == 0:
                    _child(log, directory)
                children.append(pid)
                await anyio.sleep(0.01)
        for pid in children:
            _, status = await anyio.to_thread.run_sync(os.waitpid, pid, 0)
            say("child", os.waitstatus_to_exitcode(status))


def _child(log: SqliteLog, directory: str) -> None:
    # Leaves by os._exit: the parent's event loop is not this process's to unwind.
    code = 1
    try:
        signal.alarm(30)
        refused = False
        try:
            log.topic(STREAM, TOPIC).send(None)
        except ClosedError as error:
            refused = "fork" in str(error)
        code = 0 if refused and _append_in_new_loop(directory) else 2
    finally:
        os._exit(code)


def _append_in_new_loop(directory: str) -> bool:
    async def append() -> bool:
        async with await open_sqlite_log(directory) as log:
            done = await log.append(STREAM, TOPIC, [record(b"child", "child")], key="child")
            return len(done.offsets) == 1

    # In a thread of its own: this one is, for the event loop's library, still inside the parent's loop.
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(anyio.run(append)))
    thread.start()
    thread.join()
    return done == [True]


async def lock_and_fork(directory: str) -> None:
    """Dies with the write lock held, and leaves a child that was forked meanwhile."""
    lock = LockFile(str(Path(directory) / "laser.lock"))
    lock.acquire(lambda: True)
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        signal.pause()
    say(pid)
    os.kill(os.getpid(), signal.SIGKILL)


async def fill(directory: str) -> None:
    """Runs into a limit of the file's size, as on a full disk, and goes on once it is lifted."""
    async with await open_sqlite_log(directory) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        placed = 0
        try:
            while True:
                batch = [record(bytes(20_000)) for _ in range(5)]
                done = await log.append(STREAM, TOPIC, batch, key="k")
                placed = done.offsets[-1] + 1
        except StorageError as error:
            say("full", placed, str(error), error.path)
        page = await log.read(STREAM, TOPIC, 0, start=0, limit=1_000)
        say("held", len(page.records), page.end)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        done = await log.append(STREAM, TOPIC, [record(b"after")], key="k")
        say("after", done.offsets[0])


async def no_descriptors(directory: str) -> None:
    """Opens the log with no file descriptor left for it."""
    used = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in range(6):
        resource.setrlimit(resource.RLIMIT_NOFILE, (used[-1] + 1 + spare, hard))
        try:
            log = await open_sqlite_log(directory)
        except StorageError as error:
            say(spare, str(error))
        else:
            await log.aclose()
            say(spare, "")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    async with await open_sqlite_log(directory) as log:
        say("after", (await log.describe()).engine)


COMMANDS = {
    "write": write,
    "partitions": partitions,
    "first_open": first_open,
    "fork": fork,
    "lock_and_fork": lock_and_fork,
    "fill": fill,
    "no_descriptors": no_descriptors,
}

if __name__ == "__main__":
    anyio.run(COMMANDS[sys.argv[1]], *sys.argv[2:])
