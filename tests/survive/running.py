"""Finding the checks and running them."""

from __future__ import annotations

import datetime
import pkgutil
import time
from importlib import import_module
from typing import Any

from tests.survive import checks
from tests.survive.figures import Budget, CannotRunError, Check
from tests.survive.report import Entry

__all__ = ["ORDER", "load", "run_check"]

ORDER = (
    "embedded_kills",
    "content_kills",
    "power_cut",
    "disk_full",
    "descriptors",
    "clocks",
    "iggy_durability",
    "iggy_power_cut",
    "iggy_cluster_power_cut",
    "iggy_failover",
    "iggy_network",
    "restart_in_fold",
    "faulty_log",
    "model",
    "decoders",
    "load_ten_million",
    "load_conversations",
    "slow_consumer",
    "soak",
    "compaction",
)
"""The checks as the table has them."""


def load(name: str) -> Check:
    """A check by its module's name."""
    found: Any = import_module(f"{checks.__name__}.{name}")
    return found  # type: ignore[no-any-return]


def known() -> set[str]:
    """The names of all modules of checks."""
    return {module.name for module in pkgutil.iter_modules(checks.__path__)}


def run_check(name: str, budget: Budget, seed: int) -> Entry:
    """Runs one check and returns its row. Whatever goes wrong in it is in the row."""
    check = load(name)
    promise = (check.__doc__ or name).splitlines()[0]
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    asked = "" if budget.seconds is None else f" --seconds {budget.seconds}"
    entry = Entry(name, promise, seed=seed, long=budget.long, date=today, arguments=asked)
    began = time.monotonic()
    try:
        figures = check.run(budget, seed)
    except CannotRunError as error:
        entry.skipped = str(error)
    else:
        entry.tried, entry.found, entry.broken = figures.tried, figures.found, figures.broken
        entry.engine = figures.engine
    entry.seconds = round(time.monotonic() - began, 1)
    return entry
