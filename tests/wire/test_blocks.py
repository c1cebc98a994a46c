"""Header blocks: what goes in comes out, and bytes of anybody's making give headers or one typed error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.wire.blocks import BOOL, FLOAT64, RAW, STRING, UINT32, UINT64, Header, decode_block, encode_block
from tests.properties import decodes, examples

_WIDTHS = {BOOL: 1, 4: 1, 5: 2, 6: 4, 7: 8, 8: 16, 9: 1, 10: 2, UINT32: 4, UINT64: 8, 13: 16, 14: 4, FLOAT64: 8}


def _field(kinds: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, bytes]]:
    def of(kind: int) -> st.SearchStrategy[tuple[int, bytes]]:
        width = _WIDTHS.get(kind)
        sized = st.binary(min_size=1, max_size=12) if width is None else st.binary(min_size=width, max_size=width)
        return st.tuples(st.just(kind), sized)

    return kinds.flatmap(of)


_ANY = st.sampled_from([RAW, STRING, *_WIDTHS])
headers = st.lists(
    st.builds(
        lambda key, value: Header(key[1], value[0], value[1], key[0]),
        _field(st.sampled_from([RAW, STRING])),
        _field(_ANY),
    ),
    max_size=4,
    unique_by=lambda header: (header.key_kind, header.key),
)


@given(headers)
@examples(150)
def test_round_trip(made: list[Header]) -> None:
    assert decode_block(encode_block(made)) == made


@given(headers, st.data())
@examples(300)
def test_mutated_bytes_give_headers_or_one_typed_error(made: list[Header], data: st.DataObject) -> None:
    block = bytearray(encode_block(made))
    for _ in range(data.draw(st.integers(1, 4))):
        if not block:
            break
        at = data.draw(st.integers(0, len(block) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "repeat"])):
            case "flip":
                block[at] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                del block[at:]
            case "insert":
                block[at:at] = data.draw(st.binary(max_size=6))
            case _:
                block += block[at:]
    decoded = decodes(lambda: decode_block(bytes(block)), ls.CodecError)
    if decoded is not None:
        # What was accepted is canonical: it says exactly those bytes and no others.
        assert encode_block(decoded) == bytes(block)


@given(st.binary(max_size=400))
@examples(300)
def test_any_bytes_give_headers_or_one_typed_error(block: bytes) -> None:
    decoded = decodes(lambda: decode_block(block), ls.CodecError)
    assert decoded is None or encode_block(decoded) == block


_KEY = b"\x02\x01\x00\x00\x00k"


@pytest.mark.parametrize(
    "block",
    [
        b"\x02",
        b"\x02\x01\x00\x00",
        _KEY,
        _KEY + b"\x02\x01\x00\x00\x00",
        _KEY + b"\x02\xff\xff\xff\xffv",
        _KEY + b"\x02\x00\x00\x00\x00",
        _KEY + b"\x02\x00\x01\x00\x00" + b"v" * 256,
        _KEY + b"\x00\x01\x00\x00\x00v",
        _KEY + b"\x10\x01\x00\x00\x00v",
        _KEY + b"\x0c\x04\x00\x00\x00vvvv",
        _KEY + b"\x0f\x09\x00\x00\x00vvvvvvvvv",
        b"\x02\x00\x00\x00\x00\x02\x01\x00\x00\x00v",
        (_KEY + b"\x02\x01\x00\x00\x00v") * 2,
        _KEY + b"\x02\x01\x00\x00\x00v" + b"\x00",
    ],
    ids=[
        "one-byte", "cut-length", "no-value", "value-cut", "length-bomb", "empty-value", "value-over-255", "kind-0",
        "kind-16", "u64-of-4", "f64-of-9", "empty-key", "key-twice", "rest",
    ],
)  # fmt: skip
def test_damaged_blocks_are_refused(block: bytes) -> None:
    with pytest.raises(ls.CodecError, match="header block"):
        decode_block(block)


def test_g1_keys_and_values_of_1_to_255_bytes() -> None:
    assert decode_block(encode_block([Header(b"k" * 255, STRING, b"v" * 255)]))
    for header in (
        Header(b"", STRING, b"v"),
        Header(b"k", STRING, b""),
        Header(b"k" * 256, STRING, b"v"),
        Header(b"k", STRING, b"v" * 256),
    ):
        with pytest.raises(ls.LimitError) as caught:
            encode_block([header])
        assert caught.value.limit == 255
        assert caught.value.size in (0, 256)


def test_a_large_block_of_foreign_headers_is_read_in_time() -> None:
    made = [Header(b"%05d" % number, STRING, b"v") for number in range(6_000)]
    block = encode_block(made)
    assert decodes(lambda: decode_block(block)) == made
