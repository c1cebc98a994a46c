"""Which values of real tool calls survive in trimmed prompts. No clock here: the same file gives the same figures."""

from __future__ import annotations

import sys

import anyio.to_thread

from benchmarks.bench import Bench
from benchmarks.facts import conversations_file, facts_text, measure_facts, read_conversations
from benchmarks.figures import LASER, NEWEST_FIRST, Line, make_line

__all__ = ["run"]

_TOKENS = (1_000, 2_000, 4_000)


async def run(bench: Bench) -> list[Line]:
    """Measures the shares of values that are kept, for histories of several sizes."""
    path = conversations_file()
    if path is None:
        bench.skipped["facts"] = "no conversations beside the clone; they are not ours to ship"
        return []
    conversations = await anyio.to_thread.run_sync(read_conversations, path)
    lines = []
    for tokens in _TOKENS:
        found = await anyio.to_thread.run_sync(measure_facts, conversations, tokens)
        print(facts_text(found), file=sys.stderr)
        samples = {LASER: [found.kept / found.wanted], NEWEST_FIRST: [found.newest_first / found.wanted]}
        lines.append(
            make_line(
                "facts.kept",
                "values of tool calls still in the prompt",
                "process",
                samples,
                unit="%",
                scale=100,
                tokens=tokens,
                values=found.wanted,
            )
        )
    return lines
