"""What is reported through OpenTelemetry, what never is, and what it costs where nobody listens."""

from __future__ import annotations

import json
import timeit
from pathlib import Path
from typing import Any

import pytest

from laser.context import telemetry
from laser.context.telemetry import observe
from tests.commands import ROOT, run_python

CANARY = "canary-5d0c7f"

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("told") / "data"
    done = run_python("-m", "tests.telemetry.child", f"embedded:{directory}", CANARY, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def spans(told: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [span for span in told["spans"] if span["name"] == name]


def test_every_operation_has_its_span(told: dict[str, Any]) -> None:
    assert {span["name"] for span in told["spans"]} == {
        "laser.append",
        "laser.fetch",
        "laser.fold",
        "laser.snapshot.save",
        "laser.snapshot.load",
        "laser.cache.refresh",
    }
    appends = spans(told, "laser.append")
    assert [span["attributes"].get("messaging.batch.message_count") for span in appends] == [1, 2, 1, None]
    assert appends[0]["kind"] == "SpanKind.PRODUCER"
    assert appends[0]["attributes"] | {"messaging.destination.partition.id": "?"} == {
        "laser.stream": "told",
        "gen_ai.conversation.id": told["conversation"],
        "gen_ai.agent.id": "planner",
        "messaging.destination.name": "agent.sessions",
        "messaging.destination.partition.id": "?",
        "messaging.batch.message_count": 1,
    }
    (fetch,) = spans(told, "laser.fetch")
    assert fetch["attributes"]["messaging.batch.message_count"] == 4
    assert fetch["attributes"]["laser.topics"] == ["agent.sessions"]
    folds = spans(told, "laser.fold")
    assert [span["attributes"].get("messaging.batch.message_count") for span in folds] == [4, 4, 4, None]


def test_what_belongs_to_an_operation_is_below_it(told: dict[str, Any]) -> None:
    (fetch,) = spans(told, "laser.fetch")
    parents = [span["parent_id"] for span in spans(told, "laser.cache.refresh")]
    assert fetch["context"]["span_id"] in parents
    folds = {span["context"]["span_id"] for span in spans(told, "laser.fold")}
    assert all(span["parent_id"] in folds for span in spans(told, "laser.snapshot.save"))
    assert all(span["parent_id"] is None for span in spans(told, "laser.append"))


def test_errors_are_told_by_their_type_alone(told: dict[str, Any]) -> None:
    failed = spans(told, "laser.append")[-1]
    assert failed["attributes"]["error.type"] == "NotFoundError"
    assert failed["status"] == {"status_code": "ERROR"}
    assert failed["events"] == []
    assert spans(told, "laser.fold")[-1]["attributes"]["error.type"] == "ValueError"


def test_metrics_count_and_time(told: dict[str, Any]) -> None:
    (resource,) = told["metrics"]["resource_metrics"]
    (scope,) = resource["scope_metrics"]
    found = {metric["name"]: metric for metric in scope["metrics"]}
    assert set(found) == {"laser.operation.duration", "laser.operation.messages"}
    assert found["laser.operation.duration"]["unit"] == "s"
    counted = {
        point["attributes"]["laser.operation"]: point["value"]
        for point in found["laser.operation.messages"]["data"]["data_points"]
    }
    assert counted == {"append": 4, "fetch": 4, "fold": 12}
    labels = {
        key for metric in found.values() for point in metric["data"]["data_points"] for key in point["attributes"]
    }
    # A metric by conversation would be a time series for each of millions.
    assert labels == {"laser.operation", "messaging.destination.name", "error.type"}


def test_no_payload_and_no_text_of_an_error_is_reported(told: dict[str, Any]) -> None:
    assert CANARY not in json.dumps(told)


def test_nobody_listening_costs_less_than_a_microsecond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_providers", None)

    def once() -> None:
        with observe("append", "stream", "conversation", "topic", "agent") as observed:
            observed.note(messages=1, partition=0)

    # The best of many short runs: what the code costs, not what the machine does beside it.
    best = min(timeit.repeat(once, number=2_000, repeat=30)) / 2_000
    assert best < 1e-6, f"{best * 1e9:.0f} ns"


def test_the_api_is_not_imported_by_laser(tmp_path: Path) -> None:
    program = """
import sys, anyio, laser as ls
async def main():
    async with ls.Laser.connect("memory:") as laser:
        await laser.ensure_topic("t")
        await laser.context(ls.new_conversation_id()).append("t", "x")
anyio.run(main)
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = run_python("-c", program, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n", "")
