"""One fuzzed target, as a process of its own: libFuzzer ends its process when it is done or has found something."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["laser"]):
    from tests.fuzz.targets import TARGETS, attempt


def main() -> None:
    name, *arguments = sys.argv[1:]
    target = TARGETS[name]
    atheris.Setup([sys.argv[0], *arguments], lambda data: attempt(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
