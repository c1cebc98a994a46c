"""What servers of tests have in common: ``with`` and ``async with`` start them, and end them whatever happens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

from anyio import CancelScope, to_thread

__all__ = ["Lifetime", "uncancelled"]


class Lifetime(ABC):
    """Something that is started and closed by calls that block."""

    @abstractmethod
    def start_blocking(self) -> None:
        """``start`` for callers without an event loop."""

    @abstractmethod
    def close_blocking(self) -> None:
        """``close`` for callers without an event loop."""

    async def start(self) -> None:
        """Starts it and returns when it is ready: on the port and with the data of an earlier run.

        Raises:
            RuntimeError: it was not ready in time; the end of its log is in the text.
        """
        await uncancelled(self.start_blocking)

    async def close(self) -> None:
        """Ends it and removes its directory, if that was its own."""
        await uncancelled(self.close_blocking)

    async def __aenter__(self) -> Self:
        await uncancelled(self.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        try:
            self.start_blocking()
        except BaseException:
            self.close_blocking()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_blocking()


async def uncancelled(work: Callable[[], object]) -> None:
    """Does some work in a thread, to its end: half a start or stop would leave a process behind."""
    with CancelScope(shield=True):
        await to_thread.run_sync(work)
