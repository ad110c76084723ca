"""`router doctor` learns from another core whether this one can be reached: the port is open, or blocked on the way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rig import rig
from rigs.machines import bridged
from test_discovery import Core, start, until_all_know


async def reachability(core: Core) -> Mapping[str, Any]:
    rows = (await core.node.run("doctor", "--json")).json
    [found] = [one for one in rows if one["check"] == "reachability"]
    return dict(found)


async def test_a_core_that_others_reach_is_told_so(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        first = Core(found, "1")
        cores = [first, Core(found, "2", seeds=(await first.link(),))]
        await start(cores)
        await until_all_know(cores, cores)
        row = await reachability(cores[1])
        assert row["ok"] is True and f" reached this node at {cores[1].url}" in row["found"], row


@pytest.mark.long
async def test_a_port_that_is_blocked_on_its_way_is_found(tmp_path: Path) -> None:
    """The port's answers are dropped on its own machine, as a firewall does."""
    with bridged() as bridge:
        async with rig(tmp_path) as found:
            machine = bridge.machine()
            first = Core(found, "1", bridge.machine())
            cores = [first, Core(found, "2", machine, seeds=(await first.link(),))]
            await start(cores)
            await until_all_know(cores, cores)
            machine.run("ip", "rule", "add", "ipproto", "tcp", "sport", "4100", "blackhole")
            row = await reachability(cores[1])
            assert row["ok"] is False and f"did not reach this node at {cores[1].url}" in row["found"], row
            assert "let that TCP port in at the firewall" in row["remedy"]
