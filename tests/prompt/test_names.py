"""The public names of ``laser.prompt``."""

from __future__ import annotations

import inspect
import types

import laser.prompt as lp

PUBLIC = {name: getattr(lp, name) for name in lp.__all__}


def test_all_is_what_is_there() -> None:
    there = {
        name for name, value in vars(lp).items() if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(lp.__all__) == there
    assert len(lp.__all__) == len(there)


def test_every_public_class_and_function_is_documented() -> None:
    silent: list[str] = []
    for name, value in PUBLIC.items():
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if not (value.__doc__ or "").strip():
            silent.append(name)
        for member, held in vars(value).items() if inspect.isclass(value) else ():
            if not member.startswith("_") and (inspect.isfunction(held) or isinstance(held, property)):
                silent += [] if inspect.getdoc(held) else [f"{name}.{member}"]
    assert silent == []
