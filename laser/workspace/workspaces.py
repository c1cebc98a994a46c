"""The workspaces of a tenant."""

from __future__ import annotations

from laser.content.content import Content
from laser.context.replay import Replay
from laser.context.spans import look_up, spans_full
from laser.errors import CodecError, InvalidError, LimitError
from laser.limits import MAX_WORKSPACE_NAME_BYTES
from laser.model.content import check_digest
from laser.workspace.heads import WORKSPACE_TOPIC, HeadState, decode_head
from laser.workspace.reading import WorkspaceConnection
from laser.workspace.tree_view import TreeView
from laser.workspace.trees import Trees
from laser.workspace.workspace import Workspace

__all__ = ["Workspaces"]


class Workspaces:
    """The workspaces of a tenant. ``Laser.workspaces`` makes it, without any I/O.

    Two kinds of links lead to files: a workspace's name, which means its head at the time it is read, and the digest
    of a tree, which always means the same files: ``Workspace.head().root``, and ``snapshot`` to read it.
    """

    def __init__(self, laser: WorkspaceConnection, tenant: str, agent: str | None = None) -> None:
        self._laser = laser
        self._content = Content(laser, tenant)
        self._agent = agent

    async def create(self, name: str, *, note: str | None = None) -> Workspace:
        """Makes an empty workspace.

        Raises:
            ConflictError: there is one of this name.
        """
        workspace = self.get(name)
        await workspace.create(note)
        return workspace

    async def open(self, name: str) -> Workspace:
        """A workspace that is there.

        Raises:
            NotFoundError: it is not.
        """
        workspace = self.get(name)
        await workspace.head()
        return workspace

    def get(self, name: str) -> Workspace:
        """A workspace by its name, without looking whether it is there."""
        return Workspace(self._laser, self._content, _check_name(name), self._agent)

    def snapshot(self, root: str | None) -> TreeView:
        """A version of a tree by its digest."""
        return TreeView(Trees(self._content), None if root is None else check_digest(root, "root"))

    async def list(self) -> list[str]:
        """The names of all workspaces."""
        log, stream, topics = self._laser.open_log(), self._laser.stream, [WORKSPACE_TOPIC]
        replay = Replay(log, stream, None, spans_full(topics, await look_up(log, stream, topics)))
        heads: dict[str, HeadState] = {}
        while (batch := await replay.next_batch()) is not None:
            for message in batch:
                try:
                    event = decode_head(message.payload)
                except CodecError:
                    continue
                if event.tenant == self._content.tenant:
                    head = heads.setdefault(event.name, HeadState())
                    head.apply(event, message.provenance.agent, message.timestamp_micros, message.record_id)
        return sorted(name for name, head in heads.items() if not head.deleted)

    def __repr__(self) -> str:
        return f"Workspaces(tenant={self._content.tenant!r})"


def _check_name(name: str) -> str:
    if not isinstance(name, str) or not name or any(c < " " or "\x7f" <= c <= "\x9f" or c == "/" for c in name):
        raise InvalidError(
            f"name: {name!r:.80} is no name of a workspace: text without slashes and control characters",
            argument="name",
        )
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidError("name: holds a lone surrogate, which UTF-8 cannot", argument="name") from error
    if size > MAX_WORKSPACE_NAME_BYTES:
        raise LimitError(
            f"name: has {size} bytes, allowed are {MAX_WORKSPACE_NAME_BYTES}",
            argument="name",
            size=size,
            limit=MAX_WORKSPACE_NAME_BYTES,
        )
    return name
