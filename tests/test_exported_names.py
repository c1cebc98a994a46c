"""The public API: every name that is there is exported, documented, and keeps secrets."""

from __future__ import annotations

import inspect
import socket
import subprocess
import sys
import traceback
import types
from collections.abc import Iterator

import pytest

import laser as ls
from laser import _rooms

PUBLIC = {name: getattr(ls, name) for name in ls.__all__}


def test_all_is_what_is_there() -> None:
    there = {
        name for name, value in vars(ls).items() if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    there.update(_rooms.__all__)
    assert set(ls.__all__) == there
    assert len(ls.__all__) == len(there)


def test_an_import_leaves_the_rooms_alone() -> None:
    """They are imported when something of them is first asked for."""
    rooms = ("compaction", "graph", "memory", "models", "prompt", "workspace")
    asks = f"import sys, laser; print([room for room in {rooms} if f'laser.{{room}}' in sys.modules]); laser.Workspaces"
    done = subprocess.run([sys.executable, "-c", asks], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ls.nothing  # type: ignore[attr-defined]  # noqa: B018 - it is looked up


def test_all_is_sorted() -> None:
    def place(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2), name

    assert list(ls.__all__) == sorted(ls.__all__, key=place)


def _documented() -> Iterator[tuple[str, object]]:
    for name, value in PUBLIC.items():
        if inspect.isclass(value):
            yield name, value
            # With what it inherits from a part of its own, such as the topics of a client.
            parts = [part for part in value.__mro__ if part.__module__.startswith("laser.")]
            for member, held in ((name, held) for part in parts for name, held in vars(part).items()):
                plain = held.__func__ if isinstance(held, staticmethod | classmethod) else held
                if not member.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
                    yield f"{name}.{member}", plain
        elif inspect.isfunction(value):
            yield name, value


# What a policy's members mean is said once, at the interface.
_POLICY_MEMBERS = {"name", "version", "selection"}


def test_every_public_class_and_function_is_documented() -> None:
    silent = [
        name
        for name, value in _documented()
        if not inspect.getdoc(value) and name.rpartition(".")[2] not in _POLICY_MEMBERS
    ]
    assert silent == []
    assert all(inspect.getdoc(getattr(ls.ContextPolicy, member)) for member in ("name", "version", "selection"))


def test_public_classes_have_docstrings_of_their_own() -> None:
    inherited = [name for name, value in PUBLIC.items() if inspect.isclass(value) and not (value.__doc__ or "").strip()]
    assert inherited == []


def test_errors_are_one_tree_with_retryable() -> None:
    errors = [value for value in PUBLIC.values() if inspect.isclass(value) and issubclass(value, Exception)]
    assert len(errors) > 15
    assert all(issubclass(error, ls.LaserError) for error in errors)
    assert all(isinstance(error.retryable, bool) for error in errors)
    tree = inspect.getdoc(inspect.getmodule(ls.LaserError)) or ""
    assert all(error.__name__ in tree for error in errors)


USER, PASSWORD = "canary-user-5d1f", "canary-password-77aa"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_no_password_shows_in_a_repr_an_error_or_a_traceback() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    urls = [
        f"iggy://{USER}:{PASSWORD}@{address}",
        f"{USER}:{PASSWORD}@{address}",
        f"iggy://{USER}:{PASSWORD}@{address}?no_such_option={PASSWORD}",
        f"iggy://{USER}:{PASSWORD}@",
        f"iggy://{PASSWORD}",
        f"igy://{USER}:{PASSWORD}@{address}",
        f"{PASSWORD}",
        f"memory:{PASSWORD}",
    ]
    for url in urls:
        connecting = ls.Laser.connect(url, timeout=0.3)
        said = [repr(connecting), str(connecting)]
        with pytest.raises(ls.LaserError) as caught:
            await connecting
        error: BaseException | None = caught.value
        said.append("".join(traceback.format_exception(caught.value)))
        while error is not None:
            said += [repr(error), str(error), repr(vars(error))]
            error = error.__cause__ or error.__context__
        assert PASSWORD not in "\n".join(said), url
