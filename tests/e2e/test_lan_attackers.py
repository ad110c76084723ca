"""Attackers on a local network beside two laptops that share a group: real processes, in network namespaces."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio
from rig import new_key, rig
from rigs import lan_attacker
from rigs.machines import bridged
from test_laptops import NETWORK, App, both_share, laptop

from router.core.neighbours.dial_budget import LAN_LIMITS
from router.rig.machines import NamespaceMachine
from router.rig.process import until

CLAIMED = 20


@contextmanager
def attacking(attacker: NamespaceMachine, victim: NamespaceMachine) -> Iterator[None]:
    """Advertise ever new keys in the name of the victim's address."""
    task = {"own": attacker.ip, "source": victim.ip, "port": 4101, "per_s": 20}
    command = (*attacker.enter, sys.executable, str(lan_attacker.__file__), json.dumps(task))
    with subprocess.Popen(command) as process:
        yield
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
                with attacking(attacker, victim):

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
