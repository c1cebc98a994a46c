"""Taking summaries along to a fork: no model is asked again."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laser.compaction.events import Saved
from laser.compaction.lcm.nodes import LCM, LcmState, Node, read_tree
from laser.compaction.saved import SavedState
from laser.compaction.sizes import message_cost
from laser.compaction.transcript import History, Transcript
from laser.context.connection import Connection
from laser.model.ids import new_conversation_id, parse_conversation_id

__all__ = ["copy_nodes"]


async def copy_nodes(
    laser: Connection, parent: str, child: str, mapping: Mapping[int, int] | None = None, *, agent: str | None = None
) -> int:
    """Copies the nodes whose whole source a fork has, with the links between them, under numbers of their own.

    A node that crosses the fork's beginning is left out; those of its children that do not are copied. Call it once,
    before anybody compacts the fork: where the fork has nodes already, nothing is written.

    Args:
        parent, child: the sessions. mapping: from the place of a row in the parent to its place in the child,
            ``SourceRef.seq``, for every row that was copied. ``None``: the child's rows are compared with the parent's,
            from the first on, for as long as they are the same.

    Returns:
        How many nodes were copied.
    """
    parent, child = parse_conversation_id(parent), parse_conversation_id(child)
    source, target = SavedState(laser, parent, agent), SavedState(laser, child, agent)
    await source.catch_up()
    await target.catch_up()
    if not source.records(LCM) or target.records(LCM):
        return 0
    rows = Transcript(laser, parent, message_cost)
    await rows.catch_up()
    history = rows.history
    if mapping is None:
        mapping = await _same_rows(laser, history, child)
    states = [record.state for record in source.records(LCM)]
    tree = read_tree(states, history, history.floor, {})
    numbers: dict[int, int] = {}
    base: str | None = None
    for number in sorted(tree.nodes):
        node = _moved(tree.nodes[number], numbers, mapping, history)
        if node is None:
            continue
        record = new_conversation_id()
        state = msgspec.Raw(msgspec.json.encode(LcmState(node)))
        if not await target.append(Saved(record, LCM, base, state)):
            return len(numbers)
        numbers[number] = node.number
        base = record
    return len(numbers)


async def _same_rows(laser: Connection, parent: History, child: str) -> dict[int, int]:
    copies = Transcript(laser, child, message_cost)
    await copies.catch_up()
    found: dict[int, int] = {}
    for row, copied in zip(parent.rows, copies.history.rows, strict=False):
        if row.payload != copied.payload:
            break
        found[row.seq] = copied.seq
    return found


def _moved(node: Node, numbers: Mapping[int, int], mapping: Mapping[int, int], parent: History) -> Node | None:
    if not all(child in numbers for child in node.children):
        return None
    spans: list[tuple[int, int]] = []
    for first, last in node.spans:
        if not all(seq in mapping for seq in (first, last, *(row.seq for row in parent.between(first, last)))):
            return None
        spans.append((mapping[first], mapping[last]))
    children = tuple(numbers[child] for child in node.children)
    return msgspec.structs.replace(node, number=len(numbers) + 1, spans=tuple(spans), children=children)
