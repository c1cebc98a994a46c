"""Trees: a directory as content, which names the content of its files and the trees of its directories."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Final

import msgspec

from laser.content.content import Content
from laser.errors import CodecError, ConflictError, InvalidError, LimitError, NotFoundError
from laser.limits import MAX_CONTENT_REFS
from laser.model.content import ContentRef, check_digest
from laser.workspace.paths import check_name, clash_of, join_path

__all__ = ["TREE_TYPE", "FileNode", "Node", "Tree", "TreeNode", "Trees", "decode_tree", "encode_tree"]

TREE_TYPE: Final = "application/vnd.laser.tree+json"
"""The media type of a tree."""

_KNOWN: Final = 4_096


_Count = Annotated[int, msgspec.Meta(ge=0)]


class FileNode(msgspec.Struct, frozen=True, tag="file", omit_defaults=True):
    """A file. digest: of its bytes. size: bytes. executable: whether it is to be run."""

    digest: str
    size: _Count
    media_type: str
    executable: bool = False


class TreeNode(msgspec.Struct, frozen=True, tag="tree"):
    """A directory. digest: of its tree. files: all that are in it and below. size: their bytes."""

    digest: str
    files: _Count
    size: _Count


Node = FileNode | TreeNode
Tree = Mapping[str, Node]


class _Stored(msgspec.Struct, frozen=True, tag_field="laser", tag="tree.1"):
    entries: dict[str, Node]


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Stored)


def encode_tree(tree: Tree) -> bytes:
    """The bytes of a tree: the same for the same entries.

    Raises:
        InvalidError: two names are one on file systems that do not tell cases apart. LimitError: too many entries.
    """
    if len(tree) > MAX_CONTENT_REFS:
        raise LimitError(
            f"path: a directory would have {len(tree)} entries, allowed are {MAX_CONTENT_REFS}",
            argument="path",
            size=len(tree),
            limit=MAX_CONTENT_REFS,
        )
    clash = clash_of(tree)
    if clash is not None:
        raise InvalidError(
            f"path: {clash[1]!r} and {clash[0]!r} differ in case or accents only, which not every file system tells "
            "apart",
            argument="path",
        )
    return _encoder.encode(_Stored(dict(sorted(tree.items()))))


def decode_tree(data: bytes) -> Tree:
    """The tree in bytes.

    Raises:
        CodecError: they are none, or one with a name that leads out of it, or two that some file systems take for one.
    """
    try:
        stored: _Stored = _decoder.decode(data)
        for name, node in stored.entries.items():
            check_name(name)
            if isinstance(node, FileNode):
                file_ref(node)
            else:
                check_digest(node.digest, "digest")
        clash = clash_of(stored.entries)
        if clash is not None:
            raise InvalidError(f"{clash[0]!r} and {clash[1]!r} differ in case or accents only", argument="path")
    except (msgspec.MsgspecError, RecursionError, InvalidError) as error:
        raise CodecError(f"tree: {str(error)[:200]}") from error
    return stored.entries


class Trees:
    """Reads and writes the trees of a tenant. Trees never change, so those that were read are remembered."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self._known: OrderedDict[str, Tree] = OrderedDict()

    async def load(self, digest: str | None) -> Tree:
        """A tree; an empty one for ``None``."""
        if digest is None:
            return {}
        known = self._known.get(digest)
        if known is None:
            known = decode_tree(await self.content.get(digest))
            self._remember(digest, known)
        else:
            self._known.move_to_end(digest)
        return known

    async def store(self, tree: Tree) -> TreeNode:
        """Puts a tree. Its files and directories must be there."""
        data = encode_tree(tree)
        children = list(dict.fromkeys(node.digest for node in tree.values()))
        ref = await self.content.put(data, media_type=TREE_TYPE, children=children)
        self._remember(ref.digest, tree)
        files = sum(node.files if isinstance(node, TreeNode) else 1 for node in tree.values())
        return TreeNode(ref.digest, files, sum(node.size for node in tree.values()))

    async def find(self, root: str | None, parts: Iterable[str]) -> Node | None:
        """What is at a path; ``None`` where nothing is."""
        node: Node | None = None if root is None else TreeNode(root, 0, 0)
        for part in parts:
            if not isinstance(node, TreeNode):
                return None
            node = (await self.load(node.digest)).get(part)
        return node

    async def set(self, root: str | None, parts: tuple[str, ...], node: Node | None) -> str | None:
        """The root of a tree with something else at a path, or nothing. Directories come and go as they are needed.

        Raises:
            ConflictError: a file stands where a directory would have to be, or the other way round.
        """
        name, rest = parts[0], parts[1:]
        tree = dict(await self.load(root))
        before = tree.get(name)
        if rest:
            if isinstance(before, FileNode):
                raise ConflictError(f"path: {name!r} is a file, so nothing can be in it")
            below = await self.set(None if before is None else before.digest, rest, node)
            changed: Node | None = None if below is None else await self._node_of(below)
        else:
            if isinstance(before, TreeNode) and isinstance(node, FileNode):
                raise ConflictError(f"path: {name!r} is a directory; delete it first")
            changed = node
        if changed is None:
            tree.pop(name, None)
        else:
            tree[name] = changed
        return (await self.store(tree)).digest if tree else None

    async def walk(self, root: str | None, prefix: str = "") -> AsyncGenerator[tuple[str, FileNode], None]:
        """Every file of a tree with its path, in the order of names."""
        for name, node in sorted((await self.load(root)).items()):
            path = join_path(prefix, name)
            if isinstance(node, FileNode):
                yield path, node
            else:
                async with aclosing(self.walk(node.digest, path)) as below:
                    async for found in below:
                        yield found

    async def diff(
        self, before: str | None, after: str | None, prefix: str = ""
    ) -> AsyncGenerator[tuple[str, FileNode | None, FileNode | None], None]:
        """Files that differ between two trees: path, before, after. Directories that are the same are not read."""
        if before == after:
            return
        old, new = await self.load(before), await self.load(after)
        for name in sorted(old.keys() | new.keys()):
            first, second = old.get(name), new.get(name)
            if first == second:
                continue
            path = join_path(prefix, name)
            old_file = first if isinstance(first, FileNode) else None
            new_file = second if isinstance(second, FileNode) else None
            if old_file is not None or new_file is not None:
                yield path, old_file, new_file
            old_tree = first.digest if isinstance(first, TreeNode) else None
            new_tree = second.digest if isinstance(second, TreeNode) else None
            async with aclosing(self.diff(old_tree, new_tree, path)) as below:
                async for found in below:
                    yield found

    async def _node_of(self, digest: str) -> TreeNode:
        tree = await self.load(digest)
        files = sum(node.files if isinstance(node, TreeNode) else 1 for node in tree.values())
        return TreeNode(digest, files, sum(node.size for node in tree.values()))

    def _remember(self, digest: str, tree: Tree) -> None:
        self._known[digest] = tree
        self._known.move_to_end(digest)
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)


def file_ref(node: FileNode) -> ContentRef:
    """The reference of a file's bytes."""
    return ContentRef(node.digest, node.media_type)


def absent(path: str) -> NotFoundError:
    """There is no such file."""
    return NotFoundError(f"path: there is no {path!r} in the workspace")
