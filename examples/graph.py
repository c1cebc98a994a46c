"""What agents know, as a graph that remembers what was true when. Run it with: python examples/graph.py"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import laser as ls


async def main() -> None:
    async with ls.Laser.connect("memory:") as laser:
        await laser.ensure_topic(ls.AgentTopic.Sessions)
        ticket = laser.context(ls.derive_conversation_id("ticket-7341"))
        await ticket.append(ls.AgentTopic.Sessions, "I left Acme for Globex in March.", agent="Alice")
        (message,) = await ticket.fetch()

        # Facts from elsewhere, many at once.
        graph = laser.graph("people")
        await graph.upsert(
            [ls.Node("Person", "Bob", {"role": "lead"}), "Person:Alice", "Company:Acme", "City:Oslo"],
            [
                ls.Edge.between("Person:Alice", "works_at", "Company:Acme"),
                ls.Edge.between("Person:Bob", "works_at", "Company:Acme", weight=0.9),
                ls.Edge.between("Company:Acme", "located_in", "City:Oslo"),
            ],
        )

        # What an agent learnt in a conversation, with the message that says so.
        march = datetime(2026, 3, 1, tzinfo=UTC)
        await ticket.graph("people").relink("Person:Alice", "works_at", "Company:Globex", at=march, source=message)

        now = await graph.neighbors("Person:Alice", edge_type="works_at", as_of=march)
        before = await graph.neighbors("Person:Alice", edge_type="works_at", as_of=march - timedelta(days=1))
        print("Alice works at", [hit.node.value for hit in now])
        print("before, at", [hit.node.value for hit in before])

        hops = [ls.Hop("located_in", "in"), ls.Hop("works_at", "in", label="Person")]
        here = await graph.traverse("City:Oslo", hops, as_of=march)
        print("people in Oslo:", [node.value for node in here])

        for triplet in await graph.traverse("Person:Alice", ["works_at"], as_of=march, returns="triplets"):
            by = triplet.edge.asserted
            known = by is not None and by.conversation == ticket.conversation
            print(f"Alice -{triplet.edge.type}-> {triplet.target.value}, said in ticket-7341: {known}")


if __name__ == "__main__":
    asyncio.run(main())
