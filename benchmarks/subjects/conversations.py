"""Many conversations on one topic, one of them hot."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.bench import Bench, Clients
from benchmarks.figures import LASER, SDK, Line, make_line
from benchmarks.filling import PAYLOAD_BYTES, fill_conversations
from benchmarks.measuring import Side, compare
from benchmarks.peers.facts import our_facts
from benchmarks.peers.sdk import sdk_facts
from laser import derive_conversation_id

__all__ = ["run"]

_PARTITIONS = 8
_EACH = 10


async def run(bench: Bench) -> list[Line]:
    """Measures on every engine. The hot conversation has as many records as all others together."""
    count = bench.size.conversations
    others = [derive_conversation_id(f"other-{number}") for number in range(count)]
    hot = derive_conversation_id("hot")
    lines: list[Line] = []
    for engine in bench.engines:
        async with bench.empty(engine, "conversations", partitions=_PARTITIONS) as clients:
            await fill_conversations(clients.laser, [hot] * count + others, 2 * count * _EACH, burst=5)
            for name, title, read in (
                ("hot", "the hot one", [hot]),
                ("any", "another one each time", others),
            ):
                samples = await compare(_sides(clients, read), bench.size.rounds)
                lines.append(
                    make_line(
                        f"conversations.{name}", f"`fetch(n=50)` of {title} of many conversations", engine, samples,
                        conversations=count, partitions=_PARTITIONS, records=2 * count * _EACH,
                        payload_bytes=PAYLOAD_BYTES,
                    )
                )  # fmt: skip
    return lines


def _sides(clients: Clients, conversations: Sequence[str]) -> dict[str, Side]:
    sides = {LASER: Side(_reader(clients.laser, conversations), our_facts)}
    if clients.sdk is not None:
        sides[SDK] = Side(_reader(clients.sdk, conversations), sdk_facts)
    return sides


def _reader(client: Any, conversations: Sequence[str]) -> Callable[[], Any]:
    turns = itertools.cycle(conversations)
    return lambda: client.context(next(turns)).fetch(n=50)
