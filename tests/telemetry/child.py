"""A program with OpenTelemetry's SDK and exporters in memory; prints what laser reported, as JSON.

Providers can be set once in a process, so a run is a process of its own: ``python -m tests.telemetry.child URL WORD``.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

import anyio
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import laser as ls


async def work(url: str, canary: str) -> str:
    async with ls.Laser.connect(url, stream="told", cache=1 << 20) as laser:
        await laser.bootstrap(2, ls.TopicRetention(expire_after=timedelta(days=1)))
        scope = laser.context(ls.derive_conversation_id("told"))
        await scope.append(ls.AgentTopic.Sessions, canary, agent="planner")
        await scope.append_many(ls.AgentTopic.Sessions, [canary, canary])
        async with laser.batching() as batch:
            await batch.append(scope.conversation, ls.AgentTopic.Sessions, canary)
        await scope.fetch()
        await scope.state([ls.AgentTopic.Sessions], 0, lambda state, _: state + 1, full=True)
        for store in (ls.TopicSnapshotStore(laser, "count"), ls.KvSnapshotStore(laser, "count")):
            await scope.state_with(
                store, [ls.AgentTopic.Sessions], 0, lambda state, _: state + 1, save=ls.AutoSave(every=1)
            )
        try:
            await scope.append("no.such.topic", canary)
        except ls.NotFoundError:
            pass
        try:
            await scope.state([ls.AgentTopic.Sessions], 0, _fails(canary), full=True)
        except ValueError:
            pass
        return scope.conversation


def _fails(canary: str) -> Any:
    def fold(state: int, message: ls.ContextMessage) -> int:
        raise ValueError(canary)

    return fold


def main() -> None:
    url, canary = sys.argv[1:]
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([reader]))
    conversation = anyio.run(work, url, canary)
    print(
        json.dumps(
            {
                "conversation": conversation,
                "spans": [json.loads(span.to_json()) for span in spans.get_finished_spans()],
                "metrics": json.loads(reader.get_metrics_data().to_json()),  # type: ignore[union-attr]
            }
        )
    )


if __name__ == "__main__":
    main()
