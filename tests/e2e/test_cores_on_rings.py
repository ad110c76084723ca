"""Cores that know one other core join one ring for each group that their apps want, on real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from rig import QUICK, NodeProcess, Rig, rig
from rigs.patience import HANG_S
from rigs.ports import free_port

from router.client.node import connect
from router.core.wire.crypto import PublicKey, SigningKey
from router.rig.process import pause
from router.settings.config_services import NewHomeService
from router.settings.home import Home

NEWS, ODD = (SigningKey(bytes((n,)) * 32) for n in (81, 82))


class Core:
    """A core that runs discovery and pub/sub."""

    def __init__(self, found: Rig, name: str, *, seeds: tuple[str, ...] = ()) -> None:
        url = f"tls://127.0.0.1:{free_port()}"
        discovery: Mapping[str, object] = {"sampling": True, "period_s": 1.0, "seeds": seeds}
        Home(found.base / name).create(
            "core",
            (url,),
            {"discovery": NewHomeService(discovery), "pubsub": NewHomeService({"mode": "overlay", "period_s": 1.0})},
        )
        self.home = Home(found.base / name)
        self.node: NodeProcess = found.node(name, "core", QUICK, listens=False)

    async def link(self) -> str:
        return (await self.node.run("id", "--link")).stdout.strip()

    async def topics(self) -> dict[str, Any]:
        async with connect(home=self.home) as app:
            rows: dict[str, Any] = json.loads(await app.ask("service", "pubsub topics", timeout_s=HANG_S))["topics"]
        return rows


def ring_of(row: dict[str, Any] | None) -> tuple[int, bool | None] | None:
    return None if row is None else (row["neighbours"], row["ring"])


async def until(cores: Iterable[Core], group: PublicKey, neighbours: int) -> None:
    """Wait until each core has that many neighbours in a group, and a whole ring."""
    for one in cores:
        began = trio.current_time()
        while ring_of((await one.topics()).get(group.hex())) != (neighbours, True):
            await pause(began)


@pytest.mark.long  # Rings of one group, large messages and kills stand in test_overlay_copies.
async def test_four_cores_of_which_three_know_the_first_find_each_other_for_each_group(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        first = Core(found, "1")
        link = await first.link()
        cores = [first, *(Core(found, str(n), seeds=(link,)) for n in (2, 3, 4))]
        for one in cores:
            await one.node.start()
        with trio.fail_after(HANG_S):
            async with (
                connect(home=cores[0].home) as a,
                connect(home=cores[1].home) as b,
                connect(home=cores[2].home) as c,
                connect(home=cores[3].home) as d,
            ):
                for app in (a, b, c, d):
                    await app.join(NEWS)
                await until(cores, NEWS.public, 3)
                heard = [one.group(NEWS).messages() for one in (a, b, c)]
                await d.group(NEWS).publish(b"to everybody", raw=True)
                for messages in heard:
                    assert (await anext(messages)).body == b"to everybody", "though no core is an uplink of another"
                for app in (b, d):
                    await app.join(ODD)
                await until((cores[1], cores[3]), ODD.public, 1)
                assert ODD.public.hex() not in await cores[0].topics()
                rows = json.loads((await cores[1].node.run("groups", "--json")).stdout)
                overlays = {row["group"]: row["overlay"] for row in rows if row["overlay"]}
                assert {group: ring_of(row) for group, row in overlays.items()} == {
                    NEWS.public.hex(): (3, True), ODD.public.hex(): (1, True),
                }  # fmt: skip
                assert all(row["caught_up_s"] is None or row["missing"] == 0 for row in overlays.values())
                assert "3 neighbours, ring whole" in (await cores[1].node.run("groups")).stdout
                sums = json.loads((await cores[3].node.run("status", "--json")).stdout)["pubsub"]
                assert sums["received"] == 1 and sums["copies"] >= 1 and not sums["missing"]
                row = (await cores[3].topics())[NEWS.public.hex()]
                assert (row["received"], row["copies"], row["repaired"]) == (1, sums["copies"], 0)
                await cores[2].node.kill()
                await until((cores[0], cores[1], cores[3]), NEWS.public, 2)
                await cores[2].node.start()
                await until(cores, NEWS.public, 3)
                for one in cores:
                    services = {each["name"]: each["problem"] for each in (await one.node.ask("status"))["services"]}
                    assert services == {"discovery": "", "pubsub": ""}
