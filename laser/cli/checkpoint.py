"""``laser checkpoint``: where topics end."""

from __future__ import annotations

from rich.table import Table

import laser as ls
from laser.cli.options import DEFAULT_TIMEOUT, AsJson, Stream, Timeout, Topics, Url, require_topics
from laser.cli.output import console, plain, print_utf8
from laser.cli.running import run

__all__ = ["checkpoint"]


def checkpoint(
    topics: Topics = None,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print where topics end now, as a bookmark: laser checkpoint --json > FILE.

    Give the file to laser state, as --from-checkpoint for what comes after it, or --at for what came before it. It
    covers whole partitions: other conversations on them move it too.
    """

    async def work() -> None:
        names = topics or [ls.AgentTopic.Sessions]
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
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

    run(work)
