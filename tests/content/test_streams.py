"""Large streams in bounded memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from laser.testing.s3_server import S3Server
from tests.commands import run_python


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory as Linux tells it")
@pytest.mark.parametrize("objects", ["embedded", "s3"])
def test_a_large_stream_in_100_megabytes(tmp_path: Path, request: pytest.FixtureRequest, objects: str) -> None:
    """The process's whole memory: interpreter, libraries and stream. ``benchmarks`` takes a whole gibibyte."""
    size = 1 << 27
    objects_url: list[str] = []
    if objects == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        objects_url = [server.url]
    done = run_python("-m", "benchmarks.streaming", f"embedded:{tmp_path}", str(size), *objects_url, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) < 100_000_000
