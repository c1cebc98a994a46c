"""Chats kept in SQLite: openai-agents' session, langgraph's checkpoint saver, and the same on laser."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import orjson

import laser as ls
from benchmarks.bench import DURABILITY
from benchmarks.figures import LANGGRAPH, LASER, LASER_POWER, OPENAI
from benchmarks.fresh import is_installed

__all__ = ["Chat", "Item", "find_chats"]

Item = dict[str, Any]
"""One message in the shape of OpenAI's chats."""


class Chat(Protocol):
    """One conversation of messages."""

    async def append(self, items: list[Item]) -> None:
        """Writes messages; when it returns they are as durable as the store makes them by default."""
        ...

    async def newest(self, count: int) -> list[Item]:
        """The newest messages, oldest first."""
        ...


Opener = Callable[[Path], AbstractAsyncContextManager[Chat]]


def find_chats() -> tuple[dict[str, Opener], dict[str, str]]:
    """The stores that are installed, each as a function of a directory, and those that are not with the reason."""
    found: dict[str, Opener] = {LASER: _open_laser, LASER_POWER: _open_laser_power}
    missing = {}
    others: tuple[tuple[str, str, Opener], ...] = (
        (OPENAI, "agents.memory", _open_openai),
        (LANGGRAPH, "langgraph.checkpoint.sqlite.aio", _open_langgraph),
    )
    for side, module, opener in others:
        if is_installed(module):
            found[side] = opener
        else:
            missing[side] = "not installed: it comes with the extra bench"
    return found, missing


class _Laser:
    def __init__(self, context: ls.ContextScope) -> None:
        self._context = context

    async def append(self, items: list[Item]) -> None:
        if len(items) == 1:
            await self._context.append(ls.AgentTopic.Sessions, orjson.dumps(items[0]))
        else:
            await self._context.append_many(ls.AgentTopic.Sessions, [orjson.dumps(item) for item in items])

    async def newest(self, count: int) -> list[Item]:
        return [orjson.loads(message.payload) for message in await self._context.fetch(n=count)]


class _OpenAi:
    def __init__(self, session: Any) -> None:
        self._session = session

    async def append(self, items: list[Item]) -> None:
        await self._session.add_items(items)

    async def newest(self, count: int) -> list[Item]:
        return list(await self._session.get_items(limit=count))


class _LangGraph:
    """A thread whose state is the list of its messages, as the library's chat graphs keep it: a checkpoint holds the
    whole list."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self._config: Any = {"configurable": {"thread_id": "chat", "checkpoint_ns": ""}}
        self._new_checkpoint = import_module("langgraph.checkpoint.base").empty_checkpoint
        self._messages: list[Item] = []
        self._versions = itertools.count(1)

    async def append(self, items: list[Item]) -> None:
        self._messages = [*self._messages, *items]
        versions = {"messages": next(self._versions)}
        checkpoint = self._new_checkpoint() | {
            "channel_values": {"messages": self._messages},
            "channel_versions": versions,
        }
        metadata = {"source": "loop", "step": versions["messages"], "parents": {}}
        self._config = await self._saver.aput(self._config, checkpoint, metadata, versions)

    async def newest(self, count: int) -> list[Item]:
        found = await self._saver.aget_tuple({"configurable": {"thread_id": "chat", "checkpoint_ns": ""}})
        return list(found.checkpoint["channel_values"]["messages"][-count:])


def _open_laser(directory: Path) -> AbstractAsyncContextManager[Chat]:
    return _laser_chat(directory, DURABILITY)


def _open_laser_power(directory: Path) -> AbstractAsyncContextManager[Chat]:
    return _laser_chat(directory, "power")


@asynccontextmanager
async def _laser_chat(directory: Path, durability: ls.Durability) -> AsyncIterator[Chat]:
    async with ls.Laser.connect(f"embedded:{directory}", stream="chats") as laser:
        await laser.ensure_topic(ls.AgentTopic.Sessions, 4, durability=durability)
        yield _Laser(laser.context(ls.derive_conversation_id("chat")))


@asynccontextmanager
async def _open_openai(directory: Path) -> AsyncIterator[Chat]:
    session = import_module("agents.memory").SQLiteSession("chat", directory / "chats.db")
    try:
        yield _OpenAi(session)
    finally:
        session.close()


@asynccontextmanager
async def _open_langgraph(directory: Path) -> AsyncIterator[Chat]:
    opened = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver.from_conn_string(
        str(directory / "chats.db")
    )
    async with opened as saver:
        await saver.setup()
        yield _LangGraph(saver)
