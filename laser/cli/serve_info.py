"""``laser serve-info``: what serves the log."""

from __future__ import annotations

import msgspec

import laser as ls
from laser.cli.options import DEFAULT_TIMEOUT, AsJson, Stream, Timeout, Url
from laser.cli.output import console, plain, print_json
from laser.cli.running import run

__all__ = ["serve_info"]


def serve_info(
    url: Url = None, stream: Stream = None, timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False
) -> None:
    """Say what serves the log: engine, version, place, and what acknowledged records survive."""

    async def work() -> None:
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            info = await laser.info()
            topics = await laser.topics()
            records = sum(topic.records for topic in topics)
            if as_json:
                rest = {"stream": laser.stream, "topics": len(topics), "records": records, "laser": ls.__version__}
                print_json(msgspec.structs.asdict(info) | rest)
                return
            out = console()
            out.print(f"engine      {info.engine}, version {plain(info.version)}")
            out.print(f"place       {plain(info.location)}")
            out.print(f"durability  {info.default_durability} by default; can do: {', '.join(info.durabilities)}")
            out.print(f"stream      {laser.stream}: {len(topics)} topics, {records:,} records")
            out.print(f"client      laser {ls.__version__}")

    run(work)
