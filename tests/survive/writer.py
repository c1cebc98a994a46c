"""Writers to be killed: one process imports, and forks a writing process for each line ``NAME`` on stdin.

``python -m tests.survive.writer URL STREAM TASKS DURABILITY``. Each line it prints is one JSON array, written at once,
so that a kill cuts none in half: ``["pid", name, pid]``, ``["begin", writer, key, value, nanoseconds]``,
``["done", writer, value, partition, offset, nanoseconds]``, ``["failed", writer, value, error]``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

import anyio

import laser as ls
from tests.survive.histories import KEYS, PARTITIONS, TOPIC


def say(*values: object) -> None:
    os.write(1, json.dumps(values).encode() + b"\n")


async def write(url: str, stream: str, name: str, tasks: int, durability: ls.Durability) -> None:
    async with ls.Laser.connect(url, stream=stream) as laser:
        await laser.ensure_topic(TOPIC, PARTITIONS, durability=durability)
        async with anyio.create_task_group() as group:
            for task in range(tasks):
                group.start_soon(_write, laser, f"{name}.{task}")


async def _write(laser: ls.Laser, writer: str) -> None:
    rng = random.Random(writer)
    number = 0
    while True:
        key, value = rng.choice(KEYS), f"{writer}-{number}"
        number += 1
        say("begin", writer, key, value, time.monotonic_ns())
        try:
            receipt = await laser.context(key).append(TOPIC, value)
        except ls.AppendIndeterminateError:
            continue  # stays pending: nobody claims anything of it
        except ls.LaserError as error:
            say("failed", writer, value, f"{type(error).__name__}: {error}")
            await anyio.sleep(0.05)
            continue
        say("done", writer, value, receipt.partition, receipt.offset, time.monotonic_ns())
        await anyio.sleep(rng.random() * 0.004)


def main() -> None:
    url, stream, tasks, durability = sys.argv[1:]
    # Children that were killed are nobody's to wait for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        name = line.strip()
        child = os.fork()
        if not child:
            say("pid", name, os.getpid())
            anyio.run(write, url, stream, name, int(tasks), durability)
            os._exit(0)


if __name__ == "__main__":
    main()
