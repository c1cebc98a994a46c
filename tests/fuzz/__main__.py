"""``python -m tests.fuzz [TARGET …] [--runs N | --seconds N]``: fuzzes the decoders with atheris."""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.running import fuzz, missing
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of: {', '.join(TARGETS)}; all without")
    parser.add_argument("--runs", type=int, default=0, help="inputs for each target")
    parser.add_argument("--seconds", type=int, default=0, help="seconds for each target; 10 without --runs")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    reason = missing()
    if reason is not None:
        print(f"not fuzzed: {reason}")
        return 1
    seconds = options.seconds or (0 if options.runs else 10)
    broken = 0
    for name in options.targets or TARGETS:
        done = fuzz(name, runs=options.runs, seconds=seconds, seed=options.seed)
        print(f"{name}: {done.inputs:,} inputs, {'BROKEN BY ' + done.broken if done.broken else 'kept'}", flush=True)
        broken += bool(done.broken)
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
