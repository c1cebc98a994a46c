"""The client: a connection to a log, and the way to everything on it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import Any

import anyio

from laser.client.opening import Target, read_target
from laser.context.assembly import assemble, choose_policy
from laser.context.batching import Batching
from laser.context.checkpoints import take_checkpoint
from laser.context.kv import KvNamespace
from laser.context.policies import PolicyLike
from laser.context.scope import ContextScope
from laser.errors import ClosedError, InvalidError, NotFoundError
from laser.limits import MAX_PARTITIONS
from laser.model.checkpoint import Checkpoint
from laser.model.checks import check_name
from laser.model.ids import parse_conversation_id
from laser.model.messages import Messages
from laser.model.topics import DURABILITIES, AgentTopic, Durability, TopicConfig, TopicInfo, TopicRetention
from laser.ports.kv import KeyValue
from laser.ports.log import EngineInfo, Log
from laser.session.sessions import Sessions

__all__ = ["Laser", "context_checkpoint"]


class Laser:
    """A connection to a log, and the way to everything on it. Made by ``connect``; close it, or use ``async with``.

    It may be used by many tasks of one event loop at once.
    """

    def __init__(self, log: Log, target: Target) -> None:
        self._log = log
        self._target = target
        self._kv: KeyValue | None = None
        self._kv_lock = anyio.Lock()
        self._closed = False

    @staticmethod
    def connect(
        url: str | None = None,
        *,
        stream: str | None = None,
        kv: str | None = None,
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
            stream: the stream's name; ``None`` takes the URL's, else ``LASER_STREAM``, else ``laser``.
            cache: bytes of records to keep for later reads; 0 keeps none. ``None`` keeps ``DEFAULT_CACHE_BYTES`` where
                the log is on a server. Every read still asks the log what is new and checks what is kept.
            timeout: seconds that a call may take before it ends with ``DeadlineError``.

        Raises:
            ConfigError: a URL of another form; raised when awaited or entered, as are the following.
            InvalidError: a bad stream name or timeout.
            DisconnectedError, AuthenticationError, DeadlineError, StorageError: the log cannot be opened.
        """
        return Connecting(url, kv, stream, cache, timeout)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._target.stream

    async def bootstrap(
        self, partitions: int = 4, retention: TopicRetention | None = None, *, durability: Durability | None = None
    ) -> list[TopicInfo]:
        """Creates the stream and every topic of ``AgentTopic``, once; what exists is left as it is.

        Args:
            partitions: of each topic, 1 to ``MAX_PARTITIONS``.
            retention: how long ``agent.sessions`` keeps its records; it needs an age or a size bound. The other
                topics keep everything: create one with ``ensure_topic`` first to give it a retention.
            durability: of every topic; ``None`` for the engine's default.

        Raises:
            InvalidError: no retention, one without a bound, or a bad value; nothing was created.
        """
        if not isinstance(retention, TopicRetention):
            raise InvalidError(
                "retention: agent.sessions needs one, for example TopicRetention(expire_after=timedelta(days=30))",
                argument="retention",
            )
        if not retention.is_bounded:
            raise InvalidError(
                "retention: never expires and has no size bound, so agent.sessions would grow for ever; "
                "give expire_after or max_size",
                argument="retention",
            )
        plain = self._config(partitions, None, durability)
        sessions = self._config(partitions, retention, durability)
        log = self.open_log()
        return [
            await log.ensure_topic(self._target.stream, topic, sessions if topic == AgentTopic.Sessions else plain)
            for topic in AgentTopic.ALL
        ]

    async def ensure_topic(
        self,
        name: str,
        partitions: int = 1,
        retention: TopicRetention | None = None,
        durability: Durability | None = None,
    ) -> TopicInfo:
        """Creates a topic, and the stream, where absent; an existing one is left as it is.

        Args:
            name: 1 to 255 bytes. partitions: 1 to ``MAX_PARTITIONS``. retention: ``None`` keeps everything.
            durability: what an acknowledged record survives: ``memory``, ``process`` or ``power``; ``None`` for the
                engine's default.

        Raises:
            InvalidError: a bad value; nothing was created. UnsupportedError: this log cannot give the durability.
        """
        check_name(name, "name")
        if retention is not None and not isinstance(retention, TopicRetention):
            raise InvalidError(
                f"retention: expected a TopicRetention, got {type(retention).__name__}", argument="retention"
            )
        config = self._config(partitions, retention, durability)
        return await self.open_log().ensure_topic(self._target.stream, name, config)

    async def topics(self) -> tuple[TopicInfo, ...]:
        """The stream's topics by name; none when the stream is absent."""
        return await self.open_log().topics(self._target.stream)

    async def topic(self, name: str) -> TopicInfo:
        """A topic with its partitions.

        Raises:
            NotFoundError: it is absent.
        """
        info = await self.open_log().topic(self._target.stream, check_name(name, "name"))
        if info is None:
            raise NotFoundError(
                f"topic {name!r} of stream {self._target.stream!r} does not exist; create it with "
                f"ensure_topic({name!r}), or all agent topics with bootstrap()",
                stream=self._target.stream,
                topic=name,
            )
        return info

    async def add_partitions(self, name: str, count: int) -> TopicInfo:
        """Adds partitions to a topic. From then on a conversation's new records may go to another partition than
        its old ones; reads look at all of them.

        Raises:
            NotFoundError: the topic is absent. InvalidError: ``count`` is not 1 or more, or too many.
        """
        check_name(name, "name")
        if type(count) is not int or not 1 <= count <= MAX_PARTITIONS:
            raise InvalidError(f"count: {count!r} is not a whole number from 1 to {MAX_PARTITIONS}", argument="count")
        return await self.open_log().add_partitions(self._target.stream, name, count)

    async def purge_topic(self, name: str) -> None:
        """Removes every record of a topic, for every conversation; offsets start at 0 again.

        Raises:
            NotFoundError: the topic is absent.
        """
        await self.open_log().purge(self._target.stream, check_name(name, "name"))

    async def delete_topic(self, name: str) -> None:
        """Removes a topic with every record.

        Raises:
            NotFoundError: the topic is absent.
        """
        await self.open_log().delete_topic(self._target.stream, check_name(name, "name"))

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

    def sessions(self) -> Sessions:
        """The stream's sessions. Does no I/O."""
        return Sessions(self)

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
        # Both are closed even when the first one fails or the caller is cancelled meanwhile.
        try:
            if self._kv is not None:
                await self._kv.aclose()
        finally:
            await self._log.aclose()

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

    @staticmethod
    def _config(partitions: int, retention: TopicRetention | None, durability: Durability | None) -> TopicConfig:
        if type(partitions) is not int or not 1 <= partitions <= MAX_PARTITIONS:
            raise InvalidError(
                f"partitions: {partitions!r} is not a whole number from 1 to {MAX_PARTITIONS}", argument="partitions"
            )
        if durability is not None and durability not in DURABILITIES:
            raise InvalidError(
                f"durability: {durability!r} is not one of {', '.join(DURABILITIES)}", argument="durability"
            )
        return TopicConfig(partitions, retention, durability)

    def __repr__(self) -> str:
        return f"Laser(stream={self.stream!r}, {'closed' if self._closed else type(self._log).__name__})"


class Connecting:
    """A connection to be: ``await`` gives a ``Laser``; ``async with`` gives one and closes it."""

    def __init__(self, url: str | None, kv: str | None, stream: str | None, cache: int | None, timeout: float) -> None:
        self._arguments = (url, kv, stream, cache, timeout)
        self._laser: Laser | None = None

    def __await__(self) -> Generator[Any, None, Laser]:
        return self._connect().__await__()

    async def __aenter__(self) -> Laser:
        self._laser = await self._connect()
        return self._laser

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._laser is not None:
            await self._laser.aclose()

    async def _connect(self) -> Laser:
        target = read_target(*self._arguments)
        return Laser(await target.open_log(), target)


async def context_checkpoint(laser: Laser, topics: Sequence[str]) -> Checkpoint:
    """Where topics end now, without a scope. Absent topics are not covered."""
    return await take_checkpoint(laser.open_log(), laser.stream, topics)
