"""A laptop whose network changes under its connections reaches its uplink again by the network's own signs.

Pings are an hour apart here, so that no silence ends a connection: each test passes by the sign that it is about alone.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from rig import NodeProcess, new_key, rig
from rigs.machines import bridged

from router import connect
from router.actors.process import program
from router.core.link.liveness import LinkCheck
from router.rig.machines import NamespaceMachine

HOUR_S = 3600
NEVER: Mapping[str, object] = {"link.ping_s": HOUR_S, "link.owed_ping_s": HOUR_S, "link.unacked_s": HOUR_S}
PORT = 4100


class Roaming(NamedTuple):
    """A laptop and its uplink, connected, each on a machine of its own."""

    laptop: NodeProcess
    machine: NamespaceMachine
    core: NodeProcess
    core_machine: NamespaceMachine

    async def both_connected(self) -> None:
        await self.laptop.until_connected(self.core.address)
        await self.core.until_connected(self.laptop.address)

    async def passes_a_message_on(self, body: bytes) -> None:
        """Publish on the laptop, and wait until it is read at the core."""
        group = new_key()
        async with connect(home=self.core.home) as reader, connect(home=self.laptop.home) as writer:
            loop = aiter(await reader.join(group))
            await writer.group(group).publish(body)
            assert (await anext(loop)).body == body


@asynccontextmanager
async def roaming(base: Path, settings: Mapping[str, object]) -> AsyncIterator[Roaming]:
    with bridged() as bridge:
        async with rig(base) as found:
            core, laptop = found.node("core", "core", NEVER, listens=False), found.node("laptop", "edge", settings)
            machines = bridge.machine(), bridge.machine()
            core.url = f"tls://{machines[0].ip}:{PORT}"
            core.flags = ("--listen", core.url)
            for node, machine in zip((core, laptop), machines, strict=True):
                node.served_by = (*machine.enter, *program("router"))
            core.serves(laptop)
            await core.start()
            await laptop.start()
            yield (one := Roaming(laptop, machines[1], core, machines[0]))
            await one.both_connected()


async def test_laptop_with_another_address_is_connected_again(tmp_path: Path) -> None:
    async with roaming(tmp_path, NEVER) as one:
        await one.both_connected()
        machine = one.machine
        machine.run("ip", "address", "del", f"{machine.ip}/15", "dev", "eth0")
        await one.laptop.until_connected(one.core.address, up=False)
        machine.run("ip", "address", "add", "198.18.99.1/15", "dev", "eth0")
        await one.laptop.until_connected(one.core.address)
        await one.passes_a_message_on(b"from elsewhere")


APP = """
import logging, sys, trio, router
from router.core.wire.crypto import SigningKey
async def main():
    url, expect, seed, group = sys.argv[1:]
    key = SigningKey(bytes.fromhex(seed))
    async with router.connect(url=url, expect=expect, key=key, when_down="queue") as node:
        loop = aiter(await node.join(SigningKey(bytes.fromhex(group))))
        print("joined", flush=True)
        print((await anext(loop)).body.decode(), flush=True)
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
trio.run(main)
"""


async def test_app_on_a_laptop_with_another_address_is_connected_again(tmp_path: Path) -> None:
    """It is connected to the core by TLS, and has the same policy as a node."""
    key, group = new_key(), new_key()
    with bridged() as bridge:
        async with rig(tmp_path) as found:
            core, machine, laptop = found.node("core", "core", NEVER, listens=False), bridge.machine(), bridge.machine()
            core.flags, core.served_by = (
                ("--listen", f"tls://{machine.ip}:{PORT}"),
                (*machine.enter, *program("router")),
            )
            path = core.home.config_path
            path.write_text(f'{path.read_text()}\n[[local]]\naddress = "{key.public.hex()}"\n')
            await core.start()
            arguments = f"tls://{machine.ip}:{PORT}", core.address.hex(), key.seed.hex(), group.seed.hex()
            app = found.process("app", *laptop.enter, sys.executable, "-c", APP, *arguments)
            await app.launch()
            assert await app.line() == "joined"
            laptop.run("ip", "address", "del", f"{laptop.ip}/15", "dev", "eth0")
            assert LinkCheck.STRANDED.value in await app.line()
            laptop.run("ip", "address", "add", "198.18.99.1/15", "dev", "eth0")
            async with connect(home=core.home) as writer:
                await writer.group(group).publish(b"heard elsewhere")
            assert await app.line() == "heard elsewhere"


@pytest.mark.long
async def test_connection_that_dies_on_its_way_is_replaced_once_something_is_owed(tmp_path: Path) -> None:
    """The packets of this one connection are dropped, as by an address translator that has forgotten it."""
    async with roaming(tmp_path, {**NEVER, "link.owed_ping_s": 1, "link.unacked_s": 2}) as one:
        await one.both_connected()
        drop(one.core_machine, port_of(one.machine))
        await one.passes_a_message_on(b"by a new connection")


def port_of(machine: NamespaceMachine) -> int:
    """Return the port from which this machine's only connection was dialled."""
    rows = [line.split() for line in machine.run("cat", "/proc/net/tcp").splitlines()[1:]]
    [port] = [int(row[1].partition(":")[2], 16) for row in rows if row[3] == "01"]
    return port


def drop(machine: NamespaceMachine, source: int) -> None:
    """Drop what comes from that port, before the rule by which packets are for this machine."""
    machine.run("sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_early_demux")
    machine.run("ip", "rule", "add", "pref", "100", "lookup", "local")
    machine.run("ip", "rule", "del", "pref", "0", "lookup", "local")
    rule = ("ipproto", "tcp", "sport", str(source), "dport", str(PORT))
    machine.run("ip", "rule", "add", "pref", "50", *rule, "blackhole")
