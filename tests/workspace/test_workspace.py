"""Workspaces: reading and editing a tree."""

from __future__ import annotations

from typing import Any

import pytest

import laser as ls
from laser.limits import MAX_PATH_DEPTH
from laser.workspace.heads import WORKSPACE_TOPIC, HeadMoved, decode_head
from laser.workspace.trees import decode_tree

pytestmark = pytest.mark.anyio


async def paths(workspace: ls.Workspace) -> list[str]:
    return [info.path for info in await workspace.list(recursive=True)]


async def test_what_is_written_is_read(site: ls.Workspace) -> None:
    await site.write("docs/notes.md", "# Notes")
    await site.write("bin/run", b"\x00\x01", executable=True)
    await site.write("big.bin", b"x" * 70_000)
    assert await site.read("docs/notes.md") == b"# Notes"
    assert await site.read("big.bin", start=69_999, stop=80_000) == b"x"
    assert [(i.path, i.directory, i.size, i.files) for i in await site.list()] == [
        ("big.bin", False, 70_000, 1),
        ("bin", True, 2, 1),
        ("docs", True, 7, 1),
    ]
    tree = await site.tree()
    stat = await tree.stat("bin/run")
    assert stat.executable
    assert stat.ref is not None
    assert stat.ref.media_type == "application/octet-stream"
    notes = await tree.stat("docs/notes.md")
    assert notes.ref is not None
    assert notes.ref.media_type == "text/markdown; charset=utf-8"
    assert b"".join([piece async for piece in tree.stream("big.bin")]) == b"x" * 70_000


async def test_several_files_are_one_version(site: ls.Workspace) -> None:
    before = await site.write("old", "1")
    after = await site.edit({"a/b": "1", "a/c": "2", "old": None}, seen=before.revision, note="moved in")
    assert after.revision == before.revision + 1
    assert await paths(site) == ["a/b", "a/c"]
    assert [version.note for version in await site.history()] == [None, None, "moved in"]


async def test_an_edit_that_fails_changes_nothing(site: ls.Workspace) -> None:
    head = await site.write("a", "1")
    with pytest.raises(ls.NotFoundError, match="no 'gone'"):
        await site.edit({"b": "2", "gone": None})
    assert await site.head() == head
    assert await paths(site) == ["a"]


async def test_deleting_the_last_file_of_a_directory_deletes_it(site: ls.Workspace) -> None:
    await site.edit({"a/b/c": "1", "d": "2"})
    await site.delete("a/b/c")
    assert [info.path for info in await site.list()] == ["d"]
    head = await site.delete("d")
    assert head.root is None
    assert await site.list() == []
    with pytest.raises(ls.NotFoundError):
        await site.read("d")


async def test_renames_keep_the_content(site: ls.Workspace) -> None:
    await site.edit({"docs/a": "1", "docs/b": "2", "x": "3"})
    ref = (await (await site.tree()).stat("docs/a")).ref
    await site.rename("docs", "text/deep")
    assert await paths(site) == ["text/deep/a", "text/deep/b", "x"]
    assert (await (await site.tree()).stat("text/deep/a")).ref == ref
    await site.rename("x", "text/x")
    with pytest.raises(ls.ConflictError, match="something at"):
        await site.rename("text/x", "text/deep")
    with pytest.raises(ls.InvalidError, match="within"):
        await site.rename("text", "text/deep/more")
    with pytest.raises(ls.NotFoundError):
        await site.rename("nothing", "y")
    assert await paths(site) == ["text/deep/a", "text/deep/b", "text/x"]


async def test_versions_and_what_differs(laser: ls.Laser, site: ls.Workspace) -> None:
    one = await site.edit({"same": "s", "changed": "1", "gone": "g", "d/in": "1"})
    two = await site.edit({"changed": "2", "gone": None, "new": "n", "d/in": "2"})
    changes = {change.path: (change.before, change.after) for change in await site.diff(one.revision)}
    assert sorted(changes) == ["changed", "d/in", "gone", "new"]
    assert changes["new"][0] is None
    assert changes["gone"][1] is None
    assert await (await site.at(one.revision)).read("changed") == b"1"
    pinned = laser.workspaces("acme").snapshot(one.root)
    back = await site.move(one.root, seen=two.revision)
    assert await site.diff(one.revision, back.revision) == []
    assert await pinned.read("gone") == b"g"
    with pytest.raises(ls.NotFoundError):
        await site.at(99)


async def test_unchanged_files_and_directories_are_shared(laser: ls.Laser, site: ls.Workspace) -> None:
    await site.edit({f"d{number}/f": f"{number}" for number in range(20)})
    one = await site.tree()
    await site.write("d3/f", "other")
    two = await site.tree()
    nodes = {info.path: info for info in await one.list(recursive=True)}
    shared = [info for info in await two.list(recursive=True) if nodes[info.path].ref == info.ref]
    assert len(shared) == 19
    content = laser.content("acme")
    old, new = [decode_tree(await content.get(view.root or "")) for view in (one, two)]
    assert [name for name in old if old[name] != new[name]] == ["d3"]


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../up", "a/../../b", "a//b", "./a", "a/.", "a\\b", "a\0b", "a\nb", "\ud800", "x" * 256]
)
async def test_paths_that_lead_elsewhere_are_refused(site: ls.Workspace, path: str) -> None:
    head = await site.head()
    with pytest.raises(ls.InvalidError, match="path"):
        await site.write(path, "x")
    assert await site.head() == head


@pytest.mark.parametrize(
    "arguments",
    [
        {"data": None},
        {"data": 7},
        {"seen": "1"},
        {"seen": True},
        {"seen": 0},
        {"note": ""},
        {"note": 7},
        {"note": "\ud800"},
        {"executable": "yes"},
        {"executable": 1},
        {"media_type": "text"},
    ],
    ids=repr,
)
async def test_arguments_of_another_kind_change_nothing(site: ls.Workspace, arguments: dict[str, Any]) -> None:
    await site.write("a", "1")
    head = await site.head()
    with pytest.raises(ls.InvalidError) as caught:
        await site.write("a", **({"data": "2"} | arguments))
    assert caught.value.argument == next(iter(arguments))
    assert await site.head() == head
    assert await site.read("a") == b"1"


async def test_a_rename_takes_nothing_too_deep(site: ls.Workspace) -> None:
    await site.edit({"a/b/c": "1"})
    head = await site.head()
    deep = "/".join(["d"] * (MAX_PATH_DEPTH - 1))
    with pytest.raises(ls.LimitError) as caught:
        await site.rename("a", deep)
    assert (caught.value.argument, caught.value.size) == ("to", MAX_PATH_DEPTH + 1)
    assert await site.head() == head
    await site.rename("a/b", deep)
    assert await site.read(f"{deep}/c") == b"1"


async def test_names_that_some_file_systems_take_for_one(site: ls.Workspace) -> None:
    await site.write("docs/Readme.md", "1")
    for clash in ("docs/README.md", "Docs/x"):
        with pytest.raises(ls.InvalidError, match="differ in case"):
            await site.write(clash, "2")
    await site.write("caf\u00e9", "1")
    with pytest.raises(ls.InvalidError, match="differ in case or accents"):
        await site.write("cafe\u0301", "2")
    await site.rename("docs/Readme.md", "docs/README.md")
    assert await paths(site) == ["caf\u00e9", "docs/README.md"]


async def test_files_and_directories_do_not_replace_each_other(site: ls.Workspace) -> None:
    await site.edit({"a/b": "1", "c": "2"})
    with pytest.raises(ls.ConflictError, match="is a directory"):
        await site.write("a", "x")
    with pytest.raises(ls.ConflictError, match="is a file"):
        await site.write("c/d", "x")
    with pytest.raises(ls.InvalidError, match="is a directory"):
        await site.read("a")
    with pytest.raises(ls.InvalidError, match="is a file"):
        await site.list("c")


async def test_names_of_workspaces(laser: ls.Laser, site: ls.Workspace) -> None:
    acme = laser.workspaces("acme")
    with pytest.raises(ls.ConflictError, match="exists already"):
        await acme.create("site")
    for name in ("", "a/b", "a\0", "x" * 129, "\ud800"):
        with pytest.raises(ls.InvalidError, match="name"):
            await acme.create(name)
    with pytest.raises(ls.NotFoundError, match="create it"):
        await acme.open("other")
    await acme.create("site2")
    assert await acme.list() == ["site", "site2"]
    await site.drop()
    assert await acme.list() == ["site2"]
    with pytest.raises(ls.NotFoundError):
        await site.head()
    again = await acme.create("site")
    assert (await again.head()).root is None
    assert len(await again.history()) == 1


async def test_tenants_see_nothing_of_each_other(laser: ls.Laser, site: ls.Workspace) -> None:
    head = await site.write("secret", "acme's")
    other = laser.workspaces("acme2")
    assert await other.list() == []
    with pytest.raises(ls.NotFoundError):
        await other.open("site")
    mine = await other.create("site")
    with pytest.raises(ls.NotFoundError):
        await other.snapshot(head.root).read("secret")
    with pytest.raises(ls.NotFoundError):
        await mine.move(head.root, seen=(await mine.head()).revision)
    assert await site.read("secret") == b"acme's"


async def test_collection_keeps_every_version_until_the_workspace_goes(laser: ls.Laser, site: ls.Workspace) -> None:
    await site.write("a", "first")
    await site.write("a", b"y" * 70_000)
    content = laser.content("acme")
    await content.collect(grace=0, upload_grace=0)
    assert await (await site.at(2)).read("a") == b"first"
    assert await site.read("a") == b"y" * 70_000
    await site.drop()
    report = await content.collect(grace=0, upload_grace=0)
    assert report.removed == 4
    assert (await content.collect(grace=0, upload_grace=0)).scanned == 0


async def test_a_topic_that_was_purged_has_no_workspaces(laser: ls.Laser, site: ls.Workspace) -> None:
    await site.write("a", "1")
    await laser.purge_topic(WORKSPACE_TOPIC)
    with pytest.raises(ls.NotFoundError):
        await site.head()
    again = await laser.workspaces("acme").create("site")
    assert await again.list() == []
    await again.write("b", "2")
    assert await paths(site) == ["b"]


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"laser":"tree.2","entries":{}}', b"\xff", b"[" * 100_000])
def test_bytes_that_are_no_tree(data: bytes) -> None:
    with pytest.raises(ls.CodecError):
        decode_tree(data)


@pytest.mark.parametrize(
    "entries",
    [
        '"A":{file},"a":{file}',
        '"caf\u00e9":{file},"cafe\u0301":{file}',
        '"a":{file_1}',
        '"a":{file_kind}',
        '"a":{"type":"tree","digest":"{digest}","files":-1,"size":1}',
    ],
)
def test_trees_that_nobody_could_have_made(entries: str) -> None:
    """A tree is content, and content can be put by hand."""
    file = '{"type":"file","digest":"{digest}","size":1,"media_type":"a/b"}'
    parts = {"{file}": file, "{file_1}": file.replace(":1", ":-1"), "{file_kind}": file.replace("a/b", "nonsense")}
    for name, text in parts.items():
        entries = entries.replace(name, text)
    data = f'{{"laser":"tree.1","entries":{{{entries}}}}}'.replace("{digest}", "0" * 64)
    with pytest.raises(ls.CodecError):
        decode_tree(data.encode())


@pytest.mark.parametrize("name", ["..", "a/b", "", "a\\\\b", "a\\u0000"])
def test_trees_with_names_that_lead_out_of_them(name: str) -> None:
    digest = "0" * 64
    data = f'{{"laser":"tree.1","entries":{{"{name}":{{"type":"tree","digest":"{digest}","files":1,"size":1}}}}}}'
    with pytest.raises(ls.CodecError):
        decode_tree(data.encode())


def test_heads_are_read_strictly() -> None:
    assert decode_head(b'{"type":"moved","tenant":"t","name":"n","seen":1}') == HeadMoved("t", "n", 1)
    for data in (b"", b"{}", b'{"type":"moved"}', b'{"type":"moved","tenant":1,"name":"n","seen":1}', b"[" * 100_000):
        with pytest.raises(ls.CodecError):
            decode_head(data)


@pytest.mark.parametrize("path", [None, 7, b"a", ["a"], {"a": 1}])
async def test_what_is_no_path(site: ls.Workspace, path: Any) -> None:
    before = await site.head()
    for call in (site.write(path, "x"), site.delete(path), site.read(path), site.rename(path, "b")):
        with pytest.raises(ls.InvalidError, match=r"^path: "):
            await call
    assert await site.head() == before
