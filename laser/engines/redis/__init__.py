"""The Redis engine: a ``KeyValue`` on Redis or Valkey."""

from laser.engines.redis.opening import open_redis_kv

__all__ = ["open_redis_kv"]
