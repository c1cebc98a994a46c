"""The embedded engine at its port: what reads and appends cost without the client in front."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.bench import SESSIONS, Bench
from benchmarks.figures import LASER, Line, make_line
from benchmarks.filling import AGENT, PAYLOAD_BYTES, Workload, payloads
from benchmarks.measuring import Side, compare
from laser import Laser, Provenance
from laser.model.ids import new_record_id
from laser.model.records import NewRecord
from laser.model.window import Match, WindowQuery
from laser.ports.log import Log
from laser.wire.provenance import encode_provenance

__all__ = ["run"]

_PAGE = 1_000
_TIMES = 20

Call = Callable[[], Coroutine[Any, Any, object]]


async def run(bench: Bench) -> list[Line]:
    """Measures on the log that fetches are measured on. Nothing of the wire is decoded here but what finds records."""
    if "embedded" not in bench.engines:
        return []
    workload = await bench.workload("embedded")
    async with Laser.connect(workload.url, stream=workload.stream) as laser:
        port = _Port(laser.open_log(), workload)
        work: dict[str, tuple[str, Call, Call | None]] = {
            "newest": ("window of the newest 50", lambda: port.window(50), None),
            "appended": ("window of the newest 50, 1 new record since", lambda: port.window(50), port.append),
            "window": ("whole window of a conversation", lambda: port.window(None), None),
            "page": (f"page of {_PAGE:,} records of all", port.page, None),
            "append": ("append of one record", port.append, None),
        }
        lines = []
        for name, (title, call, before) in work.items():
            times = _TIMES if before is None else 1
            samples = await compare({LASER: Side(call)}, bench.size.rounds, before=before, times=times)
            lines.append(
                make_line(
                    f"port.{name}", title, "embedded", samples, records=workload.records, payload_bytes=PAYLOAD_BYTES
                )
            )
    return lines


class _Port:
    """Calls of one log, each of the next conversation in turn."""

    def __init__(self, log: Log, workload: Workload) -> None:
        self._log = log
        self._stream = workload.stream
        self._turns = itertools.cycle(workload.busy)
        self._payload = payloads(1)[0]
        self._headers = {
            conversation: encode_provenance(Provenance(conversation_id=conversation, agent=AGENT, target_agent_id="*"))
            for conversation in workload.busy
        }

    async def window(self, newest: int | None) -> None:
        window = await self._log.window(self._stream, SESSIONS, WindowQuery(Match(next(self._turns)), newest=newest))
        assert window is not None
        assert window.records

    async def page(self) -> None:
        page = await self._log.read(self._stream, SESSIONS, 0, start=0, limit=_PAGE)
        assert page.records

    async def append(self) -> None:
        conversation = next(self._turns)
        record = NewRecord(new_record_id(), self._payload, self._headers[conversation])
        await self._log.append(self._stream, SESSIONS, (record,), key=conversation)
