"""Attackers on a local network beside two laptops that share a group: real processes, in network namespaces."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from rig import new_key, rig
from rigs import lan_attacker
from rigs.machines import bridged
from test_laptops import NETWORK, App, both_share, laptop

from router.core.neighbours.dial_budget import LAN_LIMITS
from router.rig.machines import NamespaceMachine
from router.rig.process import until
from services.discovery.core.lan.waiting import SLOT_S

CLAIMED = 20


@contextmanager
def attacking(attacker: NamespaceMachine, sources: list[str], per_s: float = 20, **more: int) -> Iterator[None]:
    """Advertise keys in the name of these addresses."""
    task = {"own": attacker.ip, "sources": sources, "port": 4101, "per_s": per_s, **more}
    command = (*attacker.enter, sys.executable, str(lan_attacker.__file__), json.dumps(task))
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.kill()


def refused(machine: NamespaceMachine) -> int:
    """Return how many connections a machine has refused on which nobody listens."""
    names, values = (line.split() for line in machine.run("cat", "/proc/net/snmp").splitlines() if line[:4] == "Tcp:")
    return int(values[names.index("OutRsts")])


async def test_datagrams_in_the_name_of_a_victim_cause_three_connections_a_node_and_harm_no_pair_and_no_newcomer(
    tmp_path: Path,
) -> None:
    group = new_key()
    with bridged(NETWORK) as bridge:
        async with rig(tmp_path) as found, trio.open_nursery() as nursery:
            one, two = laptop(found, bridge, "one", "--lan"), laptop(found, bridge, "two", "--lan")
            attacker, victim = bridge.machine(), bridge.machine()
            await one.node.start()
            await two.node.start()
            first, second = App(one, new_key(), group), App(two, new_key(), group)
            async with first.running(nursery), second.running(nursery):
                await both_share(group, one, two)
                with attacking(attacker, [victim.ip]):

                    async def are_heard() -> bool:
                        return [row["heard"] > CLAIMED for row in await one.networks()] == [True]

                    await until(f"one hears {CLAIMED} keys that nobody has", are_heard)
                    await first.joined.publish(b"beside them")
                    await second.until_heard(lambda heard: heard == ["beside them"])
                    three = laptop(found, bridge, "three", "--lan")
                    await three.node.start()
                    await one.hears(two, three)
                    assert 1 <= refused(victim) <= 3 * LAN_LIMITS.connections
            nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_a_victim_with_many_ipv6_addresses_gets_ten_connections_at_all_of_them(tmp_path: Path) -> None:
    with bridged(NETWORK) as bridge:
        async with rig(tmp_path) as found:
            one, attacker, victim = laptop(found, bridge, "one", "--lan"), bridge.machine(), bridge.machine()
            addresses = [f"fe80::dead:{number:x}" for number in range(1, 7)]
            for address in addresses:
                victim.run("ip", "-6", "address", "add", f"{address}/64", "dev", "eth0", "nodad")
            await one.node.start()
            with attacking(attacker, addresses, ports=7):

                async def are_dialled() -> bool:
                    heard = [row["heard"] > 5 * CLAIMED for row in await one.networks()]
                    return heard == [True] and refused(victim) > 0

                await until(f"one hears {5 * CLAIMED} keys that nobody has, and dials", are_dialled)
                assert refused(victim) <= LAN_LIMITS.of_prefix


@pytest.mark.long
async def test_a_newcomer_is_met_beside_keys_that_all_speak_as_often_as_it_does(tmp_path: Path) -> None:
    """As many as 250 KB/s let speak in each slot, from all addresses of the network, the newcomer's among them."""
    with bridged(NETWORK) as bridge:
        async with rig(tmp_path) as found:
            one, attacker = laptop(found, bridge, "one", "--lan"), bridge.machine()
            two = laptop(found, bridge, "two", "--lan")
            await one.node.start()
            sources = [two.machine.ip, *(f"10.64.9.{number}" for number in range(1, 200))]
            with attacking(attacker, sources, per_s=1000, keys=int(1000 * SLOT_S)):

                async def is_crowded() -> bool:
                    return [row["heard"] > CLAIMED for row in await one.networks()] == [True]

                await until("the attacker's keys have places", is_crowded)
                await two.node.start()
                await one.hears(two)
