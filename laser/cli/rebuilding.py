"""Folding a read view anew, with a bar that shows how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import laser as ls
from laser.cli.output import console, print_json, print_skipped

__all__ = ["rebuild_view", "skipped_json"]


async def rebuild_view(laser: ls.Laser, room: ls.Memory | ls.Graph, as_json: bool) -> None:
    """Folds the view of a room anew, and says how many records were read."""
    with _bar(quiet=as_json) as step:
        read = await room.rebuild(step)
    if as_json:
        print_json({"stream": laser.stream, "read": read, "skipped": skipped_json(room.skipped)})
    else:
        console().print(f"{read:,} records read")
        print_skipped(room.skipped)


def skipped_json(skipped: Iterable[ls.SkippedRecord]) -> list[dict[str, Any]]:
    """Records that could not be decoded, for programs."""
    return [
        {"topic": one.topic, "partition": one.partition, "offset": one.offset, "reason": one.reason} for one in skipped
    ]


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Callable[[ls.CatchUpProgress], None] | None]:
    """A bar on stderr; yields how to move it. Quiet: none."""
    if quiet:
        yield None
        return
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("records"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with bars:
        task = bars.add_task("folding", total=None)
        yield lambda seen: bars.update(task, completed=seen.read, total=seen.total)
