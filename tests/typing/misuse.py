"""Not run: what must not type-check. mypy --strict reports an ignore that nothing needs, so each line stays wrong."""

from __future__ import annotations

import laser as ls


async def misuses(laser: ls.Laser, ctx: ls.ContextScope) -> None:
    await laser.bootstrap(partitions="4")  # type: ignore[arg-type]
    await ctx.append(ls.AgentTopic.Sessions, {"role": "user"})  # type: ignore[arg-type]
    await ctx.append(ls.AgentTopic.Sessions, b"x", "planner")  # type: ignore[call-arg]
    await ctx.fetch(20)  # type: ignore[call-arg,arg-type]
    await ctx.fetch_with([ls.AgentTopic.Sessions], 20)  # type: ignore[arg-type]
    await ctx.fetch_with([ls.AgentTopic.Sessions], ls.LastN)  # type: ignore[arg-type]
    await laser.ensure_topic("notes", durability="eternal")  # type: ignore[arg-type]
    ls.AgentTopic.Sessions = "other"  # type: ignore[misc]
    await laser.memory("notes").remember({"a": 1})  # type: ignore[arg-type]
    await laser.memory("notes").remember("x", kind="Fact")  # type: ignore[arg-type]
    await laser.memory("notes").recall("x", strategy="best")  # type: ignore[arg-type]
    laser.memory_with("notes", embedder=len)  # type: ignore[arg-type]
    with ls.Laser.connect():  # type: ignore[attr-defined]
        pass
