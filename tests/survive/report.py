"""``docs/reliability.md``: a table of what was checked, how often, and what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

__all__ = ["Entry", "read_entries", "render", "write_entries"]

_BEGIN: Final = "<!-- figures: made by `make survive` -->"
_END: Final = "<!-- end of figures -->"


class Entry(msgspec.Struct):
    """One row: what ``make survive`` did and found.

    Attributes:
        check: its name. promise: what it checks. tried: how often, in words. found: figures by name.
        broken: promises that were not kept. engine: with its version. seed, seconds, date: of the run.
        long: whether it was the long form. skipped: why it did not run. arguments: further ones that it was given.
    """

    check: str
    promise: str
    tried: str = ""
    found: dict[str, Any] = {}
    broken: list[str] = []
    engine: str = ""
    seed: int = 0
    seconds: float = 0.0
    date: str = ""
    long: bool = True
    skipped: str = ""
    arguments: str = ""

    @property
    def command(self) -> str:
        """What repeats it."""
        form = "" if self.long else " --short"
        return f"python -m tests.survive {self.check} --seed {self.seed}{self.arguments}{form}"


def read_entries(path: Path) -> dict[str, Entry]:
    """The rows of earlier runs, by check."""
    if not path.exists():
        return {}
    return {entry.check: entry for entry in msgspec.json.decode(path.read_bytes(), type=list[Entry])}


def write_entries(path: Path, entries: dict[str, Entry]) -> None:
    """Keeps the rows, and puts them into the page beside them."""
    rows = msgspec.json.format(msgspec.json.encode(list(entries.values())), indent=1)
    path.write_bytes(rows + b"\n")
    page = path.with_suffix(".md")
    text = page.read_text()
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    page.write_text(f"{head}{_BEGIN}\n{render(entries)}{_END}{tail}")


def render(entries: dict[str, Entry]) -> str:
    """The table."""
    lines = ["| check | tried | found | engine | repeat with | date |", "|---|---|---|---|---|---|"]
    for entry in entries.values():
        if entry.skipped:
            lines.append(f"| {entry.promise} | not run: {entry.skipped} | | | `{entry.command}` | {entry.date} |")
            continue
        found = ", ".join(f"{name} {_shown(figure)}" for name, figure in entry.found.items())
        if entry.broken:
            found += f"; **not kept: {'; '.join(entry.broken)}**"
        lines.append(
            f"| {entry.promise} | {entry.tried} | {found} | {entry.engine} | `{entry.command}` | {entry.date} |"
        )
    return "\n".join(lines) + "\n"


def _shown(figure: object) -> str:
    return f"**{figure:,}**" if isinstance(figure, int) else f"**{figure}**"
