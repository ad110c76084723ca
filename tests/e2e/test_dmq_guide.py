"""The four files of mithril's guide for operators, a relay's and a producer's: a producer's signer is heard elsewhere.

The guide's relay names the bootstrap peer alone, not its producer; its producer names the relay and lets nobody in. The
addresses of one machine, 127.0.0.0/8, stand for those of the guide: of each machine a public and an internal one.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.ports import free_port
from test_dmq_nodes_joined import dmq

from router.actors.process import program
from router.rig.node import NodeProcess
from router.rig.process import until
from router.settings.home import Home
from router.settings.keyring import NODE, load_or_create
from services.dmq.client.connection import connect
from services.dmq.core.protocols.handshake import MAGICS

pytestmark = pytest.mark.long
PREVIEW = MAGICS["preview"]
BOOTSTRAP, PUBLIC, INTERNAL = "127.0.0.10", "127.0.0.11", "127.0.0.12"
ELSEWHERE = "192.0.2.1"
"""An address that no machine has (RFC 5737)."""


def config(*, shares: bool) -> dict[str, object]:
    """Return the guide's configuration of a relay, which shares peers, or of a producer."""
    backends = ["Stdout MachineFormat", f"PrometheusSimple suffix 127.0.0.1 {free_port()}"]
    return {
        "NetworkMagic": PREVIEW,
        "CardanoNetworkMagic": 2,
        "CardanoNodeSocket": "/cardano/ipc/node.socket",
        "ShelleyGenesisFile": "shelley-genesis.json",
        "PeerSharing": shares,
        "PeerSelectionCounters": True,
        "TraceOptions": {"": {"backends": backends, "severity": "Info"}},
    }


def topology(address: str, port: int, *, advertise: bool) -> dict[str, object]:
    """Return the guide's topology, which names one peer."""
    points = [{"address": address, "port": port, "valency": 1}]
    return {
        "bootstrapPeers": [],
        "localRoots": [{"accessPoints": points, "advertise": advertise, "trustable": False, "valency": 2}],
        "publicRoots": [{"accessPoints": [], "advertise": False}],
        "peerSnapshotFile": None,
    }


class GuideNode:
    """A node on files of the guide: `config-NAME.json` and `topology-NAME.json`."""

    def __init__(self, path: Path, name: str, config: dict[str, object], topology: dict[str, object], *at: str) -> None:
        self.socket = path / f"{name}.socket"
        files = path / f"config-{name}.json", path / f"topology-{name}.json"
        for file, content in zip(files, (config, topology), strict=True):
            file.write_text(json.dumps(content))
        self.home = Home(path / name)
        self.home.create()
        load_or_create(self.home, NODE)
        flags = ["-c", str(files[0]), "-t", str(files[1]), "--local-socket", str(self.socket)]
        self.flags = (*flags, "--stake", str(path / "keys" / "stake.json"))
        self.process = NodeProcess(
            name, self.home, path / f"{name}.err", {}, *self.flags, *at, served_by=(*program("router"), "dmq")
        )

    async def doctor(self) -> dict[str, Any]:
        """Return what the doctor says of other nodes."""
        found = (await self.process.run("dmq", "doctor", "--json")).json
        return next(one for one in found if one["check"] == "nodes")

    async def status(self) -> dict[str, Any]:
        return dict((await self.process.run("dmq", "status", "--json")).json["nodes"])


async def has(socket: Path, wire: bytes) -> None:
    """Ask as a consumer until that message comes."""
    async with connect(socket, PREVIEW) as client:
        while wire not in (await client.request(blocking=True)).messages:
            continue


async def test_a_producers_signer_is_heard_behind_its_relay_and_what_stops_it_is_told(tmp_path: Path) -> None:
    assert (await dmq("keygen", tmp_path / "keys")).exit_code == 0
    ports = free_port(), free_port()
    bootstrap = GuideNode(
        tmp_path, "bootstrap", config(shares=True), {"localRoots": [], "publicRoots": []},
        "--host-addr", BOOTSTRAP, "--port", str(ports[0]),
    )  # fmt: skip
    relay = GuideNode(tmp_path, "relay", config(shares=True), topology(BOOTSTRAP, ports[0], advertise=True))
    producer = GuideNode(tmp_path, "bp", config(shares=False), topology(INTERNAL, ports[1], advertise=False))
    place = relay.process.flags
    with trio.fail_after(8 * HANG_S):
        async with AsyncExitStack() as stack:
            for node in (bootstrap, relay, producer):
                stack.push_async_callback(node.process.kill)
            elsewhere = await relay.process.run(
                "dmq", "serve", *place, "--host-addr", ELSEWHERE, "--port", str(ports[1])
            )
            assert elsewhere.code == 1 and "that address is none of this machine: 0.0.0.0" in elsewhere.stderr
            relay.process.flags = (*place, "--host-addr", PUBLIC, "--port", str(ports[1]))
            for node in (bootstrap, relay, producer):
                await node.process.start()

            async def is_told() -> bool:
                return bool((await producer.status())["away"])

            await until("the relay cannot be reached at its internal address", is_told)
            said = await producer.doctor()
            assert not said["ok"] and f"{INTERNAL}:{ports[1]} is away for" in said["found"]
            assert "it cannot be reached" in said["found"] and "--host-addr 0.0.0.0 serves both" in said["remedy"]
            await relay.process.stop()
            relay.process.flags = (*place, "--host-addr", "0.0.0.0", "--port", str(ports[1]))
            await relay.process.start()
            signed = await dmq("sign", "--keys", tmp_path / "keys", "a body of some length " * 5)
            wire = bytes.fromhex(signed.stdout.strip())
            async with connect(producer.socket, PREVIEW) as client:
                assert type(await client.submit(wire)).__name__ == "MsgAcceptMessage"
            await has(relay.socket, wire)
            await has(bootstrap.socket, wire)

            async def is_well() -> bool:
                return bool((await producer.doctor())["ok"])

            await until("the doctor finds nothing wrong", is_well)
