"""Iggy servers for the checks."""

from __future__ import annotations

import laser as ls
from laser.testing.server import find_server_binary
from tests.survive.figures import CannotRunError


def need_server() -> None:
    """Raises unless there is a server program that a check may start and kill."""
    if find_server_binary() is None:
        raise CannotRunError("no iggy-server program: put it on the PATH or its path into LASER_TEST_IGGY_SERVER")


async def version(laser: ls.Laser) -> str:
    """The engine and its version, as the table shows them."""
    info = await laser.info()
    return f"{info.engine} {info.version}"
