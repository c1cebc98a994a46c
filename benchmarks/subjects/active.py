"""Active contexts: how fast events are replayed, and that reading from a snapshot costs the same however long ago."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

import laser as ls
from benchmarks.bench import RETENTION, Bench
from benchmarks.figures import LASER, SMALLEST, Line, make_line
from benchmarks.measuring import Measured, Side, compare
from laser.session.active.events import (
    ACTIVE_TOPIC,
    CompactionCommitted,
    CompactionRequested,
    Event,
    Opened,
    RunFinished,
    RunStarted,
    TurnFinished,
    TurnStarted,
    encode_active,
)
from laser.session.active.fold import ActiveFold

__all__ = ["run"]

_RUNS_A_COMPACTION: Final = 50
_TAIL: Final = 400
_BATCH: Final = 5_000


async def run(bench: Bench) -> list[Line]:
    """Runs of one turn each, compacted every 50 runs. On the embedded engine and on Iggy."""
    lines: list[Line] = []
    for engine in bench.engines:
        lines += [await _replay(bench, engine), *await _read(bench, engine)]
    return lines


async def _replay(bench: Bench, engine: str) -> Line:
    """Without a snapshot: a client of its own folds everything. Opening the session does not count."""
    url, stream = bench.place(engine, "active-replay")
    events = bench.size.loop_records
    async with ls.Laser.connect(url, stream=stream) as laser:
        session = await _filled(laser, events)

    async def replay() -> Measured:
        async with ls.Laser.connect(url, stream=stream) as laser:
            opened = await laser.sessions().open(session)
            begun = time.perf_counter()
            state = await opened.active.read()
            return Measured(time.perf_counter() - begun, state.revision)

    samples = await compare({LASER: Side(replay)}, bench.size.slow_rounds)
    title = "active context, replay of all events"
    return make_line("active.replay", title, engine, samples, work=events, events=events)


async def _read(bench: Bench, engine: str) -> list[Line]:
    """From a snapshot and the same number of events after it, in histories of which one is ten times the other."""
    sizes = [bench.size.loop_records // 10, bench.size.loop_records]
    sides: dict[str, Side] = {}
    for events in sizes:
        url, stream = bench.place(engine, f"active-read-{events}")
        async with ls.Laser.connect(url, stream=stream) as laser:
            await laser.ensure_topic(ls.AgentTopic.Snapshots, retention=RETENTION)
            session = await _filled(laser, events)
            # The first read finds no snapshot, folds everything, and leaves one where there was much to fold.
            await (await laser.sessions().open(session)).active.read()
            await _append(laser, session, _events(_TAIL, number=events))
        sides[str(events)] = Side(_reader(url, stream, session), lambda _: None)
    samples = await compare(sides, bench.size.slow_rounds)
    smallest = str(sizes[0])
    return [
        make_line(
            "active.read", "`Session.read()` by length of the history", engine,
            {LASER: samples[name], SMALLEST: samples[smallest]},
            events=int(name), tail=_TAIL,
        )
        for name in sides
    ]  # fmt: skip


def _reader(url: str, stream: str, session: str) -> Callable[[], Awaitable[Measured]]:
    async def read() -> Measured:
        async with ls.Laser.connect(url, stream=stream) as laser:
            opened = await laser.sessions().open(session)
            begun = time.perf_counter()
            reading = await opened.read()
            return Measured(time.perf_counter() - begun, reading.context.revision)

    return read


async def _filled(laser: ls.Laser, events: int) -> str:
    for topic in (ls.AgentTopic.Control, ACTIVE_TOPIC):
        await laser.ensure_topic(topic, retention=RETENTION)
    session = await laser.sessions().start()
    await _append(laser, session.id, [Opened(), *_events(events - 1)])
    return session.id


async def _append(laser: ls.Laser, session: str, events: list[Event]) -> None:
    scope = laser.context(session)
    for start in range(0, len(events), _BATCH):
        await scope.append_many(ACTIVE_TOPIC, [encode_active(event) for event in events[start : start + _BATCH]])


def _events(count: int, number: int = 0) -> list[Event]:
    """Events that all change something, as far as one session alone can tell."""
    fold, made = ActiveFold(), list[Event]()

    def add(event: Event) -> None:
        fold.apply(event)
        made.append(event)

    while len(made) < count:
        number += 1
        name = f"{number:026d}"
        add(RunStarted(name, (ls.NewEntry("user", b"a question of some words " * 4, tokens=25),)))
        add(TurnStarted(name, name))
        answer = ls.NewEntry("assistant", b"an answer with somewhat more to say " * 8, tokens=72)
        add(TurnFinished(name, name, (answer,), {"input_tokens": 1_000, "output_tokens": 72}))
        add(RunFinished(name, "ended", answer))
        if number % _RUNS_A_COMPACTION == 0:
            state = fold.state()
            add(CompactionRequested(name, state.revision, "strategy"))
            removed = tuple(entry.id for entry in ls.compactable(state.entries))
            add(CompactionCommitted(name, state.revision, removed, (ls.NewEntry("summary", b"in short", tokens=2),)))
    return made[:count]
