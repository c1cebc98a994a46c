"""Clients for tests of what is the same on every engine."""

from __future__ import annotations

from tests.context.conftest import memory_laser

__all__ = ["memory_laser"]
