"""Every program in ``examples/`` runs, without a server, and says what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import ROOT, run_python

SAID = {
    "quickstart.py": [
        "user: My charger does not fit.",
        "support: Which label is on it?",
    ],
    "policies.py": [
        "last_n(4): ['tool', 'tool', 'assistant', 'user']",
        "chain(last_n(4),tool_pairs): ['assistant', 'user']",
        "chain(custom,token_budget(60),tool_pairs): ['assistant']",
    ],
    "graph.py": [
        "Alice works at ['Globex']",
        "before, at ['Acme']",
        "people in Oslo: ['Bob']",
        "Alice -works_at-> Globex, said in ticket-7341: True",
    ],
    "memory.py": [
        "she drinks: Ann: I only drink green tea, please",
        "for the prompt: Ann: I only drink green tea, please",
        "seat: window, before: aisle",
        "kept: 2, summary: 3 messages about a flight",
        "after forgetting: []",
    ],
    "sessions.py": [
        "the model sees ['Write short release notes.', 'Three drafts; the last one stands.']",
        "the branch sees 7 entries",
        "the last answer was b'Chargers, cables, and a word of thanks.'",
        "page: ['Draft 3, please.', 'Chargers, cables, and a word of thanks.']",
        "page: ['Draft 1, please.', 'Fixes for chargers.']",
    ],
    "support_agent.py": [
        "at work: reserve_exchange",
        "killed -9, and started again",
        "support: Done: exchange EX-204 is reserved.",
        "support: It was ORD-7731, and the exchange is EX-204.",
        "briefing: {'order': 'ORD-7731', 'size': '42'}",
        "prompts: 17, stable prefix broken: 0",
        "messages on the log: 34, of them in a summary: True",
        "support: You wear 42.",
    ],
    "several_processes.py": [
        "exit codes: [0, 0, 0]",
        "planner: 50 messages, in order: True",
        "coder: 50 messages, in order: True",
        "reviewer: 50 messages, in order: True",
        "standup: ['coder is done', 'planner is done', 'reviewer is done']",
    ],
}


def test_all_are_here() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(SAID)


@pytest.mark.parametrize("name", sorted(SAID))
def test_example(name: str, tmp_path: Path) -> None:
    done = run_python(str(ROOT / "examples" / name), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line for line in SAID[name] if line not in lines] == []
