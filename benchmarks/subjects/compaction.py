"""Long sessions: preparing a request, planning what to fold, and searching all of it."""

from __future__ import annotations

import itertools
import random
import string
from typing import Final

import laser as ls
from benchmarks.bench import DURABILITY, RETENTION, SESSIONS, Bench
from benchmarks.figures import LASER, Line, make_line
from benchmarks.measuring import Side, compare
from laser.compaction.planning import Plan, plan_eviction, plan_stubs
from laser.compaction.rows import Row, make_row
from laser.compaction.sizes import message_cost
from laser.compaction.snapcompact.drawing import draw
from laser.compaction.snapcompact.font import to_cells
from laser.compaction.snapcompact.frames import lay_out, shape_for
from laser.compaction.transcript import History
from laser.compaction.units import units_of
from laser.model.transcript import SourceRef

__all__ = ["run"]

_MESSAGES: Final = 10_000
_ROWS: Final = 100_000
_WINDOW: Final = 200_000
_BATCH: Final = 5_000
_FRAMES: Final = 30


async def run(bench: Bench) -> list[Line]:
    """Measures on the embedded engine, and what needs none."""
    messages, rows = min(_MESSAGES, bench.size.records), min(_ROWS, bench.size.memory_items)
    lines = [await _plan(bench, messages), await _frames(bench)]
    if "embedded" in bench.engines:
        lines += [await _prepare(bench, messages), *await _grep(bench, rows)]
    return lines


async def _plan(bench: Bench, count: int) -> Line:
    rows = tuple(
        make_row(SourceRef("session", place), payload.encode(), message_cost)
        for place, payload in enumerate(_talk(count))
    )

    async def call() -> int:
        return len(_planned(rows).evicted)

    samples = await compare({LASER: Side(call)}, bench.size.rounds)
    return make_line("compaction.plan", "units and what to fold of them", "process", samples, messages=count)


async def _frames(bench: Bench) -> Line:
    shape = shape_for("anthropic", None)
    # Words at random: there is less in them to leave out than in real ones.
    chosen = random.Random(1)
    letters = "".join(chosen.choices(string.ascii_letters + "     ,.", k=(_FRAMES + 1) * shape.cells))
    text = "\n".join(letters[at : at + 500] for at in range(0, len(letters), 500))
    assert len(text) > _FRAMES * shape.cells

    async def call() -> int:
        cells = to_cells(text)[: _FRAMES * shape.cells]
        return len([draw(frame.cells, shape.columns) for frame in lay_out(cells, shape, _FRAMES)])

    samples = await compare({LASER: Side(call)}, bench.size.rounds)
    return make_line("compaction.frames", "pictures of text, none of them kept", "process", samples, frames=_FRAMES)


def _planned(rows: tuple[Row, ...]) -> Plan:
    history = History(rows, units_of(rows), ())
    plan = plan_eviction(history, bytes(len(rows)), _WINDOW // 4)
    plan_stubs(plan.tail, (), _WINDOW // 2, message_cost)
    return plan


async def _prepare(bench: Bench, count: int) -> Line:
    url, stream = bench.place("embedded", "compaction")
    async with ls.Laser.connect(url, stream=stream) as laser:
        scope = await _filled(laser, count)
        compaction = laser.compaction(scope.conversation, summarizer=ls.ExtractiveSummarizer())
        await compaction.compact(window=_WINDOW)
        turns = itertools.count(count)

        async def before() -> None:
            await scope.append(SESSIONS, f'{{"role":"user","content":"one more, {next(turns)}"}}')

        async def call() -> bool:
            return bool((await compaction.prepare(window=_WINDOW)).inputs)

        samples = await compare({LASER: Side(call)}, bench.size.rounds, before=before)
    return make_line(
        "compaction.prepare", "`prepare`, one new message, most of them summarised", "embedded", samples, messages=count
    )


async def _grep(bench: Bench, count: int) -> list[Line]:
    url, stream = bench.place("embedded", "compaction-grep")
    lines: list[Line] = []
    async with ls.Laser.connect(url, stream=stream) as laser:
        scope = await _filled(laser, count)
        lcm = laser.compaction(scope.conversation).lcm
        for name, title, text in (
            ("rare", "`lcm_grep`, one row holds it", f"question-{count // 8} "),
            ("absent", "`lcm_grep`, no row holds it", "nobody ever said this"),
        ):

            async def call(text: str = text) -> int:
                return len((await lcm.grep(text)).hits)

            samples = await compare({LASER: Side(call)}, bench.size.rounds)
            lines.append(make_line("compaction.grep", title, "embedded", samples, rows=count, hits=name))
    return lines


async def _filled(laser: ls.Laser, count: int) -> ls.ContextScope:
    await laser.ensure_topic(SESSIONS, 1, RETENTION, durability=DURABILITY)
    scope = laser.context(ls.derive_conversation_id("long"))
    payloads = _talk(count)
    for start in range(0, count, _BATCH):
        await scope.append_many(SESSIONS, payloads[start : start + _BATCH])
    return scope


def _talk(count: int) -> list[str]:
    """Turns of four messages: a question, a call, its result, an answer."""
    payloads: list[str] = []
    for turn in range(-(-count // 4)):
        text = " ".join(f"w{turn}x{place}" for place in range(30))
        call = f'{{"id":"c{turn}","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}'
        payloads += (
            f'{{"role":"user","content":"question-{turn} {text}"}}',
            f'{{"role":"assistant","content":null,"tool_calls":[{call}]}}',
            f'{{"role":"tool","tool_call_id":"c{turn}","content":"found {text}"}}',
            f'{{"role":"assistant","content":"answer-{turn} {text}"}}',
        )
    return payloads[:count]
