"""What can be measured, by name, in the order in which it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from benchmarks.bench import Bench
from benchmarks.figures import Line
from benchmarks.subjects import (
    active,
    append,
    batching,
    chats,
    compaction,
    content,
    conversations,
    durability,
    facts,
    fetch,
    folds,
    imports,
    loop,
    memory,
    memory_view,
    port,
    prompts,
    recall,
    scale,
    snapshots,
    workspace,
)

__all__ = ["SUBJECTS"]

SUBJECTS: dict[str, Callable[[Bench], Awaitable[list[Line]]]] = {
    "imports": imports.run,
    "append": append.run,
    "durability": durability.run,
    "batching": batching.run,
    "fetch": fetch.run,
    "folds": folds.run,
    "snapshots": snapshots.run,
    "conversations": conversations.run,
    "scale": scale.run,
    "port": port.run,
    "chats": chats.run,
    "content": content.run,
    "workspace": workspace.run,
    "loop": loop.run,
    "active": active.run,
    "memory": memory.run,
    "memory_view": memory_view.run,
    "recall": recall.run,
    "compaction": compaction.run,
    "prompts": prompts.run,
    "facts": facts.run,
}
