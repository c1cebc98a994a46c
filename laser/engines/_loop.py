"""The event loop and process that an engine belongs to."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from anyio.lowlevel import current_token

from laser.errors import ClosedError

__all__ = ["HomeLoop"]


class HomeLoop:
    """The loop that an engine was opened in, and the way back into it from a thread.

    Args:
        what: the engine in words, for error texts.
    """

    def __init__(self, what: str) -> None:
        token = current_token()
        native: Any = token.native_token
        self._what = what
        self._pid = os.getpid()
        self._native = native
        self._current: Callable[[], object] = token.backend_class.current_token
        self._post: Callable[..., object] = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon

    @property
    def forked(self) -> bool:
        """Whether this is a child process, forked after the engine was opened."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Makes sure that the caller runs where the engine was opened.

        Raises:
            ClosedError: in a forked child, or in another event loop.
        """
        if self.forked:
            raise ClosedError(
                f"{self._what} was opened in process {self._pid}, before this process was forked from it: "
                "open a new one in each process"
            )
        try:
            here = self._current()
        except RuntimeError:  # a loop of the other kind, or none
            here = None
        if here is not self._native:
            raise ClosedError(f"{self._what} belongs to another event loop: open one in each loop that uses it")

    def post(self, call: Callable[..., object], *args: object) -> None:
        """Has the loop call something soon. May be called from any thread; does nothing once the loop has ended."""
        try:
            self._post(call, *args)
        except RuntimeError:
            # asyncio's "Event loop is closed", trio's RunFinishedError: nobody is left to tell.
            return
