"""``laser topics``: what is on a stream."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.table import Table

import laser as ls
from laser.cli.connected import on_log
from laser.cli.options import AsJson
from laser.cli.output import console, plain, print_json, retention_text

__all__ = ["print_topics", "topics"]


@on_log
async def topics(laser: ls.Laser, as_json: AsJson = False) -> None:
    """List the topics of a stream with their partitions, records and retention."""
    print_topics(laser.stream, await laser.topics(), as_json)


def print_topics(stream: str, found: tuple[ls.TopicInfo, ...], as_json: bool) -> None:
    """Prints topics as a table, or as one JSON document."""
    if as_json:
        print_json({"stream": stream, "topics": [_topic_json(topic) for topic in found]})
        return
    out = console()
    if not found:
        out.print(f"stream {stream} has no topics; create the agent topics with: laser bootstrap")
        return
    table = Table(title=f"stream {stream}", title_justify="left")
    table.add_column("topic")
    for column in ("partitions", "records", "bytes"):
        table.add_column(column, justify="right")
    table.add_column("keeps")
    table.add_column("survives")
    for topic in found:
        table.add_row(
            plain(topic.name),
            str(len(topic.partitions)),
            f"{topic.records:,}",
            f"{topic.size_bytes:,}",
            retention_text(topic.retention),
            topic.durability or "?",
        )
    out.print(table)


def _topic_json(topic: ls.TopicInfo) -> dict[str, Any]:
    retention = topic.retention
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "created_at_micros": topic.created_at_micros,
        "records": topic.records,
        "size_bytes": topic.size_bytes,
        "durability": topic.durability,
        "expire_micros": retention.expire_micros if retention else None,
        "max_size": retention.max_size if retention else None,
        "partitions": [msgspec.structs.asdict(part) for part in topic.partitions],
    }
