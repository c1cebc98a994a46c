"""What all subjects share: how large to measure, the logs they read, the peers that are there."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

import laser as ls
from benchmarks.filling import Workload, fill, fill_single
from benchmarks.peers.raw import RawClient
from benchmarks.peers.sdk import connect_sdk, sdk_missing

__all__ = ["DURABILITY", "FULL", "QUICK", "RETENTION", "SESSIONS", "TINY", "Bench", "Size"]

SESSIONS: Final[str] = ls.AgentTopic.Sessions
# Named, as what an engine does by default is not the same on all: "process" waits for a process, never for a disk.
DURABILITY: Final[ls.Durability] = "process"
# A bound that no benchmark comes near: nothing may be removed while it is measured.
RETENTION: Final = ls.TopicRetention(expire_after=timedelta(days=3_650))

_Fill = Callable[[ls.Laser, str, int], Awaitable[Workload]]


class Size(msgspec.Struct, frozen=True):
    """How large to measure.

    Attributes:
        records: of the log that fetches and folds read. scales: of the embedded logs whose times are compared.
        fold_records: of the embedded log whose fold's memory is measured.
        rounds: samples of what takes a millisecond; slow_rounds: of what takes longer; processes: of what takes a
            process of its own.
        block: appends in one sample. payloads: bytes. messages: of the sessions of the SQLite peers.
        conversations: of the log with many. loop_records: read at once beside a ticking event loop.
        memory_items: of the memory that is recalled from.
    """

    records: int
    scales: tuple[int, ...]
    fold_records: int
    rounds: int
    slow_rounds: int
    processes: int
    block: int
    payloads: tuple[int, ...]
    messages: tuple[int, ...]
    conversations: int
    loop_records: int
    memory_items: int


FULL: Final = Size(
    records=400_000,
    scales=(10_000, 100_000, 400_000, 1_000_000),
    fold_records=1_000_000,
    rounds=60,
    slow_rounds=11,
    processes=21,
    block=100,
    payloads=(64, 256, 1_024, 4_096, 16_384, 65_536),
    messages=(100, 1_000),
    conversations=10_000,
    loop_records=100_000,
    memory_items=100_000,
)
QUICK: Final = Size(
    records=40_000,
    scales=(10_000, 100_000),
    fold_records=100_000,
    rounds=15,
    slow_rounds=3,
    processes=5,
    block=50,
    payloads=(64, 256, 65_536),
    messages=(100,),
    conversations=1_000,
    loop_records=100_000,
    memory_items=20_000,
)
TINY: Final = Size(
    records=2_000,
    scales=(4_000, 6_000),
    fold_records=2_000,
    rounds=2,
    slow_rounds=2,
    processes=1,
    block=5,
    payloads=(64, 256),
    messages=(60,),
    conversations=12,
    loop_records=200,
    memory_items=300,
)


class Bench:
    """One run.

    Args:
        size: how large. directory: for embedded logs; the caller removes it. iggy: the URL of a server, or ``None``.
        engines: measure only on these; ``None`` for all that there are.
        questions: the file of the subject ``recall``; see ``benchmarks.questions``.

    Attributes:
        skipped: what cannot be measured here, with the reason.
    """

    def __init__(
        self,
        size: Size,
        directory: Path,
        iggy: str | None,
        skipped: dict[str, str] | None = None,
        engines: list[str] | None = None,
        questions: Path | None = None,
    ) -> None:
        self.size = size
        self.questions = questions
        self.directory = directory
        self.iggy = iggy
        self.engines = engines or ["embedded", *(["iggy"] if iggy is not None else [])]
        self.skipped = dict(skipped or {})
        missing = sdk_missing()
        if missing is not None:
            self.skipped["laser-sdk"] = missing
        self._names = itertools.count(1)
        self._workloads: dict[tuple[str, str], Workload] = {}

    def place(self, engine: str, subject: str) -> tuple[str, str]:
        """The URL and a stream of its own for a subject's log."""
        name = f"{subject}-{next(self._names)}"
        if engine == "embedded":
            return f"embedded:{self.directory / name}", "bench"
        assert self.iggy is not None
        return self.iggy, name

    async def new_directory(self, name: str) -> Path:
        """A directory for files that are not a log of ours."""
        directory = self.directory / name
        await anyio.Path(directory).mkdir()
        return directory

    @asynccontextmanager
    async def empty(self, engine: str, subject: str, *, partitions: int = 4) -> AsyncIterator[Clients]:
        """Clients on a new log with the agent topics, whose data are gone when the block ends."""
        url, stream = self.place(engine, subject)
        async with ls.Laser.connect(url, stream=stream) as laser:
            await laser.bootstrap(partitions, RETENTION, durability=DURABILITY)
            async with self.clients(url, stream) as clients:
                yield clients
            for topic in await laser.topics():
                await laser.delete_topic(topic.name)

    async def workload(self, engine: str, records: int | None = None) -> Workload:
        """The log that reads are measured on: 50 conversations on 4 partitions, 256 bytes a record; filled once."""
        count = self.size.records if records is None else records
        return await self._filled(engine, f"workload-{count}", count, fill)

    async def _filled(self, engine: str, name: str, records: int, write: _Fill) -> Workload:
        if (engine, name) not in self._workloads:
            url, stream = self.place(engine, name)
            async with ls.Laser.connect(url, stream=stream) as laser:
                await laser.bootstrap(4, RETENTION, durability=DURABILITY)
                self._workloads[engine, name] = await write(laser, url, records)
        return self._workloads[engine, name]

    async def single(self, engine: str, records: int) -> Workload:
        """A log whose records are all of one conversation; filled once."""
        return await self._filled(engine, f"single-{records}", records, fill_single)

    @asynccontextmanager
    async def clients(self, url: str, stream: str) -> AsyncIterator[Clients]:
        """A client of each kind on one stream; on an embedded log only ours."""
        async with AsyncExitStack() as stack:
            laser = await stack.enter_async_context(ls.Laser.connect(url, stream=stream))
            sdk = raw = None
            if url == self.iggy:
                raw = await stack.enter_async_context(RawClient.connect(url, stream))
                if "laser-sdk" not in self.skipped:
                    sdk = await stack.enter_async_context(connect_sdk(url, stream))
            yield Clients(url, stream, laser, sdk, raw)


class Clients(msgspec.Struct, frozen=True):
    """Clients on one stream; ``None`` for one that cannot be had there."""

    url: str
    stream: str
    laser: ls.Laser
    sdk: Any
    raw: RawClient | None
