"""Folds and saves until it is killed, as a process of its own; started and killed many times by a test.

Importing takes longer than a worker lives, so this process imports once and forks a worker for each line on stdin.
It answers with the worker's process id. A worker prints a dot after each fold.
"""

from __future__ import annotations

import os
import sys

import anyio

import laser as ls
from tests.context.folding import chain


async def work(url: str, stream: str, conversation: str, topics: list[str]) -> None:
    async with ls.Laser.connect(url, stream=stream) as laser:
        store = ls.TopicSnapshotStore(laser, "chain")
        scope = laser.context(conversation)
        while True:
            await scope.state_with(store, topics, "", chain, save=ls.AutoSave(every=5))
            os.write(1, b".")


def main() -> None:
    url, stream, conversation, *topics = sys.argv[1:]
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            anyio.run(work, url, stream, conversation, topics)
        os.write(1, f"{child}\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"gone\n")


if __name__ == "__main__":
    main()
