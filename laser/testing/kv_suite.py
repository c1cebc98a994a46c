"""The conformance suite of the ``KeyValue`` port."""

from __future__ import annotations

from laser.testing.kv_cases.comparing import ComparingCases
from laser.testing.kv_cases.entries import EntryCases
from laser.testing.kv_cases.expiring import ExpiringCases
from laser.testing.kv_cases.lifecycle import LifecycleCases
from laser.testing.kv_cases.model import ModelCases
from laser.testing.kv_cases.namespaces import NamespaceCases
from laser.testing.kv_cases.scanning import ScanningCases

__all__ = ["KeyValueConformance"]


class KeyValueConformance(
    EntryCases, ComparingCases, ScanningCases, ExpiringCases, NamespaceCases, ModelCases, LifecycleCases
):
    """Tests that a ``KeyValue`` of your own keeps the port's promises.

    Make a subclass whose name begins with ``Test``, say how to open your store, and run pytest with anyio's plugin::

        from collections.abc import AsyncIterator
        from contextlib import asynccontextmanager

        import pytest

        from laser.ports.kv import KeyValue
        from laser.testing import KeyValueConformance


        class TestMyStore(KeyValueConformance):
            @pytest.fixture(autouse=True)
            def _directory(self, tmp_path):
                self.directory = tmp_path

            @asynccontextmanager
            async def open_store(self) -> AsyncIterator[KeyValue]:
                store = await open_my_store(self.directory)
                try:
                    yield store
                finally:
                    await store.aclose()

    Every test has its own instance of the class, and a namespace of its own, so that tests can share a server. By
    default anyio runs each test on asyncio and on trio; override its fixture ``anyio_backend`` for a store that needs
    one of them. Entries that a test wrote are left behind.

    A subclass may also set:

    - ``shares_data = False``: a second ``open_store`` in the same test does not see what the first one wrote.
    - ``rounds``: steps of each random comparison with a model; fewer for a slow server.
    - ``set_clock(micros)``: sets the clock that expiry goes by. It is called before ``open_store`` too. Without it the
      cases about exact moments are skipped; others wait for short times to pass.
    """
