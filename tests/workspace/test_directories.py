"""Trees from and into directories of this machine."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import laser as ls
from laser.limits import MAX_PATH_DEPTH
from laser.workspace import exporting, importing
from tests.commands import run_python

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


async def test_paths_that_are_too_deep_are_reported(site: ls.Workspace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    fill(source, {"/".join(["d"] * (MAX_PATH_DEPTH - 1) + [name]): name for name in ("deepest", "e/too-deep")})
    report = await site.import_(source)
    deepest = "/".join(["d"] * (MAX_PATH_DEPTH - 1) + ["deepest"])
    assert report.files == 1
    assert await site.read(deepest) == b"deepest"
    ((path, reason),) = report.left_out
    assert path == "/".join(["d"] * (MAX_PATH_DEPTH - 1) + ["e/too-deep"])
    assert reason == f"path: has {MAX_PATH_DEPTH + 1} parts, allowed are {MAX_PATH_DEPTH}"
    # One directory deeper in the tree, everything is too deep.
    report = await site.import_(source, path="in")
    assert (report.files, len(report.left_out)) == (0, 2)


def test_a_directory_of_a_thousand_levels(tmp_path: Path) -> None:
    done = run_python("-c", _DEEP, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, f"0 1 {MAX_PATH_DEPTH + 1}", "")


_DEEP = """
import os, anyio
import laser as ls

os.mkdir("top")
at = os.open("top", os.O_RDONLY)
descriptors = [at]
for _ in range(1_200):
    os.mkdir("d", dir_fd=at)
    at = os.open("d", os.O_RDONLY, dir_fd=at)
    descriptors.append(at)
    os.close(descriptors.pop(0))

async def main():
    async with ls.Laser.connect("memory:") as laser:
        site = await laser.workspaces("acme").create("site")
        report = await site.import_("top")
        print(report.files, len(report.left_out), report.left_out[0][0].count("/") + 1)

anyio.run(main)
# pytest's own removal of it would go down as deep.
while True:
    names = os.listdir("top/d") if os.path.isdir("top/d") else None
    if names is None:
        break
    if names:
        os.rename("top/d/d", "top/e")
    os.rmdir("top/d")
    if names:
        os.rename("top/e", "top/d")
"""


@pytest.mark.parametrize("change", ["removed", "link", "pipe", "directory removed", "directory link"])
async def test_what_changes_while_it_is_imported_is_left_out(
    site: ls.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Between the look and the read; and no link is followed that somebody puts there meanwhile."""
    secret = tmp_path / "secret"
    fill(secret, {"b": "not yours"})
    source = tmp_path / "source"
    fill(source, {"a": "1", "d/b": "2", "z": "3"})
    build = importing._Import._build

    async def changes_first(self: Any, found: Any, prefix: str) -> Any:
        if not prefix:
            place = source / "d" / "b"
            if change.startswith("directory"):
                (source / "d").rename(tmp_path / "away")
                if change.endswith("link"):
                    (source / "d").symlink_to(secret)
            else:
                place.unlink()
                if change == "link":
                    place.symlink_to(secret / "b")
                elif change == "pipe":
                    os.mkfifo(place)
        return await build(self, found, prefix)

    monkeypatch.setattr(importing._Import, "_build", changes_first)
    report = await site.import_(source)
    reason = "gone meanwhile" if change.endswith("removed") else "became something else meanwhile"
    assert report.left_out == (("d/b", reason),)
    assert [info.path for info in await site.list(recursive=True)] == ["a", "z"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("name", ["a", "d"])
async def test_what_cannot_be_read_fails_the_import(site: ls.Workspace, tmp_path: Path, name: str) -> None:
    """Left out, it would be removed from the tree."""
    source = tmp_path / "source"
    fill(source, {"a": "1", "d/b": "2"})
    await site.import_(source)
    head = await site.head()
    (source / name).chmod(0)
    try:
        with pytest.raises(ls.InvalidError, match="Permission denied"):
            await site.import_(source)
    finally:
        (source / name).chmod(0o755)
    assert await site.head() == head


@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES])
async def test_a_file_that_cannot_be_read_fails_the_import(
    site: ls.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    source = tmp_path / "source"
    fill(source, {"d/a": "1"})
    head = await site.head()

    def fails(*args: object, **settings: object) -> bytes:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(importing.os, "read" if error == errno.EIO else "scandir", fails)
    with pytest.raises(ls.InvalidError, match=f"cannot be read: {os.strerror(error)}"):
        await site.import_(source)
    monkeypatch.undo()
    assert await site.head() == head


@pytest.mark.parametrize(("one", "other"), [("README", "readme"), ("caf\u00e9", "cafe\u0301"), ("D/x", "d/y")])
async def test_names_that_are_one_elsewhere_fail_the_import(
    site: ls.Workspace, tmp_path: Path, one: str, other: str
) -> None:
    source = tmp_path / "source"
    fill(source, {f"in/{one}": "1", f"in/{other}": "2"})
    if len(list((source / "in").iterdir())) < 2:
        pytest.skip("this file system takes them for one")
    head = await site.head()
    with pytest.raises(ls.InvalidError, match=r"^directory: 'in/.*' and 'in/.*' differ in case or accents only"):
        await site.import_(source)
    assert await site.head() == head


@pytest.mark.parametrize("place", [None, 7, b"/tmp", "", "a\0b", "\ud800", ["/tmp"]])
async def test_what_is_no_path_of_a_directory(site: ls.Workspace, place: Any) -> None:
    for call in (site.import_, site.export):
        with pytest.raises(ls.InvalidError, match=r"^directory: "):
            await call(place)


async def test_a_disk_that_is_full(site: ls.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.write("d/a", "1")

    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(exporting.os, "write", full)
    with pytest.raises(ls.InvalidError, match="'d/a' cannot be written there: No space left"):
        await site.export(tmp_path / "out")


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
