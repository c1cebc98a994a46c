"""Tables, plots and the README's figures from the files of a run: ``python -m benchmarks.report``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.figures import Result
from benchmarks.plots import draw_plots
from benchmarks.tables import readme_text, report_text

__all__ = ["README", "RESULTS", "put_figures", "read_results", "write_report", "write_result"]

_ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = _ROOT / "benchmarks" / "results"
README: Final = _ROOT / "README.md"
_BEGIN: Final = "<!-- figures: made by `python -m benchmarks.report` -->"
_END: Final = "<!-- end of figures -->"


def main() -> None:
    """Writes the tables and plots of ``benchmarks/results``, and the README's block."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the README's figures are others")
    options = parser.parse_args()
    results = read_results(RESULTS)
    text = README.read_text()
    wanted = put_figures(text, results)
    if options.check:
        sys.exit(0 if text == wanted else "the README's figures are not those of benchmarks/results")
    write_report(results, RESULTS)
    README.write_text(wanted)


def write_result(result: Result, directory: Path) -> None:
    """Writes one subject's file."""
    directory.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.format(msgspec.json.encode(result), indent=2)
    (directory / f"{result.subject}.json").write_bytes(data + b"\n")


def read_results(directory: Path) -> list[Result]:
    """The results of a directory, in the order in which subjects are measured; others after them, by name."""
    from benchmarks.subjects import SUBJECTS

    order = {name: place for place, name in enumerate(SUBJECTS)}
    found = [msgspec.json.decode(path.read_bytes(), type=Result) for path in directory.glob("*.json")]
    return sorted(found, key=lambda result: (order.get(result.subject, len(order)), result.subject))


def write_report(results: list[Result], directory: Path) -> None:
    """Writes the tables and, where matplotlib is installed, the plots of some results."""
    text = report_text(results)
    try:
        plots = draw_plots(results, directory)
    except ImportError:
        plots = []
    text += "".join(f"\n![{path.stem.replace('_', ' ')}]({path.name})\n" for path in plots)
    (directory / "README.md").write_text(text)


def put_figures(text: str, results: list[Result]) -> str:
    """A README with the figures of some results between its two marks."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"README.md has no {_BEGIN} … {_END}")
    return f"{before}{begin}\n{readme_text(results)}\n{end}{after}"


if __name__ == "__main__":
    main()
