"""Forks on the command line of sessions that refer to content. On the engine that keeps content beside its log."""

from __future__ import annotations

import anyio
import pytest

import laser as ls
from tests.cli.test_commands import Shell
from tests.cli.test_session_views import made, shell

__all__ = ["made", "shell"]

pytestmark = pytest.mark.parametrize("engine_url", ["embedded"], indirect=True)


def test_a_fork_holds_content_too(shell: Shell, made: list[str], engine_url: str, stream_name: str) -> None:
    (session,) = made

    async def refer() -> None:
        async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
            content, opened = laser.content("acme"), await laser.sessions().open(session)
            ref = await content.put(b"a long text")
            await opened.keep(content, ref)
            await opened.active.add((await opened.active.read()).revision, ls.NewEntry("skill", ref=ref, key="long"))

    anyio.run(refer)
    for what in ("--label=x", "--clone"):
        assert "content: the session refers to content" in shell.refused("session", "fork", session, what)
        fork = shell.run("session", "fork", session, what, "--tenant", "acme").stdout.strip()
        assert fork in shell.run("session", "show", fork).stdout
    assert (
        len(
            shell.json(
                "session",
                "transcript",
                shell.run("session", "fork", session, "--partial", "--tenant", "acme").stdout.strip(),
            )["messages"]
        )
        == 6
    )
    assert "--partial: does not go with --clone" in shell.refused("session", "fork", session, "--partial", "--clone")


def test_words_of_native_entries_are_shown(shell: Shell, made: list[str], engine_url: str, stream_name: str) -> None:
    (session,) = made
    said = b'{"type":"message","role":"assistant","content":[{"type":"output_text","text":"It fits.\\nAlways."}]}'
    native = ls.NewEntry("assistant", said, api="openai_responses", tokens=9)

    async def answer() -> None:
        async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
            opened = await laser.sessions().open(session)
            async with opened.run() as run, await run.turn() as turn:
                await turn.finish([native, ls.NewEntry("assistant", b"no JSON", api="openai_responses")])
                await run.finish(native)

    anyio.run(answer)
    shown = shell.run("context", "show", session).stdout
    assert "    It fits.\n    Always.\n" in shown
    assert "output_text" not in shown
    assert "    no JSON\n" in shown
    assert "It fits. Always." in shell.run("session", "context", session).stdout
    found = shell.json("session", "context", session)
    assert found["run"]["output"] == "It fits.\nAlways."
    assert found["entries"][-2]["text"] == said.decode(), "for programs the bytes as they are"
