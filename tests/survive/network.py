"""A network that goes wrong at random."""

from __future__ import annotations

import random

import anyio

from laser.testing.proxy import TcpProxy

__all__ = ["stall", "strike"]


async def strike(proxy: TcpProxy, rng: random.Random, long_stall: float, *, marker: bytes = b"writer") -> None:
    """One fault: a cut at a byte, a lost answer, a stall, a refusal, a slow moment.

    Args:
        long_stall: seconds that outlast the client's deadline. marker: in the requests whose answers get lost.
    """
    try:
        await _strike(proxy, rng, long_stall, marker)
    finally:
        proxy.resume()
        proxy.accepting = True
        proxy.delay = 0.0


async def _strike(proxy: TcpProxy, rng: random.Random, long_stall: float, marker: bytes) -> None:
    match rng.choice(["up", "down", "up", "down", "cut", "lose", "stall", "long stall", "refuse", "slow"]):
        case "up":
            proxy.cut_after(to_server=rng.randrange(1, 2_000))
        case "down":
            proxy.cut_after(to_client=rng.randrange(1, 4_000))
        case "cut":
            proxy.cut()
        case "lose":
            proxy.lose_answer(to=marker)
        case "stall":
            await stall(proxy, rng.random() * 0.3)
        case "long stall" if rng.random() < 0.1:
            await stall(proxy, long_stall)
        case "refuse":
            proxy.accepting = False
            proxy.cut()
            await anyio.sleep(rng.random() * 0.3)
        case _:
            proxy.delay = rng.random() * 0.03
            await anyio.sleep(0.1)


async def stall(proxy: TcpProxy, seconds: float) -> None:
    """Nothing comes through for a while."""
    proxy.stall()
    await anyio.sleep(seconds)
    proxy.resume()
