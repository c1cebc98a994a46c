"""The conformance suite of the ``Log`` port."""

from __future__ import annotations

from laser.testing.log_cases.appends import AppendCases
from laser.testing.log_cases.lifecycle import LifecycleCases
from laser.testing.log_cases.reads import ReadCases
from laser.testing.log_cases.topics import TopicCases
from laser.testing.log_cases.windows import WindowCases

__all__ = ["LogConformance"]


class LogConformance(AppendCases, ReadCases, WindowCases, TopicCases, LifecycleCases):
    """Tests that a ``Log`` of your own keeps the port's promises.

    Make a subclass whose name begins with ``Test``, say how to open your log, and run pytest with anyio's plugin::

        from collections.abc import AsyncIterator
        from contextlib import asynccontextmanager

        import pytest

        from laser.ports.log import Log
        from laser.testing import LogConformance


        class TestMyLog(LogConformance):
            @pytest.fixture(autouse=True)
            def _directory(self, tmp_path):
                self.directory = tmp_path

            @asynccontextmanager
            async def open_log(self) -> AsyncIterator[Log]:
                log = await open_my_log(self.directory)
                try:
                    yield log
                finally:
                    await log.aclose()

    Every test has its own instance of the class, and makes streams of its own, so that tests can share a server. By
    default anyio runs each test on asyncio and on trio; override its fixture ``anyio_backend`` for a log that needs
    one of them.

    A subclass may also set:

    - ``shares_data = False``: a second ``open_log`` in the same test does not see what the first one wrote.
    - ``clock_can_step_back = True``: record times can go back within a partition, as on a cluster.
    - ``keeps_any_headers = False``: header blocks that cannot be decoded are refused.
    - ``rounds``: steps of each random comparison with a model; fewer for a slow server.
    - ``set_clock(micros)``: sets the clock that the log takes its times from. It is called before ``open_log`` too.
      Without it the cases about time and retention are skipped.
    """
