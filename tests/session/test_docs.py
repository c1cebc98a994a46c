"""The program in ``docs/sessions.md`` runs, and says what it should."""

from __future__ import annotations

import re
from pathlib import Path

from tests.commands import ROOT, run_python

PROGRAMS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "sessions.md").read_text(), re.MULTILINE | re.DOTALL)


def test_the_program_runs(tmp_path: Path) -> None:
    (program,) = PROGRAMS
    (tmp_path / "program.py").write_text(program)
    done = run_python("program.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "()",
        "['Be brief.', 'They asked which label the charger has.']",
        "b'Which label is on it?'",
        "True",
    ]
