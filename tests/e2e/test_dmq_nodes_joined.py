"""Two DMQ nodes as processes, joined over TCP: what one is given reaches a consumer of the other."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import trio
from click.testing import CliRunner, Result
from rigs.patience import HANG_S
from rigs.ports import free_port

from router.actors.process import program
from router.cli import main
from router.client.node import connect as node_of
from router.rig.machines import NamespaceMachine
from router.rig.node import NodeProcess
from router.settings.home import Home
from router.settings.keyring import NODE, load_or_create
from services.dmq.client.connection import connect
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.revision import REVISIONS, Revision

NETWORK, LOOPBACK = "preview", "127.0.0.1"
DEPLOYED = REVISIONS["dmq-0.5"]


async def dmq(*arguments: object) -> Result:
    words = ["dmq", *map(str, arguments), "--network", NETWORK]
    return await trio.to_thread.run_sync(CliRunner().invoke, main, words)


class Node:
    """A node with a home, a socket, a port, and a topology that names others by their ports, or by their machines, if
    it has one of its own."""

    def __init__(
        self,
        path: Path,
        name: str,
        port: int,
        *others: int | NamespaceMachine,
        revision: Revision = DEPLOYED,
        machine: NamespaceMachine | None = None,
    ) -> None:
        self.revision = revision
        self.ip = machine.ip if machine else LOOPBACK
        self.port = port
        self.socket = path / f"{name}.socket"
        topology = path / f"{name}.json"
        places = [(LOOPBACK, one) if isinstance(one, int) else (one.ip, port) for one in others]
        points = [{"address": ip, "port": other} for ip, other in places]
        groups = [{"accessPoints": points, "hotValency": len(points), "advertise": False}]
        topology.write_text(json.dumps({"localRoots": groups, "publicRoots": [], "useLedgerAfterSlot": -1}))
        home = Home(path / name)
        home.create()
        load_or_create(home, NODE)
        if revision is not DEPLOYED:
            home.config_path.write_text(
                f'[node]\nservices = ["services.dmq"]\n[services.dmq]\nrevision = "{revision.name}"\n'
            )
        flags = [
            "--network", NETWORK, "--local-socket", str(self.socket), "--stake", str(path / "keys" / "stake.json"),
            "--host-addr", self.ip, "--port", str(port), "--topology-file", str(topology),
            "--min-sig-delay", "0.01s",
        ]  # fmt: skip
        served_by = (*(machine.enter if machine else ()), *program("router"), "dmq")
        self.process = NodeProcess(name, home, path / f"{name}.err", {}, *flags, served_by=served_by)

    async def taken(self, wire: bytes) -> str:
        """Hand a message in, and return the answer."""
        async with connect(self.socket, MAGICS[NETWORK], self.revision) as client:
            return type(await client.submit(wire)).__name__

    async def until(self, wire: bytes) -> None:
        """Ask as a consumer until that message comes."""
        async with connect(self.socket, MAGICS[NETWORK], self.revision) as client:
            while wire not in (await client.request(blocking=True)).messages:
                continue

    async def live(self) -> list[bytes]:
        """Return all messages that a new consumer gets."""
        found: list[bytes] = []
        async with connect(self.socket, MAGICS[NETWORK], self.revision) as client:
            while more := (await client.request(blocking=False)).messages:
                found += more
        return found

    async def peers(self) -> list[dict[str, Any]]:
        """Return the agreed connections with other nodes, as `router dmq peers` shows them."""
        async with node_of(home=self.process.home) as app:
            found = json.loads(await app.ask("service", "dmq peers", timeout_s=HANG_S))["peers"]
        return [one for one in found if one["version"]]

    async def conform(self) -> list[str]:
        """Return the checks that are not met."""
        done = await dmq("conform", f"tcp://127.0.0.1:{self.port}", "--timeout", HANG_S, "--json")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(found) > 60, done.stderr
        return [one["check"] for one in found if not one["ok"]]


async def test_a_message_of_one_node_reaches_the_consumers_of_the_other_and_back(tmp_path: Path) -> None:
    assert (await dmq("keygen", tmp_path / "keys")).exit_code == 0
    ports = free_port(), free_port()
    one, other = Node(tmp_path, "one", *ports), Node(tmp_path, "other", *reversed(ports))
    with trio.fail_after(4 * HANG_S):
        await one.process.start()
        await other.process.start()
        try:
            signed = await dmq("sign", "--keys", tmp_path / "keys", "a body of some length " * 5)
            wire = bytes.fromhex(signed.stdout.strip())
            assert await one.taken(wire) == "MsgAcceptMessage"
            await other.until(wire)
            assert await one.conform() == []
            await one.process.stop()
            await one.process.start()
            assert await other.taken(wire) == "MsgRejectMessage", "it has it already"
            await one.until(wire)
            third = Node(tmp_path, "third", ports[1], ports[0]).process
            ended = await third.run("dmq", "serve", *third.flags)
            assert ended.code == 1 and "address already in use; another program listens there" in ended.stderr
        finally:
            await one.process.stop()
            await other.process.stop()


async def test_nodes_of_the_seeds_revision_give_each_other_what_is_left_of_a_messages_life(tmp_path: Path) -> None:
    """Message submission with the numbers 0 to 5 of seed 000, whose messages have a ttl in place of an expiry."""
    assert (await dmq("keygen", tmp_path / "keys")).exit_code == 0
    ports, revision = (free_port(), free_port(), free_port()), REVISIONS["cip-29ffe0e"]
    one, other, third = (
        Node(tmp_path, name, port, dialled, revision=revision)
        for name, port, dialled in zip(("one", "other", "third"), ports, (*ports[1:], ports[0]), strict=True)
    )
    sign = ("sign", "--keys", tmp_path / "keys", "--revision", revision.name)
    with trio.fail_after(4 * HANG_S):
        async with AsyncExitStack() as stack:
            for node in (one, other, third):
                await node.process.start()
                stack.push_async_callback(node.process.stop)
            wires = []
            for node in (one, other):
                signed = await dmq(*sign, f"a body for {node.port}, of some length " * 12)
                wires.append(bytes.fromhex(signed.stdout.strip()))
                assert await node.taken(wires[-1]) == "MsgAcceptMessage"
            for node in (one, other, third):
                for wire in wires:
                    await node.until(revision.encoding.notified(revision.encoding.read(wire)))
            for node in (one, other, third):
                assert {(one["version"], *one["rejected"]) for one in await node.peers()} == {(1,)}
