"""Clients for tests of compaction."""

from __future__ import annotations

from tests.context.conftest import memory_laser

__all__ = ["memory_laser"]
