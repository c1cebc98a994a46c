"""Strict CBOR: plain values only, and nothing a stranger writes costs time or memory."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterable

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.wire.cbor import decode_cbor, encode_cbor
from tests.properties import decodes, examples

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(blacklist_categories=("Cs",)), max_size=8)
    | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(blacklist_categories=("Cs",)), max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(plain)
@examples(200)
def test_round_trip(value: object) -> None:
    assert decode_cbor(encode_cbor(value)) == value


@given(plain, st.data())
@examples(400)
def test_mutated_bytes_give_a_value_or_one_typed_error(value: object, data: st.DataObject) -> None:
    block = bytearray(encode_cbor(value))
    at = data.draw(st.integers(0, len(block) - 1))
    block[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    decodes(lambda: _is_plain(decode_cbor(bytes(block))), ls.CodecError)


@given(st.binary(max_size=64))
@examples(400)
def test_any_bytes_give_a_value_or_one_typed_error(block: bytes) -> None:
    decodes(lambda: _is_plain(decode_cbor(block)), ls.CodecError)


def _is_plain(value: object) -> None:
    if type(value) is dict:
        assert all(type(key) in (str, bytes) for key in value)
        for item in value.values():
            _is_plain(item)
    elif type(value) is list:
        for item in value:
            _is_plain(item)
    else:
        assert value is None or type(value) in (bool, int, float, str, bytes)


@pytest.mark.parametrize("tags", [range(300), range(300, 70_000, 97), [1004, 43000, 55799, 65535, 2**32, 2**64 - 1]])
def test_every_tag_is_refused(tags: Iterable[int]) -> None:
    for tag in tags:
        for content in (b"", "", 0, 1.5, [], [1, 2], [[]], {}, "2020-01-01", "1", [-1, 1]):
            tagged = cbor2.CBORTag(tag, content)
            for data in (cbor2.dumps(tagged), cbor2.dumps({"a": [tagged]})):
                with pytest.raises(ls.CodecError):
                    decode_cbor(data)


BAD = {
    "empty": "",
    "trailing": "0000",
    "trailing-after-map": "a000",
    "duplicate-keys": "a2616101616102",
    "duplicate-keys-inside": "81a2616101616102",
    "indefinite-bytes": "5f4101ff",
    "indefinite-text": "7f6161ff",
    "indefinite-array": "9f01ff",
    "indefinite-map": "bf616101ff",
    "break": "ff",
    "break-inside": "81ff",
    "reserved-length": "1c",
    "reserved-simple": "fc",
    "undefined": "f7",
    "undefined-inside": "a16161f7",
    "simple-value": "f0",
    "simple-value-inside": "8181f8ff",
    "text-not-utf8": "62c328",
    "surrogate-in-utf8": "63eda080",
    "key-is-number": "a10101",
    "key-is-list": "a18001",
    "cut": "a16161",
    "decimal-without-end": "c4821b7fffffffffffffff01",
    "cyclic": "d81c81d81d00",
    "regular-expression": "d82365282b612b29",
    "bytes-bomb": "5b0000001000000000",
    "text-bomb": "7b0000001000000000",
    "array-bomb": "9b0000001000000000",
    "array-bomb-with-items": "9a7fffffff00000000",
    "map-bomb": "bb0000001000000000",
    "length-of-64-bits": "5bffffffffffffffff",
    "too-deep": "81" * 65 + "00",
    "far-too-deep": "81" * 100_000 + "00",
    "deep-maps": "a16161" * 20_000 + "00",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_hostile_bytes_are_one_typed_error_in_time(data: str) -> None:
    def refused() -> bool:
        with pytest.raises(ls.CodecError, match="not strict CBOR"):
            decode_cbor(bytes.fromhex(data))
        return True

    assert decodes(refused)


def test_depth_within_the_bound() -> None:
    assert decode_cbor(bytes.fromhex("81" * 64 + "00")) is not None


def test_floats_that_are_no_numbers_are_values_of_cbor() -> None:
    assert math.isnan(decode_cbor(bytes.fromhex("f97e00")))


_IN_64_MEGABYTES = """
import resource, sys
import laser as ls
from laser.wire.cbor import decode_cbor
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 64_000_000,) * 2)
refused = 0
for line in sys.stdin:
    try:
        decode_cbor(bytes.fromhex(line))
    except ls.CodecError as error:
        # Refused for what it is, not because the memory ran out on the way.
        refused += not isinstance(error.__cause__, MemoryError)
print(refused)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space as Linux does")
def test_hostile_bytes_take_less_than_64_megabytes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IN_64_MEGABYTES], input="\n".join(BAD.values()), capture_output=True, text=True
    )
    assert done.stdout.split() == [str(len(BAD))], done.stderr
