"""Folded state as JSON: exact, or refused with the place inside the state.

What comes back from a snapshot must be what was folded, so a value that JSON would change is refused at save:

- kept: ``dict`` with text keys, ``list``, ``str``, ``bool``, ``None``, finite ``float``, ``int`` from -2**63 to
  2**64 - 1 (what readers in other languages hold);
- refused: NaN and infinities, larger integers, keys that are no text, tuples, sets, bytes, dates, decimals, lone
  surrogates, and subclasses of the kept types such as ``Counter``, ``defaultdict`` or an enum.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

import orjson

from laser.errors import CodecError, InvalidError

__all__ = ["decode_state", "encode_state"]

_MAX_DEPTH: Final = 200
_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**64 - 1
# orjson reads an integer of 2**64 and more as a float, without a word; the standard library keeps it.
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")


def encode_state(state: object) -> bytes:
    """The JSON bytes of a state. ``bytes`` are taken as JSON already and checked.

    Raises:
        InvalidError: the state cannot be kept exactly; the message gives the path, such as ``$.a[0].b``, and type.
    """
    if isinstance(state, bytes):
        try:
            decode_state(state)
        except CodecError as error:
            raise InvalidError(f"state: given as bytes, which must hold JSON: {error}", argument="state") from error
        return state
    _check(state, "$", 0)
    try:
        return orjson.dumps(state)
    except (TypeError, orjson.JSONEncodeError) as error:
        raise InvalidError(f"state: {error}", argument="state") from error


def decode_state(data: bytes) -> Any:
    """The state that JSON bytes hold. Whole numbers come back as they were written, however long.

    Raises:
        CodecError: not JSON, which has no NaN and no infinity.
    """
    try:
        value = orjson.loads(data)
        # json takes more than JSON is, so it comes second.
        return value if _LONG_NUMBER.search(data) is None else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"state: not JSON: {str(error)[:200]}") from error


def _check(value: object, path: str, depth: int) -> None:
    kind = type(value)
    if value is None or kind is bool:
        return
    if kind is str:
        _check_text(value, path)  # type: ignore[arg-type]
    elif kind is int:
        if not _MIN_INT <= value <= _MAX_INT:  # type: ignore[operator]
            _refuse(path, "an int that 64 bits cannot hold; keep it as text")
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            _refuse(path, f"{value}, which JSON cannot hold; keep None or text")
    elif kind is dict or kind is list:
        if depth == _MAX_DEPTH:
            _refuse(path, f"nested deeper than {_MAX_DEPTH}")
        if kind is list:
            for index, item in enumerate(value):  # type: ignore[var-annotated, arg-type]
                _check(item, f"{path}[{index}]", depth + 1)
        else:
            for key, item in value.items():  # type: ignore[attr-defined]
                if type(key) is not str:
                    _refuse(path, f"a dict with {_key_shown(key)} of type {type(key).__name__}; keys must be str")
                _check_text(key, path)
                _check(item, f"{path}.{key}", depth + 1)
    else:
        _refuse(path, f"{kind.__module__}.{kind.__qualname__}, which JSON would not give back as it is")


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(path, "text with a lone surrogate, which UTF-8 cannot hold")


def _key_shown(key: object) -> str:
    # The text of any other key may be long, slow or, for an int of thousands of digits, not to be had.
    plain = key is None or type(key) is bool or (type(key) is int and _MIN_INT <= key <= _MAX_INT)
    return f"the key {key}" if plain else "a key"


def _refuse(path: str, what: str) -> NoReturn:
    raise InvalidError(f"state: {path[:200]} is {what}", argument="state")
