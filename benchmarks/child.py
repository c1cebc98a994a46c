"""The process that ``benchmarks.fresh`` starts. Loads nothing but what it measures."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

_TOPICS = ["agent.sessions"]


def main(action: str, side: str, url: str, stream: str, conversation: str) -> None:
    """Does the work and prints what it took as one JSON object."""
    connect = _connect_laser if side == "laser" else _connect_sdk
    said = asyncio.run(_run(connect, action, url, stream, conversation))
    json.dump(said | memory(), sys.stdout)


def memory() -> dict[str, int]:
    """Bytes of memory that the process has now, and the most that it ever had. Linux only; elsewhere nothing."""
    status = Path("/proc/self/status")
    if not status.exists():
        return {}
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return {
        "resident_bytes": int(fields["VmRSS"].split()[0]) * 1024,
        "peak_bytes": int(fields["VmHWM"].split()[0]) * 1024,
    }


async def _run(connect: Any, action: str, url: str, stream: str, conversation: str) -> dict[str, Any]:
    begun = time.perf_counter()
    client = await connect(url, stream)
    context = client.context(conversation)
    connected = time.perf_counter()
    if action == "fetch":
        result = await context.fetch(n=50)
    else:
        result = await context.state(_TOPICS, 0, _weigh, full=True)
    done = time.perf_counter()
    await (client.close() if hasattr(client, "close") else client.aclose())
    facts = [bytes(message.payload).hex() for message in result] if action == "fetch" else [str(result)]
    return {"seconds": done - connected, "connect_seconds": connected - begun, "facts": facts}


async def _connect_laser(url: str, stream: str) -> Any:
    return await import_module("laser").Laser.connect(url, stream=stream)


async def _connect_sdk(url: str, stream: str) -> Any:
    return await import_module("laser_sdk").Laser.connect(url, stream=stream)


def _weigh(total: int, message: Any) -> int:
    return total + len(message.payload)


if __name__ == "__main__":
    main(*sys.argv[1:])
