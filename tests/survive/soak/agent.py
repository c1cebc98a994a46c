"""What the agents of a soak share: calls that are timed, appends until known, and notes of what must not be seen."""

from __future__ import annotations

import json
import os
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

import laser as ls
from tests.survive.histories import TOPIC

__all__ = ["PATIENCE", "TOPICS", "Soak", "collect", "say"]

TOPICS: Final = [TOPIC]
PATIENCE: Final = 60.0
"""Seconds after which something that has no deadline of its own counts as hanging."""

# Beside its deadline a call may take a moment to be noticed by a machine that does other things too.
_GRACE: Final = 8.0


def say(*values: object) -> None:
    """One line for the process that started this one."""
    os.write(1, json.dumps(values).encode() + b"\n")


def collect(texts: list[str], message: ls.ContextMessage) -> list[str]:
    """The fold: all texts."""
    texts.append(message.text)
    return texts


class Soak:
    """One soak of one log, as its agents see it. It keeps nothing of what is behind it: what grows is not its own.

    Args:
        pause: the longest wait of a writer between two messages, seconds.
        life: seconds after which an agent closes its client, connects anew and begins another conversation.
        timeout: of the clients, seconds. cache: of the clients, bytes; ``None`` for what is usual.

    Attributes:
        until: when it is to end, monotonic seconds.
        counts: calls, lives, typed errors, hangs, and what must not be seen. seen: what that was, in words.
        longest: the longest call that has a deadline, seconds.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        seed: int,
        *,
        pause: float,
        life: float,
        timeout: float,
        cache: int | None,
    ) -> None:
        self._url = url
        self._stream = stream
        self.seed = seed
        self.until = time.monotonic()
        self.pause = pause
        self.life = life
        self._timeout = timeout
        self._cache = cache
        self.counts: Counter[str] = Counter()
        self.seen: deque[str] = deque(maxlen=20)
        self.longest = 0.0

    @property
    def over(self) -> bool:
        """Whether it is time to end."""
        return time.monotonic() > self.until

    async def connect(self) -> ls.Laser:
        """A client of an agent's own."""
        return await ls.Laser.connect(self._url, stream=self._stream, cache=self._cache, timeout=self._timeout)

    async def call(self, work: Callable[[], Awaitable[Any]], *, limit: float | None = None) -> Any:
        """What a call gives, or the error that it ended with.

        Args:
            limit: seconds after which it counts as hanging; ``None`` for a call that the client's deadline holds for.
        """
        began = time.monotonic()
        allowed = (limit or self._timeout) + _GRACE
        self.counts["calls"] += 1
        try:
            with anyio.fail_after(allowed):
                return await work()
        except ls.LaserError as error:
            self.counts["typed errors"] += 1
            if isinstance(error, ls.StaleCheckpointError | ls.RetentionGapError):
                self.see("false alarms", f"{error}")
            return error
        except Exception as error:
            if time.monotonic() < began + allowed:
                self.see("other errors", f"{type(error).__name__}: {error}")
            return error
        finally:
            took = time.monotonic() - began
            if limit is None:
                self.longest = max(self.longest, took)
            if took >= allowed:
                self.see("hangs", f"a call took {took:.1f} s")

    async def insist(self, work: Callable[[], Awaitable[Any]], *, limit: float | None = None) -> Any:
        """What a call gives, tried until it gives something; ``None`` when it does not for a long time."""
        give_up = time.monotonic() + PATIENCE
        while True:
            result = await self.call(work, limit=limit)
            if not isinstance(result, Exception):
                return result
            if time.monotonic() > give_up:
                self.see("hangs", f"no way through for {PATIENCE} s: {result}")
                return None
            await anyio.sleep(0.1)

    async def append(self, scope: ls.ContextScope, agent: str, value: str, record_id: int | None = None) -> bool:
        """Appends until it is known to be there. Returns whether it is."""
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            known = record_id
            result = await self.call(lambda known=known: scope.append(TOPIC, value, id=known))  # type: ignore[misc]
            if isinstance(result, ls.AppendReceipt):
                self.acknowledged(agent, value, result)
                return True
            if isinstance(result, ls.AppendIndeterminateError):
                record_id = result.record_ids[0]
            await anyio.sleep(0.05)
        self.see("hangs", f"{value} could not be appended for {PATIENCE} s")
        return False

    def begins(self, agent: str, scope: ls.ContextScope, value: str) -> None:
        """Tells that a message is about to be written."""
        say("begin", agent, scope.conversation, value, time.monotonic_ns())

    def acknowledged(self, agent: str, value: str, receipt: ls.AppendReceipt) -> None:
        """Tells that a message is there."""
        say("done", agent, value, receipt.partition, receipt.offset, time.monotonic_ns())

    def see(self, what: str, words: str) -> None:
        """Notes what must not be seen."""
        self.counts[what] += 1
        self.seen.append(f"{what}: {words}")
