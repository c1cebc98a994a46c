"""Processes for the tests of key-value stores: ``python -m tests.engines.kv_worker COMMAND URL …``.

Each prints one line of JSON for what was acknowledged, as soon as it was.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

import anyio

from laser.engines.postgres import open_postgres_kv
from laser.engines.redis import open_redis_kv
from laser.engines.sqlite import open_sqlite_kv
from laser.errors import ClosedError, ConflictError
from laser.ports.kv import ABSENT, KeyValue

KEYS = 20


async def open_kv(url: str, *, timeout: float = 30.0) -> KeyValue:
    """The store behind a URL, or in a directory."""
    if url.startswith("redis"):
        return await open_redis_kv(url, timeout=timeout)
    if url.startswith("postgresql"):
        return await open_postgres_kv(url, timeout=timeout)
    return await open_sqlite_kv(url, timeout=timeout)


def say(*values: object) -> None:
    """One line to the parent, at once."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


async def count(url: str, namespace: str, tasks: str, each: str) -> None:
    """Counts up by compare-and-set, in several tasks."""
    store = await open_kv(url)

    async def work() -> None:
        for _ in range(int(each)):
            await _increment(store, namespace)

    async with anyio.create_task_group() as group:
        for _ in range(int(tasks)):
            group.start_soon(work)
    await store.aclose()


async def _increment(store: KeyValue, namespace: str) -> None:
    while True:
        entry = await store.get(namespace, "counter")
        number, version = (0, ABSENT) if entry is None else (int(entry.value), entry.version)
        try:
            given = await store.set(namespace, "counter", b"%d" % (number + 1), expect=version)
        except ConflictError:
            continue
        say(number + 1, given)
        return


async def write(url: str, namespace: str, name: str) -> None:
    """Writes growing numbers to a few keys of its own, for ever."""
    store = await open_kv(url)
    number = 0
    while True:
        number += 1
        key = f"{name}-{number % KEYS}"
        say(key, number, await store.set(namespace, key, b"%d" % number * 100))


async def first_open(url: str, namespace: str, start_at: str) -> None:
    """Opens a store at the same moment as others."""
    while time.time() < float(start_at):
        pass
    store = await open_kv(url)
    say(await store.set(namespace, f"{os.getpid()}", b"here"))
    await store.aclose()


async def fork(url: str, namespace: str) -> None:
    """Forks while the store is in use. The child must be refused, and may open the store anew."""
    store = await open_kv(url)

    async def work(name: str) -> None:
        for number in range(50):
            await store.set(namespace, name, b"%d" % number)

    async with anyio.create_task_group() as group:
        for task in range(4):
            group.start_soon(work, f"parent-{task}")
        children = []
        for _ in range(3):
            await anyio.sleep(0.01)
            pid = os.fork()
            if pid == 0:
                _child(store, url, namespace)
            children.append(pid)
        for pid in children:
            _, status = await anyio.to_thread.run_sync(os.waitpid, pid, 0)
            say("child", os.waitstatus_to_exitcode(status))
    values = [entry.value.decode() for entry in (await store.scan(namespace, prefix="parent-")).entries]
    say("parent", *values)
    await store.aclose()


def _child(store: KeyValue, url: str, namespace: str) -> None:
    # Leaves by os._exit: the parent's event loop is not this process's to unwind.
    code = 1
    try:
        signal.alarm(30)
        refused = False
        try:
            store.get(namespace, "key").send(None)  # type: ignore[attr-defined]
        except ClosedError as error:
            refused = "fork" in str(error)
        del store  # what is left of it here must not close the parent's connections
        code = 0 if refused and _set_in_new_loop(url, namespace) else 2
    finally:
        os._exit(code)


def _set_in_new_loop(url: str, namespace: str) -> bool:
    async def write() -> bool:
        store = await open_kv(url)
        version = await store.set(namespace, "child", b"value")
        await store.aclose()
        return version > 0

    # In a thread of its own: this one is, for the event loop's library, still inside the parent's loop.
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(anyio.run(write)))
    thread.start()
    thread.join()
    return done == [True]


COMMANDS = {"count": count, "write": write, "first_open": first_open, "fork": fork}

if __name__ == "__main__":
    anyio.run(COMMANDS[sys.argv[1]], *sys.argv[2:])
