"""The limits of sessions at their edge and one beyond."""

from __future__ import annotations

from pathlib import Path

import pytest

import laser as ls
from laser import limits

pytestmark = pytest.mark.anyio


async def test_entries(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    most = ls.NewEntry(
        "user",
        b"x" * limits.MAX_ENTRY_BYTES,
        key="é" * 127 + "x",
        origin="o" * limits.MAX_ENTRY_KEY_BYTES,
        preview="p" * limits.MAX_ENTRY_PREVIEW_BYTES,
    )
    state = await session.active.add(0, most)
    assert state.entries[0].entry == most
    for over, size, limit in (
        (ls.NewEntry("user", b"x" * (limits.MAX_ENTRY_BYTES + 1)), 1_048_577, 1_048_576),
        (ls.NewEntry("user", b"x", key="é" * 128), 256, 255),
        (ls.NewEntry("user", b"x", preview="p" * 1_025), 1_025, 1_024),
    ):
        with pytest.raises(ls.LimitError) as caught:
            await session.active.add(1, over)
        assert (caught.value.size, caught.value.limit) == (size, limit)
    assert (await session.active.read()) == state


async def test_the_default_lease(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()

    async def look(state: ls.ActiveState) -> None:
        assert state.pending is not None
        assert state.pending.lease == limits.DEFAULT_COMPACTION_LEASE_SECONDS

    assert (await session.compact(look)).pending is None


async def test_entries_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The real one takes a second to make and nobody has it; what counts is that it ends.
    monkeypatch.setattr("laser.client.directory.MAX_FOLDER_ENTRIES", 20)
    folder = tmp_path / ".agents/prompts/instructions.d"
    folder.mkdir(parents=True)
    for number in range(20):
        (folder / f"{number}.md").write_text("x")
    assert len((await ls.discover(ls.Directory(tmp_path))).instructions) == 20
    (folder / "more.md").write_text("x")
    found = await ls.discover(ls.Directory(tmp_path))
    assert found.instructions == ()
    (warning,) = found.report.warnings
    assert "holds more than 20 entries" in warning
