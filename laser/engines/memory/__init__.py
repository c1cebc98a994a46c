"""The ``memory:`` engine: a log in lists and a key-value store in dicts. The reference model of the others."""

from laser.engines.memory.kv import MemoryKeyValue
from laser.engines.memory.log import MemoryLog

__all__ = ["MemoryKeyValue", "MemoryLog"]
