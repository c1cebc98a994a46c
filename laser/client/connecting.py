"""A connection to be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laser.client.laser import Laser

__all__ = ["Connecting"]


class Connecting:
    """A connection to be: ``await`` gives a ``Laser``; ``async with`` gives one and closes it."""

    def __init__(self, connect: Callable[[], Awaitable[Laser]]) -> None:
        self._connect = connect
        self._laser: Laser | None = None

    def __await__(self) -> Generator[Any, None, Laser]:
        return self._connect().__await__()

    async def __aenter__(self) -> Laser:
        self._laser = await self._connect()
        return self._laser

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._laser is not None:
            await self._laser.aclose()
