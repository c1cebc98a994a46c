"""Bytes and values of laser-sdk 0.8.2, both ways."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

import laser as ls
from laser.wire.blocks import FLOAT64, STRING, UINT64, Header, decode_block, encode_block
from laser.wire.provenance import decode_provenance, encode_provenance
from tests.shared import full_golden, golden, golden_copy

_PROVENANCE = list(zip(golden_copy()["provenance_inputs"], golden_copy()["provenance"], strict=True))


def _headers(record: dict[str, Any]) -> list[Header]:
    """The headers of a golden record, in the order of their keys, as the server stores a map."""
    made = []
    for key, entry in sorted(record["headers"].items()):
        kind, value = entry["kind"], entry["value"]
        if kind == "String":
            made.append(Header(key.encode(), STRING, value.encode()))
        elif kind == "UnsignedInt64":
            made.append(Header(key.encode(), UINT64, struct.pack("<Q", value)))
        else:
            assert kind == "Float64"
            made.append(Header(key.encode(), FLOAT64, struct.pack("<d", value)))
    return made


def test_the_copy_says_what_the_full_set_says() -> None:
    full = full_golden()
    assert golden_copy() == {name: full[name] for name in golden_copy()}


@pytest.mark.parametrize(("seed", "expected"), golden()["derive_conversation_id"].items())
def test_derived_ids(seed: str, expected: str) -> None:
    assert ls.derive_conversation_id(seed) == expected


@pytest.mark.parametrize(("fields", "record"), _PROVENANCE)
def test_provenance_is_written_as_the_peer_writes_it(fields: dict[str, Any], record: dict[str, Any]) -> None:
    assert encode_provenance(ls.Provenance(**fields)) == encode_block(_headers(record))


@pytest.mark.parametrize(("fields", "record"), _PROVENANCE)
def test_provenance_of_the_peer_is_read(fields: dict[str, Any], record: dict[str, Any]) -> None:
    assert decode_provenance(encode_block(_headers(record))) == ls.Provenance(**fields)


@pytest.mark.parametrize(("fields", "record"), _PROVENANCE)
def test_header_order_does_not_matter(fields: dict[str, Any], record: dict[str, Any]) -> None:
    assert decode_provenance(encode_block(reversed(_headers(record)))) == ls.Provenance(**fields)


def test_a_block_byte_for_byte() -> None:
    block = encode_provenance(ls.Provenance(conversation_id="01ARZ3NDEKTSV4RRFFQ69G5FAV", fence_token=7))
    assert block == (
        b"\x02\x0a\x00\x00\x00agdx.fence\x0c\x08\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00"
        b"\x02\x16\x00\x00\x00gen_ai.conversation.id\x02\x1a\x00\x00\x0001ARZ3NDEKTSV4RRFFQ69G5FAV"
    )
    assert [header.key for header in decode_block(block)] == [b"agdx.fence", b"gen_ai.conversation.id"]


@pytest.mark.parametrize("value", golden()["checkpoint_json"])
def test_checkpoints_of_the_peer(value: dict[str, Any]) -> None:
    checkpoint = ls.Checkpoint.from_json(json.dumps(value))
    assert json.loads(checkpoint.to_json()) == value
    assert checkpoint.topics() == {
        topic: {int(partition): offset for partition, offset in parts.items()}
        for topic, parts in value["per_topic"].items()
    }
    assert checkpoint.is_empty() == (not value["per_topic"])
