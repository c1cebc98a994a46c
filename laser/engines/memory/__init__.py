"""The ``memory:`` engine: a log in lists, gone with its process. The reference model of the others."""

from laser.engines.memory.log import MemoryLog

__all__ = ["MemoryLog"]
