"""Engines in the memory of one process: a log, a key-value store, a content catalog and objects, gone when closed."""

from laser.engines.memory.catalog import MemoryCatalog
from laser.engines.memory.kv import MemoryKeyValue
from laser.engines.memory.log import MemoryLog
from laser.engines.memory.objects import MemoryObjects

__all__ = ["MemoryCatalog", "MemoryKeyValue", "MemoryLog", "MemoryObjects"]
