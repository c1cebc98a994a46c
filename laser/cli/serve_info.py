"""``laser serve-info``: what serves the log."""

from __future__ import annotations

import msgspec

import laser as ls
from laser.cli.connected import on_log
from laser.cli.options import AsJson
from laser.cli.output import console, plain, print_json

__all__ = ["serve_info"]


@on_log
async def serve_info(laser: ls.Laser, as_json: AsJson = False) -> None:
    """Say what serves the log: engine, version, place, and what acknowledged records survive."""
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
