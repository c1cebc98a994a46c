"""The facts and conversations in ``shared``, beside the clone: bytes made by laser-sdk, and real input."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_SHARED = Path(__file__).resolve().parents[2] / "shared"
_GOLDEN = _SHARED / "golden" / "laser_sdk_0_8_2.json"
_COPY = Path(__file__).parent / "data" / "golden_peer.json"


@cache
def golden_copy() -> dict[str, Any]:
    """The facts that this repository carries itself."""
    return dict(json.loads(_COPY.read_text()))


@cache
def golden() -> dict[str, Any]:
    """Facts measured on laser-sdk 0.8.2: the full set where ``shared`` is there, else the copy."""
    return dict(json.loads(_GOLDEN.read_text())) if _GOLDEN.exists() else golden_copy()


def full_golden() -> dict[str, Any]:
    """The full set; skips the test where ``shared`` is absent."""
    if not _GOLDEN.exists():
        pytest.skip("no ../shared/golden beside this clone")
    return golden()


def airline_conversations() -> list[list[bytes]]:
    """The messages of 200 real chats as JSON bytes; skips the test where ``shared`` is absent."""
    path = _SHARED / "data" / "tau_airline_gpt4o.jsonl"
    if not path.exists():
        pytest.skip("no ../shared/data beside this clone; the conversations are not ours to ship")
    return _read_conversations(path)


@cache
def _read_conversations(path: Path) -> list[list[bytes]]:
    lines = path.read_text().splitlines()
    return [
        [json.dumps(message, ensure_ascii=False).encode() for message in json.loads(line)["messages"]] for line in lines
    ]
