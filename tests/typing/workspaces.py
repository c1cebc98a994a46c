# pyright: strict
"""Not run: workspaces as a user writes them, and the types that every checker must see in it."""

from __future__ import annotations

from typing import assert_type

import laser as ls


async def edits(laser: ls.Laser) -> None:
    found = laser.workspaces("acme")
    assert_type(found, ls.Workspaces)
    site = await found.create("site", note="new")
    assert_type(site, ls.Workspace)
    head = await site.write("a", b"1", seen=1)
    assert_type(head, ls.Head)
    assert_type(await site.edit({"a": "text", "b": None}), ls.Head)
    assert_type(await site.list(recursive=True), list[ls.FileInfo])
    assert_type(await site.read("a"), bytes)
    assert_type(await site.diff(1), list[ls.Change])
    assert_type(await site.at(1), ls.TreeView)
    assert_type(await site.import_("directory"), ls.ImportReport)
    assert_type(await site.export("directory"), int)
    assert_type(await site.history(), list[ls.Version])
    assert_type(await found.list(), list[str])
