"""The client: a connection to a log, and the way to everything on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, cast

import anyio

from laser.client.connecting import Connecting
from laser.client.opening import Target, read_target
from laser.client.topics import TopicAdmin
from laser.content.store import ContentStore
from laser.context.assembly import assemble, choose_policy
from laser.context.batching import Batching
from laser.context.checkpoints import take_checkpoint
from laser.context.kv import KvNamespace
from laser.context.policies import PolicyLike
from laser.errors import ClosedError, InvalidError
from laser.limits import CONTENT_GRACE_SECONDS, MAX_INLINE_BYTES
from laser.model.checkpoint import Checkpoint
from laser.model.ids import parse_conversation_id
from laser.model.messages import Messages
from laser.ports.kv import KeyValue
from laser.ports.log import EngineInfo, Log
from laser.ports.view_store import Views
from laser.session.scope import ContextScope

if TYPE_CHECKING:
    from laser.compaction.compaction import Compaction
    from laser.compaction.registry import StrategyRegistry
    from laser.compaction.sizes import Estimator
    from laser.content.collecting import CollectReport
    from laser.content.content import Content
    from laser.graph.graph import Graph
    from laser.memory.memory import Backend, Memory
    from laser.memory.reranking import Rerank
    from laser.ports.embedder import Embedder
    from laser.ports.summarizer import Summarizer
    from laser.session.session import Session
    from laser.session.sessions import Sessions
    from laser.workspace.workspaces import Workspaces

__all__ = ["Laser", "context_checkpoint"]

T = TypeVar("T")


class Laser(TopicAdmin):
    """A connection to a log, and the way to everything on it. Made by ``connect``; close it, or use ``async with``.

    It may be used by many tasks of one event loop at once.
    """

    # The rooms are imported by the methods that lead to them: a program pays for those only that it enters.

    def __init__(self, log: Log, target: Target) -> None:
        self._log = log
        self._target = target
        self._kv: KeyValue | None = None
        self._kv_lock = anyio.Lock()
        self._content: ContentStore | None = None
        self._content_lock = anyio.Lock()
        self._views: Views | None = None
        self._views_lock = anyio.Lock()
        self._shared: dict[str, object] = {}
        self._closed = False

    @staticmethod
    def connect(
        url: str | None = None,
        *,
        stream: str | None = None,
        kv: str | None = None,
        catalog: str | None = None,
        objects: str | None = None,
        views: str | None = None,
        cache: int | None = None,
        timeout: float = 30.0,
    ) -> Connecting:
        """Connects to a log. Await it, or enter it with ``async with``.

        Args:
            url: where the log is; ``None`` takes ``LASER_CONNECTION_STRING``, else ``embedded:.laser``.

                - ``memory:`` in this process, gone with it.
                - ``embedded:DIRECTORY`` in a directory of this machine, for several processes at once.
                - ``iggy://USER:PASSWORD@HOST:PORT[,HOST:PORT…][/STREAM][?tls=true&…]`` or
                  ``USER:PASSWORD@HOST:PORT`` on Apache Iggy.
            kv: where the key-value store is: ``redis://HOST:PORT``, ``postgresql://HOST/DATABASE``, ``memory:`` or
                ``embedded:DIRECTORY``. ``None`` keeps it beside a log of this machine; a log on a server has none.
            catalog: where it is written down what content there is: ``postgresql://HOST/DATABASE``, ``memory:`` or
                ``embedded:DIRECTORY``. ``None`` keeps it beside a log of this machine; a log on a server has none.
            objects: where content of more than 64 KiB goes: ``memory:``, ``embedded:DIRECTORY`` or
                ``s3://[KEY_ID:SECRET@]BUCKET[/PREFIX]``, with ``?endpoint=`` and ``&region=`` for services other than
                AWS's; without a key in the URL the variables of AWS count. ``None`` keeps it beside a catalog of this
                machine; one on a server has none.
            views: where the read views of memory and graphs are: ``postgresql://HOST/DATABASE`` for all processes of
                several machines, ``embedded:DIRECTORY`` for those of this one, or ``memory:``.
                ``None`` keeps them beside an embedded log, else in memory, where each process folds the topic at its
                first recall. One database or directory is for the streams of one log.
            stream: the stream's name; ``None`` takes the URL's, else ``LASER_STREAM``, else ``laser``.
            cache: bytes of records to keep for later reads; 0 keeps none. ``None`` keeps ``DEFAULT_CACHE_BYTES`` where
                the log is on a server. Every read still asks the log what is new and checks what is kept.
            timeout: seconds that a call may take before it ends with ``DeadlineError``.

        Raises:
            ConfigError: a URL of another form; raised when awaited or entered, as are the following.
            InvalidError: a bad stream name or timeout.
            DisconnectedError, AuthenticationError, DeadlineError, StorageError: the log cannot be opened.
        """

        async def open_laser() -> Laser:
            target = read_target(url, kv, stream, cache, timeout, catalog, objects, views)
            return Laser(await target.open_log(), target)

        return Connecting(open_laser)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._target.stream

    async def info(self) -> EngineInfo:
        """What the log behind this client is; on a remote one also a check that it answers."""
        return await self.open_log().describe()

    def context(self, conversation_id: str) -> ContextScope:
        """The scope of one conversation. Does no I/O: a conversation begins with its first append.

        Args:
            conversation_id: from ``new_conversation_id()`` or ``derive_conversation_id(seed)``.

        Raises:
            IdError: not a conversation id.
        """
        return ContextScope(self, conversation_id)

    def batching(
        self,
        *,
        linger: float = 0.005,
        max_records: int = 512,
        max_bytes: int = 1_048_576,
        max_pending: int = 10_000,
    ) -> Batching:
        """Appends in the background, many at a time: ``async with laser.batching() as batch``.

        Args:
            linger: seconds that a record may wait for company, 0 to 60. max_records, max_bytes: a batch is sent at
                once when it has so many. max_pending: records that may wait; ``append`` waits above that.
        """
        return Batching(self, linger=linger, max_records=max_records, max_bytes=max_bytes, max_pending=max_pending)

    def kv(self, namespace: str) -> KvNamespace:
        """A namespace of the key-value store. Does no I/O; the store is opened at its first use.

        Args:
            namespace: 1 to ``MAX_KV_NAMESPACE_BYTES`` bytes.
        """
        return KvNamespace(self, namespace)

    def content(self, tenant: str, *, over: int = MAX_INLINE_BYTES) -> Content:
        """A tenant's content: immutable bytes by hash. Does no I/O; the stores are opened at their first use.

        Args:
            tenant: whose, 1 to ``MAX_TENANT_BYTES`` bytes. There is none by default: nobody's bytes get mixed up.
            over: ``append(…, content=…)`` keeps payloads of more bytes than this as content.
        """
        from laser.content.content import Content

        return Content(self, tenant, over)

    def workspaces(self, tenant: str) -> Workspaces:
        """A tenant's workspaces: versioned file trees that are kept as content. Does no I/O.

        Args:
            tenant: whose, 1 to ``MAX_TENANT_BYTES`` bytes.
        """
        from laser.workspace.workspaces import Workspaces

        return Workspaces(self, tenant)

    async def collect_content(
        self,
        *,
        grace: timedelta | float = CONTENT_GRACE_SECONDS,
        upload_grace: timedelta | float = CONTENT_GRACE_SECONDS,
        dry_run: bool = False,
        max_pages: int = 1_000_000,
    ) -> CollectReport:
        """Removes the content of all tenants that nothing keeps any more; see ``Content.collect``."""
        from laser.content.content import collect_content

        return await collect_content(self, None, grace, upload_grace, dry_run, max_pages)

    def memory(self, namespace: str) -> Memory:
        """What agents remember in a namespace, across conversations. Does no I/O.

        Args:
            namespace: 1 to 255 bytes; on the log it stands beside the stream's name, together at most 255 bytes.
        """
        from laser.memory.memory import Memory

        return Memory(self, namespace)

    def memory_with(
        self,
        namespace: str,
        backend: Backend = "auto",
        *,
        embedder: Embedder | None = None,
        rerank: Rerank | None = None,
        graph: str | None = None,
    ) -> Memory:
        """A memory with more ways to recall. Does no I/O.

        Args:
            backend, embedder, rerank: see ``Memory``.
            graph: the graph whose names the strategy ``graph`` follows.
        """
        from laser.memory.memory import Memory
        from laser.session.relating import related_by

        related = None if graph is None else related_by(self.graph(graph))
        return Memory(self, namespace, backend, embedder=embedder, rerank=rerank, related=related)

    def graph(self, name: str) -> Graph:
        """A knowledge graph of the stream, shared by its conversations. Does no I/O.

        Args:
            name: 1 to ``MAX_GRAPH_NAME_BYTES`` bytes.
        """
        from laser.graph.graph import Graph

        return Graph(self, name)

    def sessions(self) -> Sessions:
        """The stream's sessions. Does no I/O."""
        from laser.session.sessions import Sessions

        return Sessions(self)

    def compaction(
        self,
        session: Session | str,
        *,
        summarizer: Summarizer | None = None,
        registry: StrategyRegistry | None = None,
        estimator: Estimator | None = None,
        timeout: float = 120.0,
        agent: str | None = None,
    ) -> Compaction:
        """What model calls show of a long session. Does no I/O; keep the handle while you work on the session.

        Args:
            session: a session, its id, or any conversation's. Others: see ``Compaction``.
        """
        from laser.compaction.compaction import Compaction

        if not isinstance(session, str):
            from laser.session.views import SessionViews

            if not isinstance(session, SessionViews):
                raise InvalidError(
                    f"session: expected a Session or its id, got {type(session).__name__}", argument="session"
                )
            session = session.id
        return Compaction(
            self,
            session,
            summarizer=summarizer,
            registry=registry,
            estimator=estimator,
            timeout=timeout,
            agent=agent,
        )

    async def assemble_context(
        self,
        conversation_id: str,
        *,
        topics: Sequence[str] | None = None,
        last_n: int | None = None,
        roles: Sequence[str] | None = None,
        token_budget: int | None = None,
        policy: PolicyLike | None = None,
        across_subconversations: bool = False,
        from_offsets: Mapping[int, int] | None = None,
        from_checkpoint: Checkpoint | None = None,
        to_checkpoint: Checkpoint | None = None,
    ) -> Messages:
        """Reads a conversation without a scope, with every control.

        Args:
            topics: names; ``None`` reads ``agent.sessions``.
            last_n: newest messages to keep; 50 by default, no limit with ``roles``.
            roles: keep messages of these agents. token_budget: tokens that the messages may cost together.
            policy: replaces ``last_n``, ``roles`` and ``token_budget``.
            across_subconversations: also messages of conversations whose parent or root this one is.
            from_offsets: first offset by partition, the same map for every topic.
            from_checkpoint: resume there; overrides ``from_offsets``. A partition that it lacks starts at 0.
            to_checkpoint: stop there. A partition that it lacks reads as empty.

        Returns:
            The messages, oldest first. Each partition's read examines its newest ``CONTEXT_READ_WINDOW`` raw records,
            or as many that end at ``to_checkpoint``; a start moves the read forward, never back.

        Raises:
            InvalidError: a bad argument; nothing was read.
            StaleCheckpointError: the log is not the one of a checkpoint. RetentionGapError: records of the read
                window that come after ``from_checkpoint`` are gone.
        """
        chosen = choose_policy(last_n=last_n, roles=roles, token_budget=token_budget, policy=policy)
        return await assemble(
            self.open_log(),
            self._target.stream,
            parse_conversation_id(conversation_id),
            chosen,
            topics=topics,
            across_subconversations=across_subconversations,
            from_offsets=from_offsets,
            from_checkpoint=from_checkpoint,
            to_checkpoint=to_checkpoint,
        )

    async def aclose(self) -> None:
        """Closes the client. Appends under way finish first. Calling it again does nothing."""
        self._closed = True
        # All are closed even when one fails or the caller is cancelled meanwhile; the log comes last.
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._log.aclose)
            for store in (self._views, self._content, self._kv):
                if store is not None:
                    stack.push_async_callback(store.aclose)

    async def __aenter__(self) -> Laser:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def open_log(self) -> Log:
        """The log port behind this client, for code that builds on the port itself.

        Raises:
            ClosedError: the client was closed.
        """
        if self._closed:
            raise ClosedError("this Laser was closed; connect again")
        return self._log

    async def open_kv(self) -> KeyValue:
        """The key-value port behind this client, opened at its first use.

        Raises:
            ClosedError: the client was closed. ConfigError: the log is on a server and ``kv=`` was not given.
        """
        self.open_log()
        async with self._kv_lock:
            if self._kv is None:
                self._kv = await self._target.open_kv()
            return self._kv

    async def open_content(self) -> ContentStore:
        """The content catalog and the object store behind this client, opened at their first use.

        Raises:
            ClosedError: the client was closed. ConfigError: the log is on a server and ``catalog=`` was not given.
        """
        self.open_log()
        async with self._content_lock:
            if self._content is None:
                self._content = await self._target.open_content()
            return self._content

    async def open_views(self) -> Views:
        """The read views behind this client, opened at their first use.

        Raises:
            ClosedError: the client was closed. StorageError: they cannot be opened.
        """
        self.open_log()
        async with self._views_lock:
            if self._views is None:
                self._views = await self._target.open_views()
            return self._views

    def share(self, key: str, make: Callable[[], T]) -> T:
        """What a room keeps once for all its handles of this client, made at the first call for a key."""
        if key not in self._shared:
            self._shared[key] = make()
        return cast("T", self._shared[key])

    def __repr__(self) -> str:
        return f"Laser(stream={self.stream!r}, {'closed' if self._closed else type(self._log).__name__})"


async def context_checkpoint(laser: Laser, topics: Sequence[str]) -> Checkpoint:
    """Where topics end now, without a scope. Absent topics are not covered."""
    return await take_checkpoint(laser.open_log(), laser.stream, topics)
