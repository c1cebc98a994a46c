"""Every decoder gets hostile bytes: a value or one typed error, within 100 ms and 64 MB."""

from __future__ import annotations

from importlib import metadata

from tests.fuzz.running import CORPUS, fuzz, missing
from tests.fuzz.targets import TARGETS, attempt
from tests.survive.figures import Budget, CannotRunError, Figures

_RUNS = 1_000_000


def run(budget: Budget, seed: int) -> Figures:
    """In the short form the kept corpus, each input through each decoder; in the long one a million made by atheris."""
    if not budget.long:
        inputs = [path.read_bytes() for path in sorted(CORPUS.rglob("*")) if path.is_file()]
        for target in TARGETS.values():
            for data in inputs:
                attempt(target, data)
        return Figures(f"{len(TARGETS)} decoders", {"inputs for each": len(inputs), "contract broken": 0})
    reason = missing()
    if reason is not None:
        raise CannotRunError(reason)
    results = [fuzz(name, runs=_RUNS, seed=seed) for name in TARGETS]
    found = {
        "inputs for each, at least": min(result.inputs for result in results),
        "contract broken": sum(bool(result.broken) for result in results),
    }
    figures = Figures(f"{len(TARGETS)} decoders", found, engine=f"atheris {metadata.version('atheris')}")
    figures.broken += (f"{result.target}: {result.broken[:300]}" for result in results if result.broken)
    return figures
