"""One chat on this machine, beside other SDKs that keep chats in SQLite: append a message, read the newest 50."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from benchmarks.bench import Bench
from benchmarks.figures import LASER_POWER, Line, make_line
from benchmarks.measuring import Side, compare
from benchmarks.peers.chats import Chat, Item, find_chats

__all__ = ["run"]

_N: Final = 50
_CONTENT: Final = "The charger that came with it does not fit the socket in the hall. " * 4


async def run(bench: Bench) -> list[Line]:
    """Measures chats of several lengths. The other stores flush every append to the disk, as laser's ``power`` does."""
    openers, missing = find_chats()
    bench.skipped.update(missing)
    lines: list[Line] = []
    for length in bench.size.messages:
        async with AsyncExitStack() as stack:
            chats: dict[str, Chat] = {}
            for side, opener in openers.items():
                directory = await bench.new_directory(f"chats-{length}-{len(chats)}")
                chats[side] = await stack.enter_async_context(opener(directory))
                await chats[side].append([_item(number) for number in range(length)])
            lines.append(await _reads(bench, length, chats))
            lines.append(await _appends(bench, length, chats))
    return lines


async def _reads(bench: Bench, length: int, chats: dict[str, Chat]) -> Line:
    sides = {side: Side(partial(chat.newest, _N)) for side, chat in chats.items() if side != LASER_POWER}
    samples = await compare(sides, bench.size.rounds, times=5)
    return make_line("chats.newest", f"newest {_N} of a chat", "embedded", samples, messages=length)


async def _appends(bench: Bench, length: int, chats: dict[str, Chat]) -> Line:
    sides = {side: _append(chat, length) for side, chat in chats.items()}
    samples = await compare(sides, bench.size.rounds)
    return make_line("chats.append", "append to a chat", "embedded", samples, messages=length)


def _append(chat: Chat, number: int) -> Side:
    async def call() -> None:
        await chat.append([_item(number)])

    async def read_back(_: Any) -> list[Item]:
        return await chat.newest(_N)

    return Side(call, read_back)


def _item(number: int) -> Item:
    return {"role": ("user", "assistant")[number % 2], "content": f"{number} {_CONTENT}"}
