"""``laser checkpoint``: where topics end."""

from __future__ import annotations

from rich.table import Table

import laser as ls
from laser.cli.connected import on_log
from laser.cli.options import AsJson, Topics, require_topics
from laser.cli.output import console, plain, print_utf8

__all__ = ["checkpoint"]


@on_log
async def checkpoint(
    laser: ls.Laser,
    topics: Topics = None,
    as_json: AsJson = False,
) -> None:
    """Print where topics end now, as a bookmark: laser checkpoint --json > FILE.

    Give the file to laser state, as --from-checkpoint for what comes after it, or --at for what came before it. It
    covers whole partitions: other conversations on them move it too.
    """
    names = topics or [ls.AgentTopic.Sessions]
    await require_topics(laser, names)
    taken = await ls.context_checkpoint(laser, names)
    if as_json:
        print_utf8(taken.to_json())
        return
    table = Table(title=f"stream {laser.stream}", title_justify="left")
    table.add_column("topic")
    table.add_column("partition", justify="right")
    table.add_column("next offset", justify="right")
    for topic, parts in taken.topics().items():
        for partition, offset in parts.items():
            table.add_row(plain(topic), str(partition), f"{offset:,}")
    console().print(table)
