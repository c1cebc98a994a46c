"""The shipped strategies give what they promise."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

import laser as ls
from laser.model.checks import check_name
from laser.testing.clock import SetClock
from laser.testing.strategies import (
    Operation,
    chat_histories,
    conversation_ids,
    header_blocks,
    json_values,
    names,
    operations,
    payloads,
    provenances,
)
from laser.wire.blocks import decode_block
from laser.wire.provenance import decode_provenance, encode_provenance
from laser.wire.state_json import decode_state, encode_state
from tests.properties import examples


@given(conversation_ids(), names(), payloads())
@examples(60)
def test_ids_names_and_payloads_are_taken(conversation: str, name: str, payload: bytes) -> None:
    assert ls.Provenance(conversation_id=conversation).partition_key() == conversation
    try:
        assert check_name(name, "name") == name
    except ls.LimitError:
        assert len(name.encode()) > 255
    assert isinstance(payload, bytes)


@given(provenances())
@examples(60)
def test_provenances_come_back(made: ls.Provenance) -> None:
    try:
        block = encode_provenance(made)
    except ls.LimitError:
        return
    assert decode_provenance(block).conversation_id == made.conversation_id


@given(header_blocks())
@examples(80)
def test_blocks_are_headers_or_one_typed_error(block: bytes) -> None:
    try:
        decode_block(block)
    except ls.CodecError:
        return


@given(json_values())
@examples(80)
def test_json_values_are_states(value: Any) -> None:
    assert decode_state(encode_state(value)) == value


@given(chat_histories())
@examples(40)
def test_chat_histories_hold_results_of_their_own_calls(history: list[dict[str, Any]]) -> None:
    calls = [call["id"] for message in history for call in message.get("tool_calls", ())]
    results = [message["tool_call_id"] for message in history if message["role"] == "tool"]
    assert len(set(calls)) == len(calls)
    assert set(results) <= set(calls)
    json.dumps(history)


@given(operations())
@examples(20)
def test_operations_are_steps(steps: list[Operation]) -> None:
    assert all(0 <= step.conversation < 3 and 1 <= step.count <= 7 for step in steps)


def test_a_set_clock_goes_where_it_is_sent() -> None:
    clock = SetClock(5_000_000)
    clock.step(-2.5)
    assert clock.now_micros() == 2_500_000
    clock.micros = 1
    assert (clock.now_micros(), repr(clock)) == (1, "SetClock(1)")
