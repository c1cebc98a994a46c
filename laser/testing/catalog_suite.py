"""The conformance suite of the ``Catalog`` port."""

from __future__ import annotations

from laser.testing.catalog_cases.collecting import CollectingCases
from laser.testing.catalog_cases.contents import ContentCases
from laser.testing.catalog_cases.holding import HoldingCases
from laser.testing.catalog_cases.lifecycle import LifecycleCases
from laser.testing.catalog_cases.model import ModelCases
from laser.testing.catalog_cases.placing import PlacingCases

__all__ = ["CatalogConformance"]


class CatalogConformance(ContentCases, HoldingCases, PlacingCases, CollectingCases, ModelCases, LifecycleCases):
    """Tests that a ``Catalog`` of your own keeps the port's promises.

    Make a subclass whose name begins with ``Test``, say how to open your catalog, and run pytest with anyio's plugin,
    as for ``KeyValueConformance``: ``open_catalog`` in the place of ``open_store``. Every test has a tenant of its own,
    and leaves contents behind.

    A subclass may also set:

    - ``shares_data = False``: a second ``open_catalog`` in the same test does not see what the first one wrote.
    - ``rounds``: steps of each random comparison and of each race; fewer for a slow server.
    - ``set_clock(micros)``: sets the catalog's clock. It is called before ``open_catalog`` too. Without it the cases
      about exact moments are skipped.
    """
