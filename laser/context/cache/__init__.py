"""The read-through cache of a client: what was read from a remote log, kept and checked at every read."""

from laser.context.cache.cached_log import CachedLog

__all__ = ["CachedLog"]
