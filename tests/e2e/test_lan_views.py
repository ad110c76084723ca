"""The output of `peer list` and `doctor` about a LAN: neighbours met there, and that it is off if nobody allowed it."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from rig import rig
from rigs.machines import bridged
from rigs.patience import HANG_S

from router import connect
from router.actors.process import program
from router.rig.process import until


async def test_a_neighbour_met_on_the_lan_is_shown_so(tmp_path: Path) -> None:
    with bridged(IPv4Network("10.85.0.0/16")) as bridge:
        async with rig(tmp_path) as found:
            one, two = found.node("one", listens=False), found.node("two", listens=False)
            for node in (one, two):
                node.served_by = (*bridge.machine().enter, *program("router"))
                node.flags = ("--lan",)
                await node.start()

            async def lan() -> dict[str, Any]:
                rows = (await one.run("doctor", "--json")).json
                return dict(next(row for row in rows if row["check"] == "lan"))

            async def is_heard() -> bool:
                async with connect(home=one.home) as app:
                    told = json.loads(await app.ask("service", "discovery lan list", timeout_s=HANG_S))
                return [row["heard"] for row in told["networks"]] == [1]

            await until("one hears two", is_heard)
            heard = await lan()
            assert (heard["ok"], heard["found"]) == (True, "1 node heard on eth0")
            heads, listed = (await one.run("lan", "list")).stdout.splitlines()
            assert heads.split("  ")[0] == "INTERFACE" and heads.endswith("ALLOWED  NODES HEARD  NETWORK ID")
            assert listed.split()[0] == "eth0" and listed.split()[2:4] == ["yes", "1"]
            [row] = (await one.run("peer", "list", "--json")).json
            assert (row["address"], row["learned"]) == (two.address.hex(), "lan")
            assert (await one.run("lan", "off")).code == 0
            off = await lan()
            assert off["ok"] is None and off["found"].startswith("off: no network is allowed")
