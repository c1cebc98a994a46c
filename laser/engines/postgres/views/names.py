"""Names of memory's view as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from laser.engines.postgres.driver import Connection
from laser.engines.postgres.views.positions import Place
from laser.model.memory import MemoryOwner

__all__ = [
    "AGENT", "APP", "CONV", "MODEL", "NS", "USER", "find_names", "make_names", "place_number",
    "scope_of",
]  # fmt: skip

_PLACE: Final = 0
NS: Final = 1
CONV: Final = 2
AGENT: Final = 3
USER: Final = 4
APP: Final = 5
MODEL: Final = 6

Name = tuple[int, str]
"""Kind and name."""

_FIND: Final = """
SELECT n.kind, n.name, n.id FROM unnest(%s::int[], %s::bytea[]) AS asked(kind, name)
JOIN laser.memory_names n ON n.kind = asked.kind AND n.place = %s AND n.name = asked.name
"""
_MAKE: Final = """
INSERT INTO laser.memory_names (kind, place, name)
SELECT asked.kind, %s, asked.name FROM unnest(%s::int[], %s::bytea[]) AS asked(kind, name) ON CONFLICT DO NOTHING
"""


def place_number(connection: Connection, place: Place, *, make: bool) -> int | None:
    """The number of a place; ``None`` for one that is not known and not to be made."""
    # The stream's length keeps "a/b" and "c" from being "a" and "b/c".
    name = (_PLACE, f"{len(place[0])}/{place[0]}/{place[1]}")
    found = (make_names if make else find_names)(connection, 0, [name])
    return found.get(name)


def find_names(connection: Connection, place: int, names: Iterable[Name]) -> dict[Name, int]:
    """The numbers of those names that are known."""
    asked = list(dict.fromkeys(names))
    values = ([kind for kind, _ in asked], [name.encode() for _, name in asked], place)
    return {(kind, name.decode()): number for kind, name, number in connection.execute(_FIND, values)}


def make_names(connection: Connection, place: int, names: Iterable[Name]) -> dict[Name, int]:
    """The numbers of names, made where they are new."""
    asked = list(dict.fromkeys(names))
    found = find_names(connection, place, asked)
    new = [name for name in asked if name not in found]
    if new:
        connection.execute(_MAKE, (place, [kind for kind, _ in new], [name.encode() for _, name in new]))
        found |= find_names(connection, place, new)
    return found


def scope_of(connection: Connection, place: Place, owner: MemoryOwner) -> Mapping[str, int] | None:
    """The columns that select an owner's items, the namespace's first; ``None`` when there can be none."""
    number = place_number(connection, place, make=False)
    if number is None:
        return None
    named = {
        column: (kind, name)
        for column, kind, name in (
            ("ns", NS, owner.namespace),
            ("conv", CONV, owner.conversation),
            ("agent", AGENT, owner.agent),
            ("usr", USER, owner.user),
            ("app", APP, owner.app),
        )
        if name is not None
    }
    found = find_names(connection, number, named.values())
    if len(found) < len(set(named.values())):
        return None
    return {column: found[name] for column, name in named.items()}
