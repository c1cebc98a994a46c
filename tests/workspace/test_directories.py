"""Trees from and into directories of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import laser as ls

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "embedded"])
def engine_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"embedded:{tmp_path / 'data'}"


def fill(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        place = directory / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        # As if written a while ago: what changed just now is looked at again anyway.
        os.utime(place, (1_700_000_000, 1_700_000_000))


async def test_there_and_back(site: ls.Workspace, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    fill(source, {"a.txt": "a", "d/b.md": "b", "d/e/c": "c"})
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "empty").mkdir()
    report = await site.import_(source)
    assert (report.files, report.read, report.left_out) == (4, 4, ())
    assert await site.export(target) == 4
    found = {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()}
    assert found == {"a.txt": "a", "d/b.md": "b", "d/e/c": "c", "run.sh": "#!/bin/sh\n"}
    assert os.access(target / "run.sh", os.X_OK)
    assert not os.access(target / "a.txt", os.X_OK)


async def test_an_import_takes_what_is_there_and_removes_what_is_not(site: ls.Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    fill(source, {"a": "1", "d/b": "2"})
    await site.write("kept/x", "x")
    await site.import_(source, path="in")
    assert [info.path for info in await site.list(recursive=True)] == ["in/a", "in/d/b", "kept/x"]
    (source / "a").unlink()
    fill(source, {"d/c": "3"})
    await site.import_(source, path="in")
    assert [info.path for info in await site.list(recursive=True)] == ["in/d/b", "in/d/c", "kept/x"]
    before = await site.head()
    await site.import_(source, path="in")
    assert await site.head() == before


async def test_unchanged_files_are_not_read_again(site: ls.Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    fill(source, {f"d{number}/f": f"{number}" for number in range(30)})
    os.utime(source / "d1", None)
    first = await site.import_(source)
    assert first.read == 30
    # Their change times are of just now, and a file that changed just now may change again unseen.
    again = await site.import_(source)
    assert again.read == 30
    (source / "d7" / "f").write_text("other")
    third = await site.import_(source)
    assert third.files == 30
    assert await site.read("d7/f") == b"other"


async def test_links_and_special_files_stay_out(site: ls.Workspace, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    source = tmp_path / "source"
    fill(source, {"a": "1"})
    (source / "file-link").symlink_to(secret)
    (source / "dir-link").symlink_to(tmp_path)
    os.mkfifo(source / "pipe")
    report = await site.import_(source)
    assert dict(report.left_out) == {
        "dir-link": "a symbolic link",
        "file-link": "a symbolic link",
        "pipe": "no regular file",
    }
    assert [info.path for info in await site.list(recursive=True)] == ["a"]


async def test_names_that_a_tree_cannot_hold_are_reported(site: ls.Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "good").write_text("1")
    (source / "line\nbreak").write_text("2")
    (source / os.fsdecode(b"\xff")).write_text("3")
    report = await site.import_(source)
    assert report.files == 1
    assert len(report.left_out) == 2


async def test_exports_go_into_empty_directories_only(site: ls.Workspace, tmp_path: Path) -> None:
    await site.write("a/b", "1")
    full = tmp_path / "full"
    fill(full, {"mine": "keep"})
    with pytest.raises(ls.InvalidError, match="not empty"):
        await site.export(full)
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    with pytest.raises(ls.InvalidError, match="cannot be written"):
        await site.export(tmp_path / "link")
    assert list(real.iterdir()) == []
    assert (full / "mine").read_text() == "keep"


async def test_a_directory_that_is_none(site: ls.Workspace, tmp_path: Path) -> None:
    with pytest.raises(ls.InvalidError, match="no directory"):
        await site.import_(tmp_path / "nothing")


async def test_no_descriptor_stays_open(site: ls.Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    fill(source, {f"f{number}": "x" * 100_000 for number in range(5)})
    open_now = Path("/proc/self/fd")
    if not open_now.exists():
        pytest.skip("open descriptors are counted in /proc/self/fd")
    counts: list[int] = []
    for number in range(20):
        await site.import_(source, path=f"again{number}")
        await site.export(tmp_path / f"out{number}")
        counts.append(len(os.listdir(open_now)))
        # The store itself opens a few when it first needs them, and that can be late: when reads come together.
        if len(counts) > 3 and counts[-1] == counts[-2] == counts[-3]:
            return
    raise AssertionError(f"each round leaves some open: {counts}")
