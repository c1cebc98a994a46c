"""Namespaces are apart."""

from __future__ import annotations

from itertools import product
from typing import Final

from laser.errors import ConflictError
from laser.limits import MAX_KV_NAMESPACE_BYTES
from laser.ports.kv import ABSENT
from laser.testing.kv_cases.base import KvCases

__all__ = ["NamespaceCases"]

# Some begin with others, some hold what a store may use as a separator, some differ to a careful comparison only.
_TAILS: Final = ("", "1", "10", ":", ":1", "/", "}", "{", "}{", "\0", "%", "%3A", "_", "\\", "é", "e\u0301", "A", "a")
_BEGINNINGS: Final = ("a", "a:", "a:b", "a\0", "a\0b", "ab", "a}")
_ENDS: Final = ("b", ":b", "\0b", "b:c", "c", "}b", ":v:b")


class NamespaceCases(KvCases):
    """No operation on one namespace touches or shows another."""

    async def test_every_operation_keeps_to_its_namespace(self) -> None:
        async with self.place() as place:
            places = [place.beside(place.namespace + tail) for tail in _TAILS]
            for number, one in enumerate(places):
                await one.set("key", b"%d" % number, expect=ABSENT)
                await one.set(f"only-{number}")
            for number, one in enumerate(places):
                assert await one.value("key") == b"%d" % number
                assert await one.keys() == ["key", f"only-{number}"]
            gone = places[::2]
            for one in gone:
                assert await one.delete("key") is True
            for number, one in enumerate(places):
                assert await one.value("key") == (None if one in gone else b"%d" % number)

    async def test_namespace_and_key_do_not_run_into_each_other(self) -> None:
        async with self.place() as place:
            for begin, key in product(_BEGINNINGS, _ENDS):
                await place.beside(place.namespace + begin).set(key, f"{begin}|{key}".encode(), expect=ABSENT)
            for begin, key in product(_BEGINNINGS, _ENDS):
                found = await place.beside(place.namespace + begin).value(key)
                assert found == f"{begin}|{key}".encode()

    async def test_a_version_of_one_namespace_means_nothing_to_another(self) -> None:
        async with self.place() as place:
            other = place.beside(place.namespace + "1")
            version = await place.set("key")
            for call in (other.set("key", expect=version), other.delete("key", expect=version)):
                try:
                    await call
                except ConflictError:
                    continue
                raise AssertionError("nothing is there, so no version of it may be expected")
            assert await other.get("key") is None

    async def test_the_longest_namespace(self) -> None:
        async with self.place() as place:
            room = (MAX_KV_NAMESPACE_BYTES - len(place.namespace)) // 2
            long = place.beside(place.namespace + "é" * room)
            await long.set("k" * 512, b"long")
            assert await long.value("k" * 512) == b"long"
            assert await place.beside(long.namespace[:-1]).keys() == []
            assert len(await long.keys()) == 1
