"""Limits of the briefing, at their edge and one beyond."""

from __future__ import annotations

import pytest

import laser as ls
import laser.prompt as lp
from laser import limits

pytestmark = pytest.mark.anyio


def test_fields_of_a_briefing() -> None:
    names = [f"field_{number}" for number in range(limits.MAX_BRIEFING_FIELDS)]
    assert lp.Briefing(*names).fields == tuple(names)
    with pytest.raises(ls.LimitError) as caught:
        lp.Briefing(*names, "one_more")
    assert (caught.value.argument, caught.value.size) == ("fields", limits.MAX_BRIEFING_FIELDS + 1)


async def test_values_of_a_briefing(laser: ls.Laser, scope: ls.ContextScope) -> None:
    edge, briefing = "é" * (limits.MAX_BRIEFING_VALUE_BYTES // 2), lp.Briefing("size")
    await briefing.update(laser, scope, "size", edge)
    await briefing.set_next_step(laser, scope, edge)
    assert await briefing.read(laser, scope) == {"size": edge}
    for call in (briefing.update(laser, scope, "size", edge + "x"), briefing.set_next_step(laser, scope, edge + "x")):
        with pytest.raises(ls.LimitError) as caught:
            await call
        assert caught.value.size == limits.MAX_BRIEFING_VALUE_BYTES + 1
    assert (await briefing.read(laser, scope)).next_step == edge
