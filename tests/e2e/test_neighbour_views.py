"""`peer list` and `peers` of a core and its edge: how each shows the other, connected and away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raw_link import linked
from rig import new_key, rig

from router.rig.process import until

KEYS = {"address", "name", "learned", "urls", "last_contact_s", "rtt_ms", "offset_ms", "state", "shared"}


async def test_a_neighbour_is_shown_connected_and_away(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        await core.start()
        await edge.start()
        await core.until_connected(edge.address)

        async def of_edge() -> list[dict[str, Any]]:
            return [one for one in await core.ask("peers") if one["address"] == edge.address.hex()]

        async with linked(edge, new_key()) as app:
            assert await app.join(new_key().public)

            async def is_shared() -> bool:
                return [one["shared"] for one in await of_edge()] == [1]

            await until("the core knows the group that its edge wants", is_shared)
            [seen] = (await edge.run("peer", "list", "--json")).json
            assert seen.keys() >= KEYS
            assert (seen["state"], seen["learned"], seen["shared"], seen["last_contact_s"]) == (
                "connected",
                "config",
                1,
                0,
            )

        async def is_measured() -> bool:
            return [one["rtt_ms"] is None for one in await of_edge()] == [False]

        await until("the core has measured the way to its edge", is_measured)
        for view in (("peer", "list"), ("peers",)):
            for node in (core, edge):
                shown = (await node.run(*view)).stdout
                assert max(map(len, shown.splitlines())) <= 80, shown
        assert await edge.stop() == 0

        async def is_away() -> bool:
            return [one["state"] for one in await of_edge()] == ["away"]

        await until("the core knows that its edge is away", is_away)
        [after] = (await core.run("peer", "list", "--json")).json
        assert after["last_contact_s"] > 0 and after["rtt_ms"] is None
        await core.kill()
        await core.start()
        [again] = (await core.run("peer", "list", "--json")).json
        assert again["last_contact_s"] is None, "it was not here since this node started"
