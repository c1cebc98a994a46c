"""The pages in a real browser: headless Chromium, which runs scripts and holds to the policy where a page lets it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from PIL import Image

import laser as ls
from laser.inspector import listen, serve
from tests.inspector.making import HOSTILE, fill, words

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH: on Debian, apt-get install chromium"),
]


class Browser:
    """Starts Chromium once a page."""

    def __init__(self, profile: Path) -> None:
        self._profile = profile

    def _run(self, *options: str) -> subprocess.CompletedProcess[str]:
        assert CHROMIUM is not None
        fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        # Nothing but this machine is asked, whatever the browser would like to update.
        fixed += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        fixed += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--enable-logging=stderr"]
        return subprocess.run(
            [CHROMIUM, *fixed, f"--user-data-dir={self._profile}", *options],
            capture_output=True,
            text=True,
            timeout=200,
            check=True,
        )

    async def read(self, url: str) -> str:
        """The page after it was loaded, and after its scripts ran if it has any."""
        done = await anyio.to_thread.run_sync(self._run, "--dump-dom", url)
        # The policy forbids nothing that the pages themselves do.
        assert "CONSOLE" not in done.stderr, done.stderr
        return done.stdout

    async def look(self, url: str, at: Path) -> Image.Image:
        """What the page looks like."""
        await anyio.to_thread.run_sync(self._run, "--window-size=1200,900", f"--screenshot={at}", url)
        with Image.open(at) as picture:
            return picture.convert("RGB")


async def test_in_a_browser(tmp_path: Path) -> None:
    browser = Browser(tmp_path / "profile")
    listener, stop = listen(), anyio.Event()
    async with ls.Laser.connect("memory:", stream="seen") as laser:
        for topic in (ls.AgentTopic.Sessions, ls.AgentTopic.Control, ls.AgentTopic.Audit):
            await laser.ensure_topic(topic)
        filled = await fill(laser)
        async with anyio.create_task_group() as group:
            group.start_soon(serve, laser, listener, stop.wait)
            listed = await browser.read(listener.url)
            assert "sessions of stream seen" in words(listed)
            assert HOSTILE[0] in words(listed)
            transcript = await browser.read(f"{listener.url}s/{filled.main}/transcript")
            for page in (listed, transcript):
                assert re.search(r"<title>[^<]* · laser</title>", page)
                assert "<script" not in page
            assert HOSTILE[2] in words(transcript)
            # Style sheet, pictures and drawings come through the policy.
            chart = await browser.look(f"{listener.url}s/{filled.main}/prompts", tmp_path / "prompts.png")
            assert _has(chart, (0x2F, 0x5D, 0x9E))
            frames = await browser.look(f"{listener.url}s/{filled.plain}/frames?window=16000", tmp_path / "frames.png")
            lower = frames.crop((30, 300, 1_000, 500)).convert("L").point(lambda value: 255 * (value < 64))
            assert sum(lower.histogram()[128:]) > 5_000
            refused = await browser.read(listener.url.replace(listener.token, "x" * 43))
            assert "sessions" not in refused
            stop.set()


def _has(picture: Image.Image, colour: tuple[int, int, int]) -> bool:
    return any(found == colour for _, found in picture.getcolors(1 << 20) or [])
