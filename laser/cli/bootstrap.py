"""``laser bootstrap``: the agent topics of a stream."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, cast

import typer

import laser as ls
from laser.cli.connected import on_log
from laser.cli.options import AsJson
from laser.cli.topics import print_topics

__all__ = ["KEEP_DAYS", "PARTITIONS", "bootstrap", "days"]

PARTITIONS: Final = 4
KEEP_DAYS: Final = 30.0


@on_log
async def bootstrap(
    laser: ls.Laser,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="Partitions of each new topic.")] = PARTITIONS,
    keep_days: Annotated[
        float, typer.Option("--keep-days", help="Days that agent.sessions keeps its records.")
    ] = KEEP_DAYS,
    durability: Annotated[
        str | None,
        typer.Option(
            "--durability",
            help="What an acknowledged record survives: memory, process or power. Default: the engine's.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create the agent topics of a stream. What exists is left as it is."""
    # The client refuses a durability that it does not know.
    chosen = cast("ls.Durability | None", durability)
    await laser.bootstrap(partitions, ls.TopicRetention(expire_after=days(keep_days)), durability=chosen)
    print_topics(laser.stream, await laser.topics(), as_json)


def days(count: float) -> timedelta:
    """A number of days as a duration.

    Raises:
        InvalidError: not a number above 0 that a duration can hold.
    """
    if not 0 < count < 1e6:
        raise ls.InvalidError(f"--keep-days: {count} is not a number of days above 0", argument="--keep-days")
    return timedelta(days=count)
