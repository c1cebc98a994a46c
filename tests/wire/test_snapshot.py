"""Snapshots as CBOR: laser-sdk's bytes both ways, our own members, and bytes of anybody's making."""

from __future__ import annotations

from typing import Any

import cbor2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.wire.cbor import encode_cbor
from tests.properties import decodes, examples
from tests.shared import golden

ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
_u32 = st.integers(0, 2**32 - 1)
_u64 = st.integers(0, 2**64 - 1)
_names = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=12)
_conversations = st.integers(0, 2**128 - 1).map(lambda value: ls.decode_snapshot(_bytes_with_id(value)).conversation)
snapshots = st.builds(
    ls.Snapshot,
    stream=_names,
    stream_id=_u32,
    stream_created_at_micros=_u64,
    conversation=_conversations,
    fold=_names,
    as_of=st.lists(
        st.builds(ls.Folded, _u32, _u64, _u32, _u64, st.none() | st.integers(0, 2**128 - 1)), max_size=4
    ).map(tuple),
    state=st.binary(max_size=40),
    version=_u32,
    saved_at_micros=st.none() | _u64,
)

PLAIN = ls.Snapshot("app", 3, 17, ID, "count", (ls.Folded(1, 2, 0, 41), ls.Folded(1, 2, 3, 7)), b"10")


def _fields() -> dict[str, Any]:
    return dict(cbor2.loads(ls.encode_snapshot(PLAIN)))


def _bytes_with_id(value: int) -> bytes:
    return encode_cbor(_fields() | {"conversation": value.to_bytes(16, "big")})


def _of_golden(fields: dict[str, Any]) -> ls.Snapshot:
    return ls.Snapshot(
        fields["stream"],
        fields["stream_id"],
        fields["stream_created_at_micros"],
        fields["conversation"],
        fields["fold"],
        tuple(ls.Folded(*part) for part in fields["as_of"]),
        bytes.fromhex(fields["state_hex"]),
    )


@pytest.mark.parametrize("entry", golden()["snapshot"], ids=lambda entry: entry["fields"]["stream"])
def test_the_peers_bytes_both_ways(entry: dict[str, Any]) -> None:
    made = _of_golden(entry["fields"])
    assert ls.encode_snapshot(made).hex() == entry["cbor"]
    assert ls.decode_snapshot(bytes.fromhex(entry["cbor"])) == made
    assert ls.resume_offsets(made) == [tuple(part) for part in entry["resume_offsets"]]


@pytest.mark.parametrize("entry", golden()["snapshot_record"])
def test_a_record_that_the_peers_store_wrote(entry: dict[str, Any]) -> None:
    payload = bytes.fromhex(entry["payload_cbor"])
    read = ls.decode_snapshot(payload)
    assert ls.encode_snapshot(read) == payload
    assert (read.fold, read.state, read.version, read.saved_at_micros) == ("count", b"5", 1, None)
    assert all(part.last_id is None for part in read.as_of)


@given(snapshots)
@examples(300)
def test_round_trip(made: ls.Snapshot) -> None:
    data = ls.encode_snapshot(made)
    assert ls.decode_snapshot(data) == made
    assert ls.encode_snapshot(ls.decode_snapshot(data)) == data


@given(snapshots)
@examples(100)
def test_what_the_peer_reads_comes_first_and_is_the_same(made: ls.Snapshot) -> None:
    """Its seven fields lead, byte for byte; ours follow as one more member, which it ignores."""
    bare = msgspec.structs.replace(
        made,
        version=1,
        saved_at_micros=None,
        as_of=tuple(msgspec.structs.replace(part, last_id=None) for part in made.as_of),
    )
    ours, peers = ls.encode_snapshot(made), ls.encode_snapshot(bare)
    assert peers[0] == 0xA7
    assert ours[0] in (0xA7, 0xA8)
    assert ours[1 : len(peers)] == peers[1:]
    assert list(cbor2.loads(ours))[7:] in ([], ["laser"])


def test_f17_the_offset_after_the_last_folded_one_stops_at_64_bits() -> None:
    """F17: inclusive offsets become the next one to read; the largest has none after it."""
    made = msgspec.structs.replace(
        PLAIN, as_of=tuple(ls.Folded(1, 2, place, at) for place, at in enumerate([0, 5, 2**64 - 2, 2**64 - 1]))
    )
    assert [at for *_, at in ls.resume_offsets(made)] == [1, 6, 2**64 - 1, 2**64 - 1]


@pytest.mark.parametrize("name", list(_fields()))
def test_a_missing_field_is_refused(name: str) -> None:
    fields = _fields()
    del fields[name]
    with pytest.raises(ls.CodecError, match=name):
        ls.decode_snapshot(encode_cbor(fields))


_WRONG: dict[str, list[Any]] = {
    "stream": [1, None, b"app", "", ["app"]],
    "stream_id": ["3", -1, 2**32, 3.0, True, None],
    "stream_created_at_micros": ["3", -1, 3.0, False, None],
    "conversation": [ID, b"", b"\0" * 15, b"\0" * 17, 1, None],
    "fold": [1, None, b"count", ""],
    "as_of": [
        None,
        {},
        b"",
        [1],
        [[1, 2, 3]],
        [[1, 2, 3, 4, 5]],
        [[1, 2, 3, "4"]],
        [[2**32, 2, 3, 4]],
        [[1, -1, 3, 4]],
        [[1, 2, True, 4]],
        [[1, 2, 3, 4.0]],
    ],
    "state": ["10", None, [49, 48], {}],
    "laser": [
        [],
        1,
        "x",
        {"version": -1},
        {"version": "1"},
        {"saved_at": -1},
        {"saved_at": 1.5},
        {"ids": []},
        {"ids": [b"\0" * 16]},
        {"ids": [b"\0" * 15, None]},
        {"ids": "ab"},
        {"ids": ["a", "b"]},
    ],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in _WRONG.items() for value in values])
def test_a_wrong_type_or_size_is_refused(name: str, value: object) -> None:
    with pytest.raises(ls.CodecError, match=f"snapshot: .*{name}"):
        ls.decode_snapshot(encode_cbor(_fields() | {name: value}))


def test_unknown_fields_are_ignored_wherever_they_stand() -> None:
    fields = _fields()
    assert ls.decode_snapshot(encode_cbor({"later": [1, {"x": b""}], **fields, "z": None})) == PLAIN
    assert ls.decode_snapshot(encode_cbor(dict(reversed(fields.items())))) == PLAIN
    assert ls.decode_snapshot(encode_cbor(fields | {"laser": {"later": 1}})) == PLAIN


@pytest.mark.parametrize("data", [b"", b"\0", b"\xa0", b"\x80", b"10", encode_cbor([1]), encode_cbor("x")])
def test_what_is_no_map_is_refused(data: bytes) -> None:
    with pytest.raises(ls.CodecError):
        ls.decode_snapshot(data)


def test_bytes_after_the_end_and_cut_off_bytes_are_refused() -> None:
    data = ls.encode_snapshot(PLAIN)
    for extra in (b"\0", b"\xf6", data):
        with pytest.raises(ls.CodecError, match="bytes follow"):
            ls.decode_snapshot(data + extra)
    for length in range(len(data)):
        with pytest.raises(ls.CodecError):
            ls.decode_snapshot(data[:length])


@given(snapshots, st.data())
@examples(600)
def test_mutated_bytes_give_a_snapshot_or_one_typed_error(made: ls.Snapshot, data: st.DataObject) -> None:
    block = bytearray(ls.encode_snapshot(made))
    at = data.draw(st.integers(0, len(block) - 1))
    block[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    read = decodes(lambda: ls.decode_snapshot(bytes(block)), ls.CodecError)
    if read is not None:
        assert ls.decode_snapshot(ls.encode_snapshot(read)) == read


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"\x9b" + b"\xff" * 8, id="an array of 2**64 - 1"),
        pytest.param(b"\x5b\x7f" + b"\xff" * 7, id="a text of 2**63 bytes"),
        pytest.param(b"\x81" * 10_000 + b"\0", id="10,000 deep"),
        pytest.param(b"\xc4\x82\x1a\x3b\x9a\xca\x00\x01", id="a decimal of 1e9 digits"),
        pytest.param(b"\xd8\x1c\x81\xd8\x1d\x00", id="a list that holds itself"),
        pytest.param(b"\x9f\x00\xff", id="an indefinite length"),
    ],
)
def test_g8_h16_hostile_values_are_refused_in_time(value: bytes) -> None:
    """G8, H16: whatever a stranger writes in place of a field is one typed error, soon."""
    data = ls.encode_snapshot(PLAIN)
    place = data.index(b"eas_of") + 6
    assert decodes(lambda: ls.decode_snapshot(data[:place] + value + data[place:]), ls.CodecError) is None


@pytest.mark.parametrize(
    "change",
    [
        {"stream": ""},
        {"stream": 1},
        {"stream": "\ud800"},
        {"fold": ""},
        {"fold": None},
        {"stream_id": -1},
        {"stream_id": 2**32},
        {"stream_id": True},
        {"stream_created_at_micros": 2**64},
        {"conversation": "no id"},
        {"state": "10"},
        {"state": bytearray(b"10")},
        {"version": -1},
        {"version": 2**32},
        {"saved_at_micros": -1},
        {"as_of": (ls.Folded(2**32, 1, 1, 1),)},
        {"as_of": (ls.Folded(1, 2**64, 1, 1),)},
        {"as_of": (ls.Folded(1, 1, -1, 1),)},
        {"as_of": (ls.Folded(1, 1, 1, 2**64),)},
        {"as_of": (ls.Folded(1, 1, 1, 1, 2**128),)},
        {"as_of": (ls.Folded(1, 1, 1, 1, -1),)},
    ],
    ids=repr,
)
def test_what_could_not_be_read_back_is_not_written(change: dict[str, Any]) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        ls.encode_snapshot(msgspec.structs.replace(PLAIN, **change))
    assert caught.value.argument in ("snapshot", "conversation_id")


def test_a_lower_case_conversation_id_is_written_as_the_canonical_one() -> None:
    lower = msgspec.structs.replace(PLAIN, conversation=ID.lower())
    assert ls.encode_snapshot(lower) == ls.encode_snapshot(PLAIN)


def _covers(*offsets: int) -> ls.Snapshot:
    return msgspec.structs.replace(
        PLAIN, as_of=tuple(ls.Folded(1, 2, place, at) for place, at in enumerate(offsets) if at >= 0)
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (_covers(5, 5), _covers(5, 5), True),
        (_covers(5, 6), _covers(5, 5), True),
        (_covers(4, 6), _covers(5, 5), False),
        (_covers(5), _covers(5, 5), False),
        (_covers(5, 5), _covers(5), True),
        (_covers(-1, 5), _covers(0), False),
        (_covers(0), _covers(), True),
    ],
)
def test_which_of_two_folded_more(one: ls.Snapshot, other: ls.Snapshot, expected: bool) -> None:
    assert one.covers(other) is expected


def test_another_topic_covers_nothing() -> None:
    recreated = msgspec.structs.replace(PLAIN, as_of=(ls.Folded(1, 3, 0, 100), ls.Folded(1, 3, 3, 100)))
    assert not recreated.covers(PLAIN)
    assert not PLAIN.covers(recreated)
