"""Graphs on the command line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import anyio
import pytest

import laser as ls
from tests.cli.test_commands import Shell
from tests.context.logs import put_raw
from tests.graph.making import ACME, ALICE, BOB

# memory: ends with each command, so there is nothing to see between two of them.
pytestmark = pytest.mark.parametrize("engine_url", ["embedded", "iggy"], indirect=True)

EVIL = ls.Node('L"]; x -> y', 'a "quoted" \\ value\\\nwith <b>lines</b> \x1b[31m\u202e')


@pytest.fixture
def shell(engine_url: str, stream_name: str) -> Shell:
    async def fill() -> None:
        async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
            await laser.ensure_topic("agent.sessions")
            scope = laser.context(ls.derive_conversation_id("ticket-1"))
            await scope.append("agent.sessions", "hello")
            (message,) = await scope.fetch()
            graph = laser.graph("people")
            await graph.upsert([ls.Node("Person", "Alice", {"age": 30})], source=message)
            await graph.link(ALICE, "works_at", ACME, valid_from=0, weight=0.5)
            await graph.link(BOB, "knows", ALICE, valid_to=2**61)
            await laser.graph("evil").link(EVIL, 'r"\\', EVIL)

    anyio.run(fill)
    return Shell(engine_url, stream_name)


def test_nodes(shell: Shell) -> None:
    shown = shell.json("graph", "show", "people")
    assert {node["value"]: node["attributes"] for node in shown["nodes"]} == {
        "Acme": {},
        "Alice": {"age": 30},
        "Bob": {},
    }
    assert shown["graph"] == "people"
    assert [node["value"] for node in shell.json("graph", "show", "people", "--label", "Company")["nodes"]] == ["Acme"]
    assert len(shell.json("graph", "show", "people", "-n", "2")["nodes"]) == 2
    text = shell.run("graph", "show", "people").stdout
    assert "graph people of stream" in text
    assert '{"age":30}' in text
    assert ALICE.id in text
    assert "\x1b" not in shell.run("graph", "show", "evil").stdout


def test_one_node(shell: Shell) -> None:
    shown = shell.json("graph", "show", "people", "Person:Alice")
    assert shown == shell.json("graph", "show", "people", ALICE.id)
    assert (shown["node"]["id"], shown["node"]["attributes"]) == (ALICE.id, {"age": 30})
    (out,) = shown["out"]
    assert (out["node"]["value"], out["edge"]["type"], out["edge"]["weight"]) == ("Acme", "works_at", 0.5)
    assert [one["node"]["value"] for one in shown["in"]] == ["Bob"]
    text = shell.run("graph", "show", "people", "Person:Alice").stdout
    assert f"said in     {ls.derive_conversation_id('ticket-1')}\n" in text
    assert re.search(r"learnt from agent.sessions \d:0\n", text)
    for said in ("Person: Alice\n", "->", "<-", "1970-01-01 00:00:00Z …"):
        assert said in text
    assert f"{2**61} µs" in text
    before = shell.json("graph", "show", "people", "Person:Alice", "--as-of", "1969-12-31T23:59:59Z")
    assert (before["out"], len(before["in"])) == ([], 1)


def test_refusals(shell: Shell) -> None:
    assert "graph 'nobody' has no nodes" in shell.refused("graph", "show", "nobody")
    assert "graph 'peopl' has no nodes" in shell.refused("graph", "export", "peopl")
    assert "graph 'people' has no node 'Person:Eve'" in shell.refused("graph", "show", "people", "Person:Eve")
    assert "id: 'Alice' is neither" in shell.refused("graph", "show", "people", "Alice")
    assert "as_of: 2026-01-31T12:00:00 has no time zone" in shell.refused(
        "graph", "show", "people", "Person:Alice", "--as-of", "2026-01-31T12:00:00"
    )
    assert "--as-of: 'soon'" in shell.refused("graph", "show", "people", "Person:Alice", "--as-of", "soon")
    assert "--format: 'svg' is not one of json, dot" in shell.refused("graph", "export", "people", "-f", "svg")


def test_export_json(shell: Shell) -> None:
    result = shell.run("graph", "export", "people")
    assert (result.exit_code, result.stderr) == (0, "")
    exported = json.loads(result.stdout)
    assert [node["id"] for node in exported["nodes"]] == sorted(node["id"] for node in exported["nodes"])
    ends = {node["id"]: node["value"] for node in exported["nodes"]}
    assert sorted((ends[edge["source"]], edge["type"], ends[edge["target"]]) for edge in exported["edges"]) == [
        ("Alice", "works_at", "Acme"),
        ("Bob", "knows", "Alice"),
    ]
    assert all(ls.Edge(edge["source"], edge["type"], edge["target"]).id == edge["id"] for edge in exported["edges"])


_QUOTED = r'"((?:[^"\\\n]|\\.)*)"'
_LINE = re.compile(rf"  {_QUOTED}(?: -> {_QUOTED})? \[label={_QUOTED}\];")


def _dot(text: str) -> tuple[str, list[tuple[Any, ...]]]:
    """The name and the statements of a DOT text, each on its line, as Graphviz reads quoted texts."""
    first, *lines, last = text.splitlines()
    name = re.fullmatch(rf"digraph {_QUOTED} {{", first)
    assert name is not None
    assert last == "}"
    found = [_LINE.fullmatch(line) for line in lines]
    assert None not in found, lines
    return name[1], [match.groups() for match in found if match is not None]


def test_export_dot(shell: Shell) -> None:
    name, statements = _dot(shell.run("graph", "export", "people", "--format", "dot").stdout)
    assert name == "people"
    assert (ALICE.id, None, "Person: Alice") in statements
    assert (ALICE.id, ACME.id, r"works_at (0.5)\n1970-01-01 00:00:00Z …") in statements
    assert len(statements) == 5


def test_nothing_in_a_graph_gets_out_of_its_quotes(shell: Shell) -> None:
    text = shell.run("graph", "export", "evil", "--format", "dot").stdout
    _, statements = _dot(text)
    escaped = r"L\"]; x -> y: a \"quoted\" \\ value\\\nwith <b>lines</b> \\x1b[31m\\x202e"
    assert statements == [(EVIL.id, None, escaped), (EVIL.id, EVIL.id, r"r\"\\")]
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)
    exported = json.loads(shell.run("graph", "export", "evil").stdout)
    assert exported["nodes"][0]["value"] == EVIL.value
    program = shutil.which("dot")
    if program is not None:
        drawn = subprocess.run([program, "-Tplain"], input=text, capture_output=True, text=True, check=True, timeout=60)
        assert drawn.stdout.count("node ") == 1


def test_rebuild(shell: Shell, engine_url: str, stream_name: str) -> None:
    before = shell.run("graph", "export", "people").stdout
    assert shell.json("graph", "rebuild") == {"stream": stream_name, "read": 4, "skipped": []}

    async def spoil() -> None:
        async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
            await put_raw(laser, "agent.graph", "x", (b"", b"noise"))

    anyio.run(spoil)
    result = shell.run("graph", "rebuild")
    assert result.stdout == "5 records read\n"
    assert "laser: skipped agent.graph" in result.stderr
    assert shell.run("graph", "export", "people").stdout == before
