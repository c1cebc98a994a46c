"""An hour of agents that come, go and stay, under faults: nothing lost, nothing twice, no hang, and nothing leaks.

On the embedded engine, beside another process that writes and is killed; and on one Iggy node at `power`, which is
killed and started again, behind a network that cuts and stalls.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

import laser as ls
from laser.limits import CONTEXT_READ_WINDOW
from laser.testing.history import HistoryReport, Operation, check_history
from laser.testing.proxy import TcpProxy
from laser.testing.server import IggyServer, run_iggy_server
from tests.commands import ROOT, environment
from tests.survive.figures import Budget, Figures
from tests.survive.histories import MUST_BE_ZERO, everything, summary, visible
from tests.survive.iggy import need_server, version
from tests.survive.killing import Writers, as_operations
from tests.survive.network import strike
from tests.survive.resources import Held, grown, need_proc
from tests.survive.soak.process import Arguments

_HOUR: Final = 3_600
_STREAM: Final = "survive"
# What is not a leak: pages that the allocator keeps, connections opened when there was much to do.
_MEMORY_ALLOWED: Final = 32_000_000
_COUNTED: Final = ("descriptors", "tasks", "threads")
# The Iggy driver has as many threads as it had calls at once, and lets go of those that had nothing to do for 10 s.
_POOL: Final = 16
_SAMPLE: Final = 60
# For filling the log, and for what the agents do at their end.
_PATIENCE: Final = 150.0
# Small, so that it is full, and thrown from, long before the first quarter is over.
_CACHE_BYTES: Final = 2 * 1024 * 1024
# SQLite keeps pages, up to a bound for each connection: this much makes the files larger than all of them together.
_PADDING: Final = 512


class Pace(msgspec.Struct, frozen=True):
    """How fast things happen, in seconds.

    Attributes:
        pause, life, timeout, every: see ``Arguments``. fault: the longest wait between two faults of the network.
        kill: about the time between two kills. fill: see ``Arguments``.
        allowed: how many more descriptors or tasks are no leak.
    """

    pause: float
    life: float
    timeout: float
    every: float
    fault: float
    kill: float
    fill: int
    allowed: int


# So short a time shows what is left open at the end, and no growth but that of something made for every call.
_QUICK: Final = Pace(pause=0.02, life=0.3, timeout=3.0, every=0.1, fault=0.4, kill=2.0, fill=0, allowed=60)
# Well under half a core: it is time that finds leaks, not load.
_STEADY: Final = Pace(
    pause=0.5, life=20.0, timeout=8.0, every=10.0, fault=6.0, kill=90.0, fill=CONTEXT_READ_WINDOW, allowed=6
)


def run(budget: Budget, seed: int) -> Figures:
    """Both engines at once, each in a process of its own whose memory, descriptors, tasks and threads are looked at."""
    need_proc()
    need_server()
    seconds = budget.seconds or budget.choose(4, _HOUR)
    return anyio.run(_run, seconds, _STEADY if seconds >= 60 else _QUICK, seed)


async def _run(seconds: int, pace: Pace, seed: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="laser-soak-") as place:
        embedded, iggy = _Side(f"{place}/embedded.jsonl"), _Side(f"{place}/iggy.jsonl")
        async with anyio.create_task_group() as group:
            group.start_soon(_on_embedded, embedded, f"embedded:{place}/data", seconds, pace, seed)
            group.start_soon(_on_iggy, iggy, seconds, pace, seed)
    sides = {"embedded": embedded, "iggy": iggy}
    total: Counter[str] = Counter()
    for side in sides.values():
        total.update(side.counts)
        assert side.report is not None
        for name, figure in summary(side.report).items():
            total[name] += figure
    found: dict[str, Any] = {
        name: total[name]
        for name in (
            "acknowledged", "in doubt", "calls", "reconnects", "kills", "network faults", "typed errors",
            "other errors", *MUST_BE_ZERO, "out of order", "false alarms", "hangs",
        )
    }  # fmt: skip
    found["longest call, seconds"] = round(max(side.longest for side in sides.values()), 1)
    for name, side in sides.items():
        found[f"memory on {name} at the end, MB"] = round(side.held[-1].memory / 1e6, 1)
        found[f"memory grown on {name}, MB"] = round(grown(side.held, "memory") / 1e6, 1)
    for what in _COUNTED:
        found[f"{what} grown"] = max(grown(side.held, what) for side in sides.values())
    found["left open"] = sum(sum(side.left.values()) for side in sides.values())
    figures = Figures(f"{seconds:,} seconds", found, engine=", ".join(side.engine for side in sides.values()))
    figures.must_be_zero(*MUST_BE_ZERO, "other errors", "out of order", "false alarms", "hangs", "left open")
    return _judge(figures, sides, pace.allowed)


def _judge(figures: Figures, sides: dict[str, _Side], allowed: int) -> Figures:
    for name, side in sides.items():
        if grown(side.held, "memory") > _MEMORY_ALLOWED:
            figures.broken.append(f"memory grown on {name}: {figures.found[f'memory grown on {name}, MB']} MB")
        for what in _COUNTED:
            if grown(side.held, what) > (_POOL if what == "threads" else allowed):
                figures.broken.append(f"{what} grown on {name}: {grown(side.held, what)}")
        figures.broken += side.seen[:3]
        if side.said:
            figures.broken.append(f"said on {name}: {side.said[-500:]}")
    return figures


class _Side:
    """One engine's part: its process of agents, and what came out."""

    def __init__(self, output: str) -> None:
        self._output = Path(output)
        self.counts: Counter[str] = Counter()
        self.held: list[Held] = []
        self.seen: list[str] = []
        self.left: dict[str, int] = {}
        self.longest = 0.0
        self.said = ""
        self.engine = ""
        self.report: HistoryReport | None = None
        self._operations: list[Operation] = []
        self.ended = False

    async def agents(self, arguments: Arguments) -> None:
        """Runs them to their end, and reads what they said."""
        command = [sys.executable, "-m", "tests.survive.soak.process", msgspec.json.encode(arguments).decode()]
        with self._output.open("wb") as output:
            process = await anyio.open_process(
                command, cwd=ROOT, env=environment(), stdout=output, stderr=subprocess.PIPE
            )
            # Left by an error or by the time that is up, this block kills the process.
            async with process:
                with anyio.move_on_after(arguments.seconds + _PATIENCE) as patience:
                    assert process.stderr is not None
                    async for data in process.stderr:
                        self.said += data.decode(errors="replace")
                    await process.wait()
                if patience.cancelled_caught:
                    process.kill()
        self.ended = True
        if patience.cancelled_caught:
            raise AssertionError(f"hangs: the agents did not end {_PATIENCE} s after their time")
        if process.returncode:
            raise AssertionError(f"the agents ended with {process.returncode}: {self.said[-2_000:]}")
        lines = [json.loads(line) for line in self._output.read_text().splitlines()]
        for kind, *values in lines:
            if kind == "held":
                self.held.append(Held(*values))
            elif kind == "end":
                counts, self.seen, self.longest, self.left = values
                self.counts.update(counts)
        self._operations += as_operations(lines)

    async def begun(self) -> None:
        """Waits until the agents are at work: a fault while topics are made is another check's."""
        while not (self._output.exists() and b'["held"' in self._output.read_bytes()):
            await anyio.sleep(0.1)

    async def judge(self, laser: ls.Laser, others: Sequence[Operation], seed: int) -> None:
        """What is on the log, now that all is quiet: everything raw, and some conversations as users see them."""
        operations = [*self._operations, *others]
        keys = sorted({operation.key for operation in operations})
        some = random.Random(seed).sample(keys, min(_SAMPLE, len(keys)))
        self.report = check_history(operations, await everything(laser), await visible(laser, some))
        self.engine = await version(laser)
        self.seen += [f"{finding.kind}: {finding.what}" for finding in self.report.examples]


async def _on_embedded(side: _Side, url: str, seconds: int, pace: Pace, seed: int) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(side.agents, _arguments(url, seconds, pace, seed, padding=_PADDING))
        others = await anyio.to_thread.run_sync(_write_and_kill, side, url, pace, seed)
    async with ls.Laser.connect(url, stream=_STREAM) as laser:
        await side.judge(laser, others, seed)


def _write_and_kill(side: _Side, url: str, pace: Pace, seed: int) -> list[Operation]:
    """Other processes write to the same files for a moment, and are killed."""
    rng = random.Random(f"{seed} kills")
    with Writers(url, _STREAM, 1, "power") as writers:
        while not side.ended:
            name = writers.start()
            writers.wait_for(rng.randrange(5, 50))
            writers.kill(name)
            side.counts["kills"] += 1
            pause = time.monotonic() + pace.kill * (0.5 + rng.random())
            while time.monotonic() < pause and not side.ended:
                time.sleep(0.05)
    return writers.operations()


async def _on_iggy(side: _Side, seconds: int, pace: Pace, seed: int) -> None:
    async with run_iggy_server() as server:
        async with TcpProxy("127.0.0.1", server.port) as proxy, anyio.create_task_group() as faults:
            faults.start_soon(_for_a_while, side, seconds, _break_network, proxy, pace, seed)
            faults.start_soon(_for_a_while, side, seconds, _kill_server, server, pace, seed)
            url = f"iggy://{server.username}:{server.password}@{proxy.address}"
            await side.agents(_arguments(url, seconds, pace, seed, cache=_CACHE_BYTES))
            faults.cancel_scope.cancel()
        if not server.process.running:
            await server.start()
        async with ls.Laser.connect(server.url, stream=_STREAM) as laser:
            await side.judge(laser, [], seed)


async def _for_a_while(side: _Side, seconds: float, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
    await side.begun()
    with anyio.move_on_after(seconds):
        await work(side, *arguments)


async def _break_network(side: _Side, proxy: TcpProxy, pace: Pace, seed: int) -> None:
    rng = random.Random(f"{seed} network")
    while True:
        await anyio.sleep(rng.random() * pace.fault)
        await strike(proxy, rng, pace.timeout + 0.5)
        side.counts["network faults"] += 1


async def _kill_server(side: _Side, server: IggyServer, pace: Pace, seed: int) -> None:
    rng = random.Random(f"{seed} server")
    while True:
        await anyio.sleep(pace.kill * (0.5 + rng.random()))
        await server.restart(kill=True)
        side.counts["kills"] += 1


def _arguments(
    url: str, seconds: int, pace: Pace, seed: int, *, cache: int | None = None, padding: int = 0
) -> Arguments:
    return Arguments(
        url, _STREAM, seed,
        seconds=seconds, pause=pace.pause, life=pace.life, timeout=pace.timeout, cache=cache, agents=3,
        every=pace.every, fill=pace.fill, padding=padding,
    )  # fmt: skip
