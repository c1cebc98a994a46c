"""The log on Apache Iggy, one node or a cluster. Only this package imports ``apache_iggy``."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from laser.engines.iggy.config import IggyConfig
from laser.engines.iggy.url import parse_iggy_url

if TYPE_CHECKING:
    from laser.engines.iggy.log import IggyLog

__all__ = ["IggyConfig", "find_primary", "open_iggy_log", "parse_iggy_url"]


async def open_iggy_log(config: IggyConfig, *, timeout: float) -> IggyLog:
    """Connects to a server or cluster.

    Args:
        timeout: seconds that each call of the log may take in all, and this one.

    Raises:
        UnsupportedError: the event loop is not asyncio.
        DisconnectedError: no address answers. AuthenticationError: the login was refused.
        ConfigError: the TLS settings do not work.
    """
    # The driver is a large native library: a URL can be parsed, and refused, without it.
    from laser.engines.iggy.log import open_iggy_log as open_log

    return await open_log(config, timeout=timeout)


async def find_primary(config: IggyConfig, *, timeout: float, among: Collection[str] = ()) -> str:
    """The ``host:port`` of a cluster's primary; see ``laser.engines.iggy.primary``."""
    from laser.engines.iggy.primary import find_primary as find

    return await find(config, timeout=timeout, among=among)
