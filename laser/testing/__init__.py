"""Shipped to users: conformance suites for engines, a real-server harness, faults for tests.

``LogConformance``, ``KeyValueConformance``, ``CatalogConformance`` and ``ObjectsConformance`` test an engine of your
own. They need the extra ``testing``.
``laser.testing.server`` and ``laser.testing.cluster`` run real Apache Iggy servers on free ports,
``laser.testing.finding`` looks for one, and ``laser.testing.proxy`` cuts, stalls and delays the connections to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laser.testing.catalog_suite import CatalogConformance
    from laser.testing.compaction_suite import CompactionConformance
    from laser.testing.kv_suite import KeyValueConformance
    from laser.testing.log_suite import LogConformance
    from laser.testing.objects_suite import ObjectsConformance

__all__ = ["CatalogConformance", "CompactionConformance", "KeyValueConformance", "LogConformance", "ObjectsConformance"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: the servers are of use without pytest, which the suites need.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    if name == "LogConformance":
        pytest.register_assert_rewrite("laser.testing.log_cases")
        from laser.testing.log_suite import LogConformance

        return LogConformance
    if name == "CompactionConformance":
        pytest.register_assert_rewrite("laser.testing.compaction_cases", "laser.testing.compaction_checks")
        from laser.testing.compaction_suite import CompactionConformance

        return CompactionConformance
    if name == "KeyValueConformance":
        pytest.register_assert_rewrite("laser.testing.kv_cases")
        from laser.testing.kv_suite import KeyValueConformance

        return KeyValueConformance
    if name == "CatalogConformance":
        pytest.register_assert_rewrite("laser.testing.catalog_cases")
        from laser.testing.catalog_suite import CatalogConformance

        return CatalogConformance
    pytest.register_assert_rewrite("laser.testing.objects_suite")
    from laser.testing.objects_suite import ObjectsConformance

    return ObjectsConformance
