"""The code in ``docs/compaction.md`` runs and gives what it says."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import anyio
import pytest

from tests.commands import ROOT


def run_page(name: str) -> None:
    """Runs the Python of a page of the docs, as one program."""
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / name).read_text(), re.DOTALL)

    async def run() -> None:
        names: dict[str, Any] = {}
        for snippet in snippets:
            result = eval(compile(snippet, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.iscoroutine(result):
                await result

    anyio.run(run)


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_page("compaction.md")
    assert capsys.readouterr().out.splitlines() == [
        "compacted True",
        "['frame', 'tail']",
        "user ['assistant', 'user']",
    ]
