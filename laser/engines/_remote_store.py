"""What every store on a server is beside its own methods: it ends with its connections."""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Self

from laser.engines._remote import C, Driver, Remote

__all__ = ["RemoteStore"]


class RemoteStore(Generic[C]):
    """A store that works through the connections of one driver.

    Args:
        address: where it is, without credentials. timeout: seconds that a call may take.
    """

    def __init__(self, driver: Driver[C], address: str, timeout: float) -> None:
        self._remote: Remote[C] = Remote(driver, timeout)
        self._address = address

    async def aclose(self) -> None:
        """Closes the connections. Calls under way end first, each by its deadline."""
        await self._remote.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._address}{' closed' if self._remote.closed else ''}>"

    def __del__(self) -> None:
        remote = getattr(self, "_remote", None)
        if remote is not None:
            remote.forget(self)
