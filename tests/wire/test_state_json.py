"""State as JSON: what comes back is what was kept, or it was never kept."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import json
import math
import pathlib
import struct
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.wire.state_json import decode_state, encode_state
from tests.properties import decodes, examples

_texts = st.text(st.characters(blacklist_categories=("Cs",)), max_size=8)
exact = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=20,
)
anything = st.recursive(
    exact
    | st.floats()
    | st.integers()
    | st.binary(max_size=4)
    | st.text(max_size=4)
    | st.complex_numbers()
    | st.decimals()
    | st.fractions()
    | st.datetimes()
    | st.uuids(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.none(), inner, max_size=3)
        | st.sets(st.integers(), max_size=2)
        | st.dictionaries(_texts, inner, max_size=2).map(OrderedDict)
    ),
    max_leaves=12,
)


def _same(one: Any, other: Any) -> bool:
    """Equal in value and in every type, a float in every bit."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if type(one) is list:
        return len(one) == len(other) and all(map(_same, one, other))
    if type(one) is float:
        return struct.pack(">d", one) == struct.pack(">d", other)
    return bool(one == other)


@given(exact)
@examples(400)
def test_h8_state_after_reload_is_the_state_before(state: Any) -> None:
    """H8: the same values of the same types, dicts in their order."""
    assert _same(decode_state(encode_state(state)), state)


@given(anything)
@examples(600)
def test_h8_h12_any_value_comes_back_the_same_or_is_refused(state: Any) -> None:
    """H8, H12: nothing comes back as something else."""
    try:
        data = encode_state(state)
    except ls.InvalidError:
        return
    assert _same(data if type(state) is bytes else decode_state(data), state)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(enum.StrEnum):
    FIRST = "first"


class float64(float):  # noqa: N801 - as numpy's, a subclass of float
    pass


class int64:  # noqa: N801
    """As numpy's, no subclass of int."""

    def __index__(self) -> int:
        return 1


Point = namedtuple("Point", "x y")

_REFUSED: list[tuple[Any, str]] = [
    (float("nan"), "nan"),
    (float("inf"), "inf"),
    (float("-inf"), "-inf"),
    (2**64, "an int that 64 bits cannot hold"),
    (-(2**63) - 1, "an int that 64 bits cannot hold"),
    (10**5000, "an int that 64 bits cannot hold"),
    ((1, 2), "tuple"),
    ({1}, "set"),
    (frozenset([1]), "frozenset"),
    (b"x", "bytes"),
    (bytearray(b"x"), "bytearray"),
    (memoryview(b"x"), "memoryview"),
    (Counter("aab"), "collections.Counter"),
    (defaultdict(int, a=1), "collections.defaultdict"),
    (OrderedDict(a=1), "collections.OrderedDict"),
    (deque([1]), "collections.deque"),
    (Point(1, 2), "Point"),
    (Colour.RED, "Colour"),
    (Level.LOW, "Level"),
    (Name.FIRST, "Name"),
    (float64(1.5), "float64"),
    (int64(), "int64"),
    (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "datetime.datetime"),
    (datetime.date(2026, 1, 2), "datetime.date"),
    (datetime.timedelta(1), "datetime.timedelta"),
    (decimal.Decimal("1.5"), "decimal.Decimal"),
    (fractions.Fraction(1, 2), "fractions.Fraction"),
    (1j, "complex"),
    (range(3), "range"),
    (pathlib.PurePosixPath("a"), "PurePosixPath"),
    (object(), "object"),
    (int, "type"),
    (ls.Folded(1, 2, 3, 4), "Folded"),
    ("\ud800", "a lone surrogate"),
    ("a\udfffb", "a lone surrogate"),
    ({"\ud800": 1}, "a lone surrogate"),
    ({1: "a"}, "the key 1 of type int"),
    ({None: "a"}, "the key None of type NoneType"),
    ({True: "a"}, "the key True of type bool"),
    ({10**5000: "a"}, "a key of type int"),
    ({Name.FIRST: "a"}, "of type Name"),
    ({("a", 1): "a"}, "of type tuple"),
]


@pytest.mark.parametrize(("value", "said"), _REFUSED, ids=[said for _, said in _REFUSED])
def test_h2_h4_h5_h6_refusals_name_the_place_and_the_type(value: Any, said: str) -> None:
    """H2, H4, H5, H6: refused at save with the path inside the state, whatever is around it."""
    with pytest.raises(ls.InvalidError) as caught:
        encode_state({"a": [{"b": value}, 1]})
    assert str(caught.value).startswith("state: $.a[0].b is ")
    assert said in str(caught.value)
    assert caught.value.argument == "state"
    if type(value) is not bytes:
        with pytest.raises(ls.InvalidError, match=r"^state: \$ is "):
            encode_state(value)


def test_h5_the_path_of_the_report() -> None:
    """H5: the smallest input of the report, as it is there."""
    with pytest.raises(ls.InvalidError, match=r"\$\.a\[0\]\.b is builtins\.object"):
        encode_state({"a": [{"b": object()}]})


def test_deep_and_cyclic_states_are_refused() -> None:
    """G8 for states: depth 10,000 is one typed error, no RecursionError."""
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(ls.InvalidError, match="nested deeper than 200"):
        encode_state(deep)
    cyclic: dict[str, Any] = {}
    cyclic["again"] = cyclic
    with pytest.raises(ls.InvalidError, match="nested deeper than 200"):
        encode_state(cyclic)
    fits: Any = 1
    for _ in range(200):
        fits = [fits]
    assert decode_state(encode_state(fits)) == fits


@pytest.mark.parametrize(
    "data", [b"[" * 10_000, b"[" * 10_000 + b"]" * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000]
)
def test_deep_bytes_are_one_typed_error(data: bytes) -> None:
    assert decodes(lambda: decode_state(data), ls.CodecError) is None
    with pytest.raises(ls.InvalidError, match="given as bytes, which must hold JSON"):
        encode_state(data)


@pytest.mark.parametrize(
    "data", [b"", b"nan", b"NaN", b"Infinity", b"1e999", b"{'a':1}", b"\xff", b'"\\ud800"', b"[1,]", b"1 2"]
)
def test_bytes_that_are_no_json_are_refused(data: bytes) -> None:
    with pytest.raises(ls.CodecError, match="state: not JSON"):
        decode_state(data)
    with pytest.raises(ls.InvalidError) as caught:
        encode_state(data)
    assert caught.value.argument == "state"
    # Also where a long number takes the standard library's parser, which would let some of them pass.
    with pytest.raises(ls.CodecError, match="state: not JSON"):
        decode_state(b"[10000000000000000000000," + data + b"]")


def test_bytes_that_hold_json_are_kept_as_they_are() -> None:
    for data in (b"10", b' {"a" : [1, 2.50, null] }\n', b'"x"'):
        assert encode_state(data) == data


@pytest.mark.parametrize(
    "value", [2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63), -(2**63) - 1, 10**40]
)
def test_whole_numbers_come_back_whole_however_long(value: int) -> None:
    """The parser alone turns 2**64 into a float without a word; a peer's snapshot may hold one."""
    for data in (b"%d" % value, b'{"a":[%d]}' % value):
        read = decode_state(data)
        read = read["a"][0] if isinstance(read, dict) else read
        assert type(read) is int
        assert read == value


def test_the_limit_of_digits_is_one_typed_error() -> None:
    assert decodes(lambda: decode_state(b"9" * 1_000_000), ls.CodecError) is None


@pytest.mark.parametrize("value", [0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e22, 1e16, 123456789012345680.0])
def test_floats_keep_every_bit(value: float) -> None:
    read = decode_state(encode_state(value))
    assert _same(read, value)
    assert math.copysign(1, read) == math.copysign(1, value)


@given(st.binary(max_size=40) | exact.map(lambda value: json.dumps(value).encode()), st.data())
@examples(400)
def test_any_bytes_give_a_value_or_one_typed_error(block: bytes, data: st.DataObject) -> None:
    if block and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(block) - 1))
        block = block[:at] + data.draw(st.binary(max_size=3)) + block[at + 1 :]
    decodes(lambda: decode_state(block), ls.CodecError)
