"""Bad local networks: multicast that passes one way only, a machine without IPv6, two nodes on one machine, and
addresses that are missing for a while, as after sleep."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from itertools import permutations
from pathlib import Path

import pytest
import trio
from rig import new_key, rig
from rigs.machines import bridged
from test_laptops import NETWORK, App, Laptop, both_share, laptop

from router.rig.machines import NamespaceMachine
from router.rig.process import until

SEND = """
import errno, socket, sys
try:
    socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", (sys.argv[1], 4100))
    print("sent")
except OSError as error:
    print(errno.errorcode[error.errno])
"""


DIAL = """
import sys, trio
from router.core.wire.crypto import SigningKey
from router.transport.contract import ConnectFailed, dial

async def main():
    try:
        await dial(f"tls://{sys.argv[1]}:4100", SigningKey(bytes(32)), None, timeout_s=30)
    except ConnectFailed as error:
        print(error.text)

trio.run(main)
"""


def without_ipv6(machine: NamespaceMachine) -> None:
    machine.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6")


async def test_all_hear_all_where_multicast_passes_one_way_ipv6_is_missing_or_two_nodes_share_a_machine(
    tmp_path: Path,
) -> None:
    group = new_key()
    with bridged(NETWORK) as bridge:
        async with rig(tmp_path) as found, trio.open_nursery() as nursery, AsyncExitStack() as held:
            plain, deaf, first = (laptop(found, bridge, name, "--lan") for name in ("plain", "deaf", "first"))
            second = Laptop(found.node("second"), first.machine)
            second.node.served_by, second.node.flags = first.node.served_by, first.node.flags
            deaf.machine.deafen()
            without_ipv6(plain.machine)
            apps = [App(one, new_key(), group) for one in (plain, deaf, first, second)]
            for app in apps:
                app.laptop.node.settings["node.name"] = app.laptop.node.name
                await app.laptop.node.start()
                await held.enter_async_context(app.running(nursery))
            for app, other in permutations(apps, 2):
                await app.laptop.node.until_joined(group.public, other.laptop.node.address)
            for app in apps:
                await app.joined.publish(app.laptop.node.name.encode())
            for app in apps:
                names = {other.laptop.node.name for other in apps if other is not app}
                await app.until_heard(lambda heard, names=names: set(heard) == names)  # type: ignore[misc]

            async def are_named() -> bool:
                rows = (await plain.node.run("peer", "list", "--json")).json
                return {row["name"] for row in rows} == {'"deaf"', '"first"', '"second"'}

            await until("the others have said their names", are_named)
            nursery.cancel_scope.cancel()


@pytest.mark.long  # It waits out pauses between dials, up to two minutes.
async def test_a_laptop_whose_addresses_were_gone_hears_the_others_again(tmp_path: Path) -> None:
    """The network is unreachable meanwhile, as after sleep: each datagram and each dial fails, what is said on both
    sides waits, and nothing is printed."""
    group = new_key()
    with bridged(NETWORK) as bridge:
        async with rig(tmp_path) as found, trio.open_nursery() as nursery:
            one, two = laptop(found, bridge, "one", "--lan"), laptop(found, bridge, "two", "--lan")
            await one.node.start()
            await two.node.start()
            first, second = App(one, new_key(), group), App(two, new_key(), group)
            async with first.running(nursery), second.running(nursery):
                await both_share(group, one, two)
                place = f"{two.machine.ip}/{NETWORK.prefixlen}"
                two.machine.run("ip", "address", "flush", "dev", "eth0")
                for target in (one.machine.ip, "239.255.85.80"):
                    assert two.machine.run(sys.executable, "-c", SEND, target) == "ENETUNREACH\n"
                said = (
                    f"{one.machine.ip}:4100 cannot be reached: network is unreachable; is this machine in that network?"
                )
                assert two.machine.run(sys.executable, "-c", DIAL, one.machine.ip) == f"{said}\n"
                await two.lists()
                await first.joined.publish(b"for who sleeps")
                await second.joined.publish(b"asleep")
                two.machine.run("ip", "address", "add", place, "broadcast", "+", "dev", "eth0")
                await two.lists(place)
                await one.finds(1)
                await first.until_heard(lambda heard: heard == ["asleep"])
                await second.until_heard(lambda heard: heard == ["for who sleeps"])
            assert one.node.said() == two.node.said() == "nothing on standard error"
            nursery.cancel_scope.cancel()


async def test_a_renamed_interface_is_of_another_network_which_is_silent_until_it_is_allowed(tmp_path: Path) -> None:
    """Without a gateway the interface's name is part of the network's identity (R-D18)."""
    with bridged(NETWORK) as bridge:
        async with rig(tmp_path) as found:
            one, two = laptop(found, bridge, "one", "--lan"), laptop(found, bridge, "two", "--lan")
            await one.node.start()
            await two.node.start()
            await two.hears(one)
            two.machine.run("sh", "-ec", "ip link set eth0 down; ip link set eth0 name lan7; ip link set lan7 up")

            async def is_renamed() -> bool:
                return [(row["interface"], row["allowed"]) for row in await two.networks()] == [("lan7", False)]

            await until("two is at lan7 and silent", is_renamed)
            assert [row["allowed"] for row in await two.lan("on")] == [True]
            await two.finds(1)
            await one.finds(1)
