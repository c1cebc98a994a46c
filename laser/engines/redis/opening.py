"""Opening a Redis store; the driver is looked for only here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laser.engines.redis.config import parse_redis_url
from laser.errors import ConfigError

if TYPE_CHECKING:
    from laser.engines.redis.kv import RedisKeyValue

__all__ = ["open_redis_kv"]


async def open_redis_kv(url: str, *, timeout: float = 30.0) -> RedisKeyValue:
    """Connects to a key-value store on Redis 5 or newer, or Valkey.

    Args:
        url: see ``parse_redis_url``.
        timeout: seconds that a call may take before it ends with ``DeadlineError``.

    Raises:
        ConfigError: the URL has another form, or the driver is not installed.
        DisconnectedError, AuthenticationError, DeadlineError, TransportError: there is no usable server.
    """
    config = parse_redis_url(url)
    try:
        from laser.engines.redis.kv import RedisKeyValue
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        raise ConfigError(
            "kv: redis:// needs the driver; install it with: pip install 'laser-context[redis]'"
        ) from error
    store = RedisKeyValue(config, timeout=timeout)
    try:
        await store.check()
    except BaseException:
        await store.aclose()
        raise
    return store
