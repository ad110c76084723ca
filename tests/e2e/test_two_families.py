"""Two families: edges of two cores that never heard of each other, joined by a group link alone (R-C28)."""

from __future__ import annotations

from collections.abc import AsyncIterable
from pathlib import Path

from overlay_nodes import core, edge
from rig import NodeProcess, Rig, rig

from router import connect
from router.client.received import Received

GROUP = "reunion"


def family(found: Rig, name: str) -> tuple[NodeProcess, NodeProcess]:
    """Return a core and an edge of it, not started."""
    up, down = core(found, f"core-{name}"), edge(found, f"edge-{name}")
    up.serves(down)
    return up, down


async def first_of(messages: AsyncIterable[Received]) -> bytes:
    async for message in messages:
        return message.body
    raise AssertionError("the loop ended")


async def test_a_group_link_leads_one_core_to_the_other(tmp_path: Path) -> None:
    """The link names the core of the member who shared it; a node that adds the link names that core to its own core,
    which dials it."""
    async with rig(tmp_path) as found:
        (core_1, edge_1), (core_2, edge_2) = family(found, "1"), family(found, "2")
        for one in (core_1, edge_1, core_2, edge_2):
            await one.start()
        assert (await edge_1.run("group", "new", GROUP)).code == 0
        link = (await edge_1.run("group", "share", GROUP, "--json")).json["link"]
        assert (await edge_2.run("group", "add", link)).code == 0
        async with connect(home=edge_1.home, as_name="ann") as ann, connect(home=edge_2.home, as_name="bob") as bob:
            at_ann = await ann.join(GROUP)
            await at_ann.publish(b"is anybody there?")
            at_bob = await bob.join(GROUP)
            assert await first_of(at_bob) == b"is anybody there?", "said before the cores had met"
            await at_bob.publish(b"we are")
            assert await first_of(at_ann) == b"we are"
        standings = {row["address"]: row["standing"] for row in await core_2.ask("peers")}
        assert standings[core_1.address.hex()] == "met"
        assert edge_1.address.hex() not in standings, "the edge of the other family is none of its business"
        for one in (edge_1, edge_2):
            assert "met" not in {row["standing"] for row in await one.ask("peers")}, "edges talk to their cores alone"
