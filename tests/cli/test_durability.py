"""``laser bootstrap --durability`` sets what a topic survives, and ``laser topics`` shows it, on every engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laser.model.topics import DURABILITIES
from laser.testing.finding import OpenIggy
from tests.commands import run_laser


def _check(url: str, stream: str, durability: str, cwd: Path) -> None:
    made = run_laser(
        *("bootstrap", "--partitions", "1", "--durability", durability, "--url", url, "--stream", stream), cwd=cwd
    )
    assert (made.returncode, made.stderr) == (0, "")
    shown = run_laser("topics", "--url", url, "--stream", stream, cwd=cwd)
    assert "survives" in shown.stdout
    lines = [line for line in shown.stdout.splitlines() if "agent." in line]
    assert len(lines) == 16
    assert all(durability in line for line in lines)
    listed = json.loads(run_laser("topics", "--json", "--url", url, "--stream", stream, cwd=cwd).stdout)
    assert {topic["durability"] for topic in listed["topics"]} == {durability}


@pytest.mark.parametrize("durability", DURABILITIES)
def test_embedded(tmp_path: Path, durability: str) -> None:
    _check(f"embedded:{tmp_path / 'data'}", "app", durability, tmp_path)


@pytest.mark.iggy
@pytest.mark.parametrize("durability", DURABILITIES)
def test_on_a_server(iggy: OpenIggy, stream_name: str, tmp_path: Path, durability: str) -> None:
    _check(iggy.url, stream_name, durability, tmp_path)
