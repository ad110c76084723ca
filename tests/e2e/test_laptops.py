"""Nodes on a local network find each other without a server: real processes, each in a network namespace of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, NamedTuple

import trio
from rig import NodeProcess, Rig, new_key, rig
from rigs.machines import bridged
from rigs.patience import HANG_S

from router import Group, Node, connect
from router.actors.process import program
from router.core.wire.crypto import SigningKey
from router.rig.machines import Bridge, NamespaceMachine
from router.rig.process import until

NETWORK = IPv4Network("10.64.0.0/15")
QUICK = {"queues.lan_keep_s": 86_400}


class Laptop(NamedTuple):
    """A node on a machine of its own."""

    node: NodeProcess
    machine: NamespaceMachine

    async def lan(self, word: str, *more: str) -> Any:
        return (await self.node.run("lan", word, *more, "--json")).json

    async def finds(self, count: int) -> None:
        """Wait until that many others are heard on its network."""

        async def are_heard() -> bool:
            return [row["heard"] for row in await self.networks()] == [count]

        await until(f"{self.node.name} hears {count}", are_heard)

    async def lists(self, *addresses: str) -> None:
        """Wait until its interfaces have exactly these addresses."""

        async def are_listed() -> bool:
            return [at for row in await self.networks() for at in row["addresses"]] == [*addresses]

        await until(f"{self.node.name} is at {addresses}", are_listed)

    async def networks(self) -> list[dict[str, Any]]:
        """Return the output of `router lan list`."""
        async with connect(home=self.node.home) as app:
            found = json.loads(await app.ask("service", "discovery lan list", timeout_s=HANG_S))
        return list(found["networks"])

    async def hears(self, *others: Laptop) -> None:
        """Wait until exactly these routers nearby are connected."""
        keys = {one.node.address.hex() for one in others}

        def are_there(rows: list[dict[str, Any]]) -> bool:
            return {row["address"] for row in rows if row["standing"] == "met" and row["state"] == "connected"} == keys

        await self.node.until_answer(f"the connections of {self.node.name}", "peers", are_there)


def laptop(found: Rig, bridge: Bridge, name: str, *flags: str) -> Laptop:
    node, machine = found.node(name, settings=QUICK), bridge.machine()
    node.served_by = (*machine.enter, *program("router"))
    node.flags = (*node.flags, *flags)
    return Laptop(node, machine)


class App:
    """An app that publishes to a group and records its messages; `heard` is in order."""

    def __init__(self, laptop: Laptop, key: SigningKey, group: SigningKey) -> None:
        self.laptop, self.key, self.group = laptop, key, group
        self.heard: list[str] = []
        self.joined: Group
        self.node: Node

    @asynccontextmanager
    async def running(self, nursery: trio.Nursery) -> AsyncIterator[App]:
        async with connect(home=self.laptop.node.home, key=self.key, when_down="queue") as self.node:
            self.joined = await self.node.join(self.group)
            nursery.start_soon(self._listen)
            yield self

    async def _listen(self) -> None:
        async for message in self.joined:
            self.heard.append(message.body.decode())

    async def until_heard(self, expected: Callable[[list[str]], bool]) -> None:
        async def holds() -> bool:
            return expected(self.heard)

        await until(f"what {self.laptop.node.name} hears, which is now {self.heard}", holds)


async def test_two_laptops_hear_each_other_also_what_was_said_while_the_cable_was_pulled(tmp_path: Path) -> None:
    """Each message comes once and in order, though one of them is killed meanwhile; both have only allowed the
    network."""
    group = new_key()
    with bridged(NETWORK) as bridge:
        async with rig(tmp_path) as found, trio.open_nursery() as nursery:
            one, two = laptop(found, bridge, "one"), laptop(found, bridge, "two", "--lan")
            await one.node.start("--lan")
            await two.node.start()
            await one.hears(two)
            first, second = App(one, new_key(), group), App(two, new_key(), group)
            async with first.running(nursery), second.running(nursery):
                await both_share(group, one, two)
                await first.joined.publish(b"one 0")
                await second.joined.publish(b"two 0")
                await first.until_heard(lambda heard: "two 0" in heard)
                await second.until_heard(lambda heard: "one 0" in heard)
                two.machine.pull()
                for number in range(1, 6):
                    await first.joined.publish(f"one {number}".encode())
                    await second.joined.publish(f"two {number}".encode())
                await two.node.kill()
                assert not any("nothing is kept" in (row["problem"] or "") for row in await one.node.ask("peers"))
                await two.node.start()
                two.machine.plug()
                for app, name in ((first, "two"), (second, "one")):
                    said = [f"{name} {number}" for number in range(6)]
                    await app.until_heard(lambda heard, said=said: len(heard) >= len(said))  # type: ignore[misc]
                    assert app.heard == said
            nursery.cancel_scope.cancel()


async def both_share(group: SigningKey, one: Laptop, two: Laptop) -> None:
    """Wait until each router has joined the group at the other."""
    await one.node.until_joined(group.public, two.node.address)
    await two.node.until_joined(group.public, one.node.address)


async def test_a_third_without_the_link_learns_that_nodes_are_there_and_nothing_of_their_groups(tmp_path: Path) -> None:
    group = new_key()
    with bridged(NETWORK) as bridge:
        async with rig(tmp_path) as found, trio.open_nursery() as nursery:
            laptops = [laptop(found, bridge, name, "--lan") for name in ("one", "two", "three")]
            for each in laptops:
                nursery.start_soon(each.node.start)
            for each in laptops:
                await trio.sleep(0)
                await until(f"the start of {each.node.name}", lambda each=each: is_told(each))  # type: ignore[misc]
                await each.hears(*(other for other in laptops if other is not each))
            one, two, three = laptops
            first, second = App(one, new_key(), group), App(two, new_key(), group)
            other = App(three, new_key(), new_key())
            async with first.running(nursery), second.running(nursery), other.running(nursery):
                await both_share(group, one, two)
                await first.joined.publish(b"for us")
                await second.until_heard(lambda heard: heard == ["for us"])
                assert not any(row["shared"] for row in await three.node.ask("peers") if row["standing"] == "met")
                known = b"".join(path.read_bytes() for path in three.node.home.path.rglob("*") if path.is_file())
                assert bytes(group.public) not in known and group.public.hex().encode() not in known
                assert other.heard == []
                assert [row["allowed"] for row in await two.lan("off")] == [False]
                await two.hears()
                assert not any(row["standing"] == "met" for row in await two.node.ask("peers"))
            await one.finds(1)
            await three.finds(1)
            assert [row["allowed"] for row in await three.lan("off")] == [False]
            await one.finds(0)
            assert [each.node.stderr.read_text() for each in laptops] == ["", "", ""], "nothing to be warned of"
            nursery.cancel_scope.cancel()


async def is_told(one: Laptop) -> bool:
    return bool(one.node.told)


async def test_nothing_is_sent_or_listened_to_where_the_network_is_not_allowed(tmp_path: Path) -> None:
    with bridged(NETWORK) as bridge:
        async with rig(tmp_path) as found:
            one, two = laptop(found, bridge, "one", "--lan"), laptop(found, bridge, "two", "--lan")
            await one.node.start()
            await two.node.start()
            await one.hears(two)
            assert [row["allowed"] for row in await two.lan("off")] == [False]
            await one.finds(0)
            assert [url for url in (await two.node.ask("status"))["listeners"] if url.startswith("tls:")] == []
            assert "239.255.85.80" not in two.machine.run("ip", "maddress", "show", "dev", "eth0")
            assert "239.255.85.80" in one.machine.run("ip", "maddress", "show", "dev", "eth0")
            assert [row["allowed"] for row in await two.lan("on")] == [True]
            await one.finds(1)
