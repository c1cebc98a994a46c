"""Raw polls: trusted only after the server has shown that its bytes are laid out as ``raw`` reads them."""

from __future__ import annotations

import logging
from typing import Final

from apache_iggy import IggyClient

from laser.engines.iggy.link import Misplaced
from laser.engines.iggy.links import Links
from laser.engines.iggy.polls import CONSUMER_NAME, Poll, read_stretch
from laser.engines.iggy.raw import POLL_COMMAND, RawPage, poll_body
from laser.errors import CodecError
from laser.model.records import LogRecord
from laser.wire.blocks import Header, decode_block

__all__ = ["RawPolls", "body_of", "read_reply"]

_logger = logging.getLogger("laser.engines.iggy")

_CHECKED_RECORDS: Final = 16
_CHECKS: Final = 3


class RawPolls:
    """The raw polls of one log.

    Attributes:
        usable: ``None`` until the check was made, then whether the bytes can be trusted.
    """

    def __init__(self, links: Links) -> None:
        self._links = links
        self._checks_left = _CHECKS
        self.usable: bool | None = None

    async def page(self, poll: Poll) -> RawPage | None:
        """The records of a poll, ``None`` where the ordinary way must be taken.

        Raises:
            What an ordinary poll raises.
        """
        if self.usable is False:
            return None
        body = body_of(poll)

        async def request(client: IggyClient) -> RawPage:
            return read_reply(poll, await client.send_binary_request(POLL_COMMAND, body))

        try:
            page = await self._links.repeat(request, poll.target, poll.deadline, size=poll.size)
        except CodecError as error:
            self._give_up(str(error))
            return None
        if page is not None and len(page) and self.usable is None:
            await self._check(poll, page)
        return page if self.usable or (page is not None and not len(page)) else None

    async def _check(self, poll: Poll, page: RawPage) -> None:
        """Reads the first records of a page the ordinary way too: they must be the same."""
        few = page[: min(len(page), _CHECKED_RECORDS)]
        again = Poll(poll.target, poll.partition, few[0].offset, len(few), poll.deadline)
        stretch = await read_stretch(self._links, again, None)
        if list(map(_comparable, stretch.records)) == list(map(_comparable, few)):
            self.usable = True
            return
        # Retention or a purge may have come in between; a layout that is not understood fails again.
        self._checks_left -= 1
        if not self._checks_left:
            self._give_up("the same records read both ways differ")

    def _give_up(self, reason: str) -> None:
        if self.usable is not False:
            _logger.warning("the server's polls cannot be read as bytes, reading them the slower way: %s", reason)
        self.usable = False


def body_of(poll: Poll) -> bytes:
    """The body of the command that makes a poll."""
    target = poll.target
    return poll_body(target.stream, target.topic, CONSUMER_NAME, poll.partition, poll.start, poll.count)


def read_reply(poll: Poll, reply: bytes) -> RawPage:
    """The page that a reply is.

    Raises:
        Misplaced: it is of another partition. CodecError: it does not fit the layout.
    """
    page = RawPage(reply, poll.start, poll.count)
    if page.partition != poll.partition:
        raise Misplaced
    return page


def _comparable(record: LogRecord) -> tuple[int, int, int, int, frozenset[Header] | bytes, bytes]:
    # The driver gives headers without their order, and none at all when they are damaged.
    headers: frozenset[Header] | bytes
    try:
        headers = frozenset(decode_block(record.headers))
    except CodecError:
        headers = b""
    return record.partition, record.offset, record.id, record.timestamp_micros, headers, record.payload
