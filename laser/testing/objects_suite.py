"""The conformance suite of the ``Objects`` port."""

from __future__ import annotations

import random
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import ClassVar

import anyio
import pytest

from laser.errors import ClosedError, InvalidError, NotFoundError
from laser.model.ids import new_conversation_id
from laser.ports.objects import Objects

__all__ = ["ObjectsConformance"]


def _key() -> str:
    return f"{secrets.token_hex(16)}/{new_conversation_id()}"


async def _chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


class ObjectsConformance(ABC):
    """Tests that an ``Objects`` of your own keeps the port's promises.

    Make a subclass whose name begins with ``Test``, say how to open your store, and run pytest with anyio's plugin, as
    for ``KeyValueConformance``. Objects that a test wrote are left behind.

    A subclass may also set:

    - ``shares_data = False``: a second ``open_objects`` in the same test does not see what the first one wrote.
    - ``large``: bytes of the largest object that is written.
    """

    pytestmark: ClassVar = pytest.mark.anyio

    shares_data: ClassVar[bool] = True
    large: ClassVar[int] = 20_000_000

    @abstractmethod
    def open_objects(self) -> AbstractAsyncContextManager[Objects]:
        """Opens the store under test, and closes it at the end."""

    async def test_what_was_put_is_got(self) -> None:
        async with self.open_objects() as store:
            key = _key()
            await store.put(key, _chunks(b"one", b"", b"two"))
            assert await store.get(key, 0, 6) == b"onetwo"

    async def test_ranges(self) -> None:
        async with self.open_objects() as store:
            key, data = _key(), bytes(range(256)) * 40
            await store.put(key, _chunks(data))
            for start, stop in ((0, 1), (5, 300), (10_239, 10_240), (0, 10_240)):
                assert await store.get(key, start, stop) == data[start:stop]

    async def test_a_large_object(self) -> None:
        data = random.Random(1).randbytes(self.large)
        pieces = [data[at : at + 999_983] for at in range(0, len(data), 999_983)]
        async with self.open_objects() as store:
            key = _key()
            await store.put(key, _chunks(*pieces))
            # Compared by truth: a failure must not print millions of bytes.
            same = await store.get(key, 0, len(data)) == data
            assert same
            assert await store.get(key, len(data) - 3, len(data)) == data[-3:]

    async def test_an_absent_object(self) -> None:
        async with self.open_objects() as store:
            with pytest.raises(NotFoundError):
                await store.get(_key(), 0, 1)
            await store.delete([_key(), _key()])
            await store.delete([])

    async def test_a_deleted_object_is_absent(self) -> None:
        async with self.open_objects() as store:
            keys = [_key() for _ in range(3)]
            for key in keys:
                await store.put(key, _chunks(b"data"))
            await store.delete([keys[0], _key(), keys[1]])
            for key in keys[:2]:
                with pytest.raises(NotFoundError):
                    await store.get(key, 0, 4)
            assert await store.get(keys[2], 0, 4) == b"data"

    @pytest.mark.parametrize("before", [0, 1, 30])
    async def test_an_interrupted_put_leaves_nothing(self, before: int) -> None:
        async def broken() -> AsyncIterator[bytes]:
            for _ in range(before):
                yield bytes(500_000)
            raise ValueError("the source broke")

        async with self.open_objects() as store:
            key = _key()
            with pytest.raises(ValueError, match="the source broke"):
                await store.put(key, broken())
            with pytest.raises(NotFoundError):
                await store.get(key, 0, 1)

    @pytest.mark.parametrize("before", [0, 1, 30])
    async def test_a_cancelled_put_leaves_nothing(self, before: int) -> None:
        key = _key()
        returned: list[bool] = []
        async with self.open_objects() as store:
            async with anyio.create_task_group() as tasks:

                async def endless() -> AsyncIterator[bytes]:
                    for _ in range(before):
                        yield bytes(500_000)
                    tasks.cancel_scope.cancel()
                    await anyio.sleep_forever()
                    yield b""

                async def put() -> None:
                    await store.put(key, endless())
                    returned.append(True)

                tasks.start_soon(put)
            assert not returned
            with pytest.raises(NotFoundError):
                await store.get(key, 0, 1)
            await store.put(_key(), _chunks(b"still usable"))

    async def test_many_at_once(self) -> None:
        async with self.open_objects() as store:
            wanted = {_key(): b"%d" % number * 1_000 for number in range(24)}

            async def put(key: str, data: bytes) -> None:
                await store.put(key, _chunks(data))
                assert await store.get(key, 0, len(data)) == data

            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    for key, data in wanted.items():
                        tasks.start_soon(put, key, data)

    @pytest.mark.parametrize(
        "key",
        ["", "a", "../../etc/passwd", "/etc/passwd", "a" * 32 + "/../x", "a" * 32 + "/" + "0" * 25 + "\0", "A" * 59],
    )
    async def test_other_names_are_refused(self, key: str) -> None:
        async with self.open_objects() as store:
            for call in (
                lambda: store.put(key, _chunks(b"x")),
                lambda: store.get(key, 0, 1),
                lambda: store.delete([key]),
            ):
                with pytest.raises(InvalidError):
                    await call()

    async def test_objects_outlive_the_client(self) -> None:
        if not self.shares_data:
            pytest.skip("the store's data go with it")
        key = _key()
        async with self.open_objects() as store:
            await store.put(key, _chunks(b"data"))
        async with self.open_objects() as store:
            assert await store.get(key, 0, 4) == b"data"

    async def test_a_closed_store_says_so(self) -> None:
        async with self.open_objects() as store:
            await store.aclose()
            await store.aclose()
            for call in (
                lambda: store.put(_key(), _chunks(b"x")),
                lambda: store.get(_key(), 0, 1),
                lambda: store.delete([_key()]),
            ):
                with pytest.raises(ClosedError):
                    await call()
