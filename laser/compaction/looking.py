"""What the log says of one session: its rows, what strategies saved of it, and which one was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from laser.compaction.events import Event, Saved, Switched
from laser.compaction.lcm.copying import copy_nodes
from laser.compaction.registry import StrategyRegistry
from laser.compaction.requests import Request
from laser.compaction.saved import UNCHOSEN, SavedState
from laser.compaction.sizes import Estimator
from laser.compaction.strategy import CompactionStrategy
from laser.compaction.transcript import History, Transcript
from laser.compaction.view import CompactionView
from laser.context.connection import Connection
from laser.errors import NotFoundError
from laser.session.status import read_status

__all__ = ["SessionLook"]


class SessionLook:
    """One session as this process knows it, brought up to date by ``read``. One look at the log at a time.

    Attributes:
        session: its id. registry, estimator: as given. transcript, saved: of the last look.
        memo: what is remembered between looks.
    """

    def __init__(
        self,
        laser: Connection,
        session: str,
        registry: StrategyRegistry,
        estimator: Estimator,
        agent: str | None,
        repairs: Mapping[str, str] | None,
        inherit: bool,
    ) -> None:
        self._laser = laser
        self._agent = agent
        self._inherits = inherit
        self._looking = anyio.Lock()
        self.session = session
        self.registry = registry
        self.estimator = estimator
        self.transcript = Transcript(laser, session, estimator, repairs)
        self.saved = SavedState(laser, session, agent)
        self.memo: dict[Any, Any] = {}

    async def for_tools(self) -> tuple[History, Sequence[Saved], dict[Any, Any]]:
        """The transcript, what ``lcm`` saved, and the memo: for the tools."""
        await self.read()
        return self.transcript.history, tuple(self.saved.records("lcm")), self.memo

    async def read(self) -> None:
        """Takes what is new on the log."""
        async with self._looking:
            before = self.transcript.began, self.saved.began
            await self.transcript.catch_up()
            await self.saved.catch_up()
            if self._inherits:
                await self._inherit()
            if (self.transcript.began, self.saved.began) != before:
                # The log is another one than was remembered of.
                self.memo.clear()

    async def _inherit(self) -> None:
        """Takes a fork's part of the nodes that its session's past has, before anything is done to the fork itself."""
        if not self.saved.steps:
            try:
                origin = (await read_status(self._laser, self.session)).origin
            except NotFoundError:
                origin = None  # a conversation that is no session
            if origin is not None and await copy_nodes(self._laser, origin.session, self.session, agent=self._agent):
                await self.saved.catch_up()
        self._inherits = False

    async def append(self, event: Event) -> bool:
        """Writes an event, and says whether it counts."""
        async with self._looking:
            return await self.saved.append(event)

    async def current(self) -> str | None:
        """The name of the session's strategy, with what is new on the log."""
        await self.read()
        return self.chosen()

    def chosen(self) -> str | None:
        """The name of the session's strategy as of the last look."""
        return self.registry.default if self.saved.chosen == UNCHOSEN else self.saved.chosen

    async def switch(self, strategy: str | None) -> None:
        """Chooses the session's strategy, where it is another one."""
        await self.read()
        if self.saved.chosen != strategy:
            await self.append(Switched(strategy))

    def view(self, strategy: CompactionStrategy, request: Request) -> CompactionView:
        """The session as a strategy sees it, as of the last look."""
        return CompactionView(
            self.session,
            strategy,
            self.transcript.history,
            self.saved.records,
            request,
            self.registry.providers,
            self.estimator,
            self.memo,
        )
