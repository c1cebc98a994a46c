"""Folds that begin at a stored snapshot, with one record after it."""

from __future__ import annotations

import laser as ls
from benchmarks.bench import SESSIONS, Bench, Clients
from benchmarks.figures import LASER, SDK, Line, make_line
from benchmarks.filling import AGENT, PAYLOAD_BYTES, Workload, payloads
from benchmarks.measuring import Side, compare
from benchmarks.peers.sdk import topic_store
from benchmarks.subjects.folds import weigh

__all__ = ["run"]

_FOLD = "weight"
_TOPICS = [SESSIONS]


async def run(bench: Bench) -> list[Line]:
    """Measures on every engine; the key-value store on the embedded one, which has it without another server."""
    lines: list[Line] = []
    for engine in bench.engines:
        workload = await bench.workload(engine)
        async with bench.clients(workload.url, workload.stream) as clients:
            lines.append(await _on_topic(bench, engine, workload, clients))
            if engine == "embedded":
                lines.append(await _in_kv(bench, engine, workload, clients))
    return lines


async def _on_topic(bench: Bench, engine: str, workload: Workload, clients: Clients) -> Line:
    store = ls.TopicSnapshotStore(clients.laser, _FOLD)
    for conversation in workload.busy:
        # Every conversation has one, as where every agent saves its own.
        await _save(clients, store, conversation)
    sides = {LASER: _side(clients, store, workload.busy[0])}
    if clients.sdk is not None:
        theirs, their_store = clients.sdk.context(workload.busy[0]), topic_store(clients.sdk, _FOLD)
        sides[SDK] = Side(lambda: theirs.state_with(their_store, _TOPICS, 0, weigh))
    return await _measure(bench, engine, sides, "topic", "TopicSnapshotStore", workload.records)


async def _in_kv(bench: Bench, engine: str, workload: Workload, clients: Clients) -> Line:
    store = ls.KvSnapshotStore(clients.laser, _FOLD)
    await _save(clients, store, workload.busy[0])
    sides = {LASER: _side(clients, store, workload.busy[0])}
    return await _measure(bench, engine, sides, "kv", "KvSnapshotStore", workload.records)


def _side(clients: Clients, store: ls.TopicSnapshotStore | ls.KvSnapshotStore, conversation: str) -> Side:
    context = clients.laser.context(conversation)
    return Side(lambda: context.state_with(store, _TOPICS, 0, weigh))


async def _save(clients: Clients, store: ls.TopicSnapshotStore | ls.KvSnapshotStore, conversation: str) -> None:
    """A snapshot of now, and a record after it."""
    context = clients.laser.context(conversation)
    checkpoint = await context.checkpoint()
    state = await context.state(_TOPICS, 0, weigh, at=checkpoint)
    await store.save(await ls.snapshot_from_checkpoint(clients.laser, conversation, _FOLD, checkpoint, state))
    await context.append(SESSIONS, payloads(1)[0], agent=AGENT)


async def _measure(bench: Bench, engine: str, sides: dict[str, Side], name: str, store: str, records: int) -> Line:
    samples = await compare(sides, bench.size.rounds)
    return make_line(
        f"snapshot.{name}", f"`state_with({store})`, 1 new record", engine, samples,
        records=records, payload_bytes=PAYLOAD_BYTES,
    )  # fmt: skip
