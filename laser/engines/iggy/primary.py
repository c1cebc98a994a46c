"""Which node of a cluster is the primary."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from laser.engines.iggy.config import IggyConfig
from laser.engines.iggy.links import Links
from laser.errors import DeadlineError, DisconnectedError

__all__ = ["find_primary"]

_LOOK_SECONDS: Final = 0.1


async def find_primary(config: IggyConfig, *, timeout: float, among: Collection[str] = ()) -> str:
    """The ``host:port`` of the node that takes the writes, as the cluster announces it.

    Args:
        timeout: seconds to wait until there is one. among: nodes that it must be one of; any when empty.

    Raises:
        DeadlineError: there was none in time. DisconnectedError, AuthenticationError: as ``open_iggy_log``.
    """
    links = Links(config, timeout)
    deadline = links.deadline()
    try:
        while True:
            try:
                nodes = await links.roster(deadline)
            except DisconnectedError as error:
                raise DeadlineError(f"no primary within {timeout:g} s: {error}", seconds=timeout) from error
            for node in nodes:
                if node.is_primary and (not among or node.address in among):
                    return node.address
            if links.loop.time() + _LOOK_SECONDS >= deadline:
                raise DeadlineError(f"the nodes named no primary within {timeout:g} s", seconds=timeout)
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        await links.close()
