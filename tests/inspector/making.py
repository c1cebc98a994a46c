"""A stream with something of everything to look at, hostile text among it, and a client of its pages."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

import laser as ls
import laser.prompt as lp
from laser.inspector import make_app
from laser.testing.compaction_cases.base import Desk

TOKEN = "t0ken-of-the-tests-0123456789"
HOST = "127.0.0.1:8123"

HOSTILE = (
    '<script>document.title="owned"</script><img src=x onerror="document.title=1">',
    "\"'><svg onload=alert(1)>",
    "</pre></title></style></textarea><!-- ]]>",
    "javascript:alert(1)",
    "&lt;already&gt; &amp;",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202etxt.exe\u2066\u200b",
    "nul\x00byte",
    "{{7*7}} %s ${x}",
)
ALL = " ".join(HOSTILE)
VISIBLE = "\\x1b[31mred\\x1b]0;title\\x07 \\x202etxt.exe\\x2066\\x200b nul\\x00byte"
"""The last of it as people are to see it."""


class Filled:
    """What ``fill`` made: ids of sessions."""

    def __init__(self, main: str, plain: str, child: str, nodes: int) -> None:
        self.main = main
        self.plain = plain
        self.child = child
        self.nodes = nodes


async def fill(laser: ls.Laser, *, turns: int = 40) -> Filled:
    """A session with a transcript, summaries, an active context, a run with usage, and prompts; and two more."""
    session = await laser.sessions().start(f"{HOSTILE[0]} \u202elabel", agent=HOSTILE[1])
    desk = Desk(laser, session.id, ls.StrategyRegistry())
    await desk.talk(turns)
    await laser.context(session.id).append(
        ls.AgentTopic.Sessions, json.dumps({"role": "user", "content": ALL}), agent=HOSTILE[1]
    )
    await laser.context(session.id).append(ls.AgentTopic.Sessions, b"\xff\xfe not a chat message \x00" + ALL.encode())
    await desk.compaction.compact("lcm", window=4_000)
    await session.active.add(0, ls.NewEntry("instruction", b"Be brief. <b>", key="rules", tokens=4))
    async with session.run([ls.NewEntry("user", ALL.encode(), tokens=90, origin=HOSTILE[0])]) as run:
        turn = await run.turn()
        await turn.finish([ls.NewEntry("assistant", b"Done.")], usage={"input_tokens": 1_234, "<b>out": 7})

    def builder(identity: str) -> lp.PromptBuilder:
        return lp.PromptBuilder(laser, [lp.Identity(identity), lp.History(), lp.Request()], agent=HOSTILE[1])

    before = builder("You help.")
    await before.record_usage(await before.build(session.id, "one"), lp.TraceUsage(2_000, 20, 1_000, 0))
    await builder("Changed.").build(session.id, "two")
    child = await laser.sessions().start("child", parent=session)
    await child.fail({"why": ALL})
    plain = await laser.sessions().start("snap")
    pictures = Desk(laser, plain.id, ls.StrategyRegistry())
    await pictures.talk(turns)
    await pictures.compaction.compact("snapcompact", window=16_000)
    listed = await desk.compaction.lcm.list(limit=200)
    return Filled(session.id, plain.id, child.id, len(listed.folds))


@asynccontextmanager
async def browse(laser: ls.Laser, base: str = f"http://{HOST}") -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the pages, without any socket."""
    transport = httpx2.ASGITransport(make_app(laser, TOKEN, [HOST]))
    async with httpx2.AsyncClient(transport=transport, base_url=base) as client:
        yield client


def links(text: str, part: str = "") -> list[str]:
    """Addresses in a page that have a part, as a browser takes them."""
    found = re.findall(r'(?:href|src|action)="([^"]*)"', text)
    return [one.replace("&amp;", "&") for one in found if part in one]


def words(text: str) -> str:
    """A page as it is read: no tags, no entities."""
    return html.unescape(re.sub(r"<[^>]*>", "\n", text))
