"""Whether a JSON value has the shape of an official client's type, to the last key."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import pydantic
from typing_extensions import ReadOnly, is_typeddict

__all__ = ["complaints"]


def complaints(value: Any, shape: Any, path: str = "$") -> list[str]:
    """What is wrong with a value; nothing when it fits. Keys that a type does not have are wrong too."""
    while get_origin(shape) in (Annotated, Required, NotRequired, ReadOnly):
        shape = get_args(shape)[0]
    origin = get_origin(shape)
    if shape is Any or shape is object:
        return []
    if origin in (Union, types.UnionType):
        return _any_of(value, get_args(shape), path)
    if origin is Literal:
        return [] if value in get_args(shape) else [f"{path}: {value!r} is none of {get_args(shape)}"]
    if is_typeddict(shape):
        return _fields(value, shape, path)
    if isinstance(shape, type) and issubclass(shape, pydantic.BaseModel):
        try:
            shape.model_validate(value)
        except pydantic.ValidationError as error:
            return [f"{path}: {error}"]
        return [f"{path}: not {key}" for key in value if key not in shape.model_fields]
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            return [f"{path}: no object"]
        return [found for key, item in value.items() for found in complaints(item, get_args(shape)[1], f"{path}.{key}")]
    if (origin is not None and isinstance(origin, type) and issubclass(origin, Iterable)) or _is_sequence(shape):
        if not isinstance(value, list):
            return [f"{path}: no list"]
        inner = get_args(shape)[0]
        return [found for place, item in enumerate(value) for found in complaints(item, inner, f"{path}[{place}]")]
    return _plain(value, shape, path)


def _is_sequence(shape: Any) -> bool:
    return getattr(get_origin(shape), "__name__", "") in ("SequenceNotStr", "Sequence") or get_origin(shape) is Sequence


def _plain(value: Any, shape: Any, path: str) -> list[str]:
    if shape in (None, types.NoneType):
        return [] if value is None else [f"{path}: not null"]
    if shape is float:
        shape = (int, float)
    if not isinstance(shape, type | tuple):
        return [f"{path}: no JSON has type {shape}"]
    fits = isinstance(value, shape) and (not isinstance(value, bool) or shape is bool)
    return [] if fits else [f"{path}: {value!r} is no {shape}"]


def _any_of(value: Any, shapes: Sequence[Any], path: str) -> list[str]:
    found = []
    for shape in shapes:
        said = complaints(value, shape, path)
        if not said:
            return []
        found.append(said)
    # Of many shapes the one that is nearest tells most.
    return min(found, key=lambda said: (max(0, 3 - max(one.count(".") + one.count("[") for one in said)), len(said)))


def _fields(value: Any, shape: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: no object"]
    hints = _hints(shape)
    found = [f"{path}: not {key}" for key in value if key not in hints]
    # The types' annotations are strings, of which __required_keys__ makes nothing.
    found += [
        f"{path}: needs {key}" for key, hint in hints.items() if get_origin(hint) is Required and key not in value
    ]
    for key, item in value.items():
        if key in hints:
            found += complaints(item, hints[key], f"{path}.{key}")
    return found


@cache
def _hints(shape: Any) -> dict[str, Any]:
    return typing.get_type_hints(shape, include_extras=True)
