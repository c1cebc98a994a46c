"""JSON that comes back as the provider wrote it: the same keys in the same order, the same numbers to the last digit.

Written without blanks, as UTF-8. Numbers that a Python value would change (``1.10``, ``1E5``, 30 digits) keep their
letters. Halves of surrogate pairs, which UTF-8 cannot hold and no provider takes back, are joined where both halves
are there; else each becomes U+FFFD and is counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from laser.errors import CodecError, InvalidError

__all__ = ["copy_json", "read_json", "settle", "write_argument", "write_text"]

# What orjson would read as another number than was written; letters in texts may look the same, which costs time only.
_DELICATE: Final = re.compile(rb"[0-9]{18}|[0-9][.eE]|-0")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MAX_DEPTH: Final = 200


def read_json(data: bytes) -> Any:
    """What JSON bytes say. Numbers that Python would change come as ``orjson.Fragment`` of their letters.

    Raises:
        CodecError: not JSON in UTF-8, or nested too deeply.
    """
    try:
        if _DELICATE.search(data) is None:
            return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass  # halves of surrogate pairs, which only the slower reader takes
    try:
        return json.loads(data.decode(), parse_float=_fraction, parse_int=_whole, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {str(error)[:200]}") from error


def settle(value: Any) -> tuple[Any, bytes, int]:
    """A read value as it can be stored: the value, its bytes, and how many half characters became U+FFFD.

    Raises:
        CodecError: it is nested too deeply.
    """
    try:
        return value, orjson.dumps(value), 0
    except (TypeError, orjson.JSONEncodeError):
        pass
    lost = [0]
    try:
        value = _mend(value, lost)
        return value, orjson.dumps(value), lost[0]
    except (TypeError, RecursionError, orjson.JSONEncodeError) as error:
        raise CodecError(f"cannot be kept as JSON: {str(error)[:200]}") from error


def write_argument(value: object, argument: str) -> bytes:
    """The JSON of a caller's value.

    Raises:
        InvalidError: it holds something that JSON does not have, naming the place.
    """
    _check(value, argument, argument, 0)
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError) as error:
        raise InvalidError(f"{argument}: {error}", argument=argument) from error


def copy_json(value: object, argument: str) -> Any:
    """A caller's JSON value as ``read_json`` would give it, sharing nothing with it.

    Raises:
        InvalidError: it holds something that JSON does not have, naming the place.
    """
    _check(value, argument, argument, 0)
    try:
        return read_json(json.dumps(value, separators=(",", ":")).encode())
    except (TypeError, ValueError) as error:
        raise InvalidError(f"{argument}: {str(error)[:200]}", argument=argument) from error


def write_text(text: str) -> bytes:
    """A text as a JSON string, with its quotes."""
    return orjson.dumps(text)


def _fraction(letters: str) -> Any:
    number = float(letters)
    return number if orjson.dumps(number) == letters.encode() else orjson.Fragment(letters.encode())


def _whole(letters: str) -> Any:
    return orjson.Fragment(letters.encode()) if len(letters) > 18 or letters == "-0" else int(letters)


def _constant(letters: str) -> Any:
    raise ValueError(f"{letters} is no JSON")


def _mend(value: Any, lost: list[int]) -> Any:
    if isinstance(value, str):
        if _SURROGATE.search(value) is None:
            return value
        joined = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        lost[0] += joined.count("\ufffd") - value.count("\ufffd")
        return joined
    if isinstance(value, dict):
        return {_mend(key, lost): _mend(item, lost) for key, item in value.items()}
    if isinstance(value, list):
        return [_mend(item, lost) for item in value]
    return value


def _check(value: object, path: str, argument: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise InvalidError(f"{argument}: nested more than {_MAX_DEPTH} deep", argument=argument)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidError(f"{path}: a key is {type(key).__name__}; keys must be str", argument=argument)
            _check(item, f"{path}.{key}", argument, depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", argument, depth + 1)
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise InvalidError(f"{path}: {value} is not JSON", argument=argument)
    elif value is not None and not isinstance(value, str | int):
        raise InvalidError(f"{path}: {type(value).__name__} is not JSON", argument=argument)
