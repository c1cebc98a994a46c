"""Clients for tests of what is the same on every engine and on every kind of read view."""

from __future__ import annotations

from tests.context.conftest import memory_laser
from tests.views import laser, places, postgres_url

__all__ = ["laser", "memory_laser", "places", "postgres_url"]
