"""The topics of a client's stream: making them, looking at them, emptying and removing them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from laser.errors import InvalidError, NotFoundError
from laser.limits import MAX_PARTITIONS
from laser.model.checks import check_name, shown
from laser.model.topics import DURABILITIES, AgentTopic, Durability, TopicConfig, TopicInfo, TopicRetention
from laser.ports.log import Log

__all__ = ["TopicAdmin"]


class TopicAdmin(ABC):
    """What a client does with topics as a whole. ``Laser`` is one."""

    @property
    @abstractmethod
    def stream(self) -> str:
        """The stream's name."""

    @abstractmethod
    def open_log(self) -> Log:
        """The log port behind this client."""

    async def bootstrap(
        self, partitions: int = 4, retention: TopicRetention | None = None, *, durability: Durability | None = None
    ) -> list[TopicInfo]:
        """Creates the stream and every topic of ``AgentTopic``, once; what exists is left as it is.

        Args:
            partitions: of each topic, 1 to ``MAX_PARTITIONS``.
            retention: how long ``agent.sessions`` keeps its records; it needs an age or a size bound. The other
                topics keep everything: create one with ``ensure_topic`` first to give it a retention.
            durability: of every topic; ``None`` for the engine's default, see ``ensure_topic``.

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
        plain = _config(partitions, None, durability)
        sessions = _config(partitions, retention, durability)
        log = self.open_log()
        return [
            await log.ensure_topic(self.stream, topic, sessions if topic == AgentTopic.Sessions else plain)
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
            durability: what an acknowledged record survives: ``memory`` (the death of this process, where the log is
                elsewhere), ``process`` (also ``kill -9`` of the process that took it) or ``power`` (also a power
                cut). ``None`` for the engine's default: on Iggy the strongest that the server offers, which is
                ``power``; ``process`` in a directory, where ``power`` too has to be asked for.

        Raises:
            InvalidError: a bad value; nothing was created. UnsupportedError: this log cannot give the durability.
        """
        check_name(name, "name")
        if retention is not None and not isinstance(retention, TopicRetention):
            raise InvalidError(
                f"retention: expected a TopicRetention, got {type(retention).__name__}", argument="retention"
            )
        config = _config(partitions, retention, durability)
        return await self.open_log().ensure_topic(self.stream, name, config)

    async def topics(self) -> tuple[TopicInfo, ...]:
        """The stream's topics by name; none when the stream is absent."""
        return await self.open_log().topics(self.stream)

    async def topic(self, name: str) -> TopicInfo:
        """A topic with its partitions.

        Raises:
            NotFoundError: it is absent.
        """
        info = await self.open_log().topic(self.stream, check_name(name, "name"))
        if info is None:
            raise NotFoundError(
                f"topic {name!r} of stream {self.stream!r} does not exist; create it with "
                f"ensure_topic({name!r}), or all agent topics with bootstrap()",
                stream=self.stream,
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
            raise InvalidError(
                f"count: {shown(count)} is not a whole number from 1 to {MAX_PARTITIONS}", argument="count"
            )
        return await self.open_log().add_partitions(self.stream, name, count)

    async def purge_topic(self, name: str) -> None:
        """Removes every record of a topic, for every conversation; offsets start at 0 again.

        Raises:
            NotFoundError: the topic is absent.
        """
        await self.open_log().purge(self.stream, check_name(name, "name"))

    async def delete_topic(self, name: str) -> None:
        """Removes a topic with every record.

        Raises:
            NotFoundError: the topic is absent.
        """
        await self.open_log().delete_topic(self.stream, check_name(name, "name"))


def _config(partitions: int, retention: TopicRetention | None, durability: Durability | None) -> TopicConfig:
    if type(partitions) is not int or not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidError(
            f"partitions: {shown(partitions)} is not a whole number from 1 to {MAX_PARTITIONS}", argument="partitions"
        )
    if durability is not None and durability not in DURABILITIES:
        raise InvalidError(
            f"durability: {shown(durability)} is not one of {', '.join(DURABILITIES)}", argument="durability"
        )
    return TopicConfig(partitions, retention, durability)
