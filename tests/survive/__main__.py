"""``python -m tests.survive [CHECK …] [OPTION …]``: runs the checks and writes docs/reliability.md."""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.commands import ROOT
from tests.survive.figures import Budget
from tests.survive.report import read_entries, write_entries
from tests.survive.running import ORDER, run_check

_ROWS = ROOT / "docs" / "reliability.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.survive")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of: {', '.join(ORDER)}; all without")
    parser.add_argument("--without", action="append", default=[], metavar="CHECK", help="leaves one out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, help="of the soak; an hour without")
    parser.add_argument("--short", action="store_true", help="the form of every test run; writes nothing")
    options = parser.parse_args()
    unknown = {*options.checks, *options.without} - set(ORDER)
    if unknown:
        parser.error(f"no such check: {', '.join(sorted(unknown))}")
    failed = False
    budget = Budget(long=not options.short, seconds=options.seconds)
    for name in [name for name in options.checks or ORDER if name not in options.without]:
        print(f"{name}, seed {options.seed} …", flush=True)
        try:
            entry = run_check(name, budget, options.seed)
        except Exception:
            # The others are to be run all the same: hours may have gone into this.
            traceback.print_exc()
            failed = True
            continue
        print(f"  {entry.skipped or entry.found} in {entry.seconds} s", flush=True)
        for what in entry.broken:
            print(f"  NOT KEPT: {what}", flush=True)
        failed = failed or bool(entry.broken)
        if not options.short:
            rows = read_entries(_ROWS)
            rows[name] = entry
            write_entries(_ROWS, {name: rows[name] for name in ORDER if name in rows})
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
