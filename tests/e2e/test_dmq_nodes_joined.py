"""Two DMQ nodes as processes, joined over TCP: what one is given reaches a consumer of the other."""

from __future__ import annotations

import json
from pathlib import Path

import trio
from click.testing import CliRunner, Result
from rigs.patience import HANG_S
from rigs.ports import free_port

from router.actors.process import program
from router.cli import main
from router.rig.node import NodeProcess
from router.settings.home import Home
from router.settings.keyring import NODE, load_or_create
from services.dmq.client.connection import connect
from services.dmq.core.protocols.handshake import MAGICS

NETWORK = "preview"


async def dmq(*arguments: object) -> Result:
    words = ["dmq", *map(str, arguments), "--network", NETWORK]
    return await trio.to_thread.run_sync(CliRunner().invoke, main, words)


class Node:
    """A node with a home, a socket, a port, and a topology that names others by their ports."""

    def __init__(self, path: Path, name: str, port: int, *others: int) -> None:
        self.port = port
        self.socket = path / f"{name}.socket"
        topology = path / f"{name}.json"
        points = [{"address": "127.0.0.1", "port": other} for other in others]
        groups = [{"accessPoints": points, "hotValency": len(points), "advertise": False}]
        topology.write_text(json.dumps({"localRoots": groups, "publicRoots": [], "useLedgerAfterSlot": -1}))
        home = Home(path / name)
        home.create()
        load_or_create(home, NODE)
        flags = [
            "--network", NETWORK, "--local-socket", str(self.socket), "--stake", str(path / "keys" / "stake.json"),
            "--host-addr", "127.0.0.1", "--port", str(port), "--topology-file", str(topology),
            "--min-sig-delay", "0.01s",
        ]  # fmt: skip
        self.process = NodeProcess(name, home, path / f"{name}.err", {}, *flags, served_by=(*program("router"), "dmq"))

    async def taken(self, wire: bytes) -> str:
        """Hand a message in, and return the answer."""
        async with connect(self.socket, MAGICS[NETWORK]) as client:
            return type(await client.submit(wire)).__name__

    async def until(self, wire: bytes) -> None:
        """Ask as a consumer until that message comes."""
        async with connect(self.socket, MAGICS[NETWORK]) as client:
            while wire not in (await client.request(blocking=True)).messages:
                continue

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
