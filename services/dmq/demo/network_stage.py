"""Play a network: five routers, four of them with a DMQ node, joined between nodes and by the topic's group.

hub      a core; a DMQ node of the group        apart    a DMQ node, joined to the others between nodes alone
first    an edge; a DMQ node of the group       reader   an edge without a DMQ node, on which `router sub` reads
second   an edge; as first, but its link of the group is for reading only
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
from msgspec import Struct, field

import router
from router.actors.process import program
from router.core.wire.grouplink import new_group
from router.core.wire.text import key_text
from router.rig.node import NodeProcess, address_of
from router.rig.process import Process, RigFailed, free_ports, run_command, until
from router.service.running import key_of
from services.dmq.client.connection import Broken, Unreachable, connect
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.submission import MsgAcceptMessage, encode_message
from services.dmq.demo.network_script import NetworkScript
from services.dmq.demo.stage import NETWORK

GROUP = "dmq-preview"
DIALS = {
    "hub": ("first", "second"),
    "first": ("second", "apart"),
    "second": ("apart", "hub"),
    "apart": ("hub", "first"),
}
"""Whom each DMQ node dials."""
EDGES = "first", "second", "reader"
"""The neighbours of the hub."""
NAMES = *DIALS, "reader"
KILLED = "second", "apart"
IN_GROUP = "hub", "first", "second"
"""The DMQ nodes of the group."""
QUICK: dict[str, object] = {
    "link.dial_backoff_s_min": 0.05, "link.dial_backoff_s_max": 0.2, "link.goodbye_s": 1, "verify.verifiers": 0,
}  # fmt: skip
POLL_S = 0.1


class NetworkPlayed(Struct):
    """The results: what was accepted, what each consumer and the reader have got, and what each node says of itself."""

    accepted: list[bytes] = field(default_factory=list)
    read: dict[str, list[bytes]] = field(default_factory=lambda: {name: [] for name in NAMES})
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    answer: bytes = b""
    audit: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class NetworkStage:
    """The processes of the network, in a directory of their own. `tie`: as in `Process`; `say` gets a sentence about
    each event."""

    def __init__(self, base: Path, script: NetworkScript, say: Callable[[str], None], tie: int | None = None) -> None:
        self._base = base
        self._script = script
        self._say = say
        self.played = NetworkPlayed()
        self.homes = {name: router.Home(base / name) for name in NAMES}
        for name, home in self.homes.items():
            home.create("core" if name == "hub" else "edge")
        self.nodes = {
            name: NodeProcess(name, self.homes[name], base / f"{name}.stderr", QUICK, tie=tie) for name in NAMES
        }
        sub = program(
            "router", "--home", str(self.homes["reader"].path), "sub", GROUP, "--raw", "--as", "reader", "--json"
        )
        self.reader = Process("the reader", [*sub, "--queue"], base / "reader.sub.stderr", tie)
        (base / "stake.json").write_bytes(script.stake)
        self._configure()
        self._link = new_group(os.urandom(32), os.urandom(32), GROUP)

    def _configure(self) -> None:
        tls, *ports = free_ports(1 + len(DIALS))
        places, url = dict(zip(DIALS, ports, strict=True)), f"tls://127.0.0.1:{tls}"
        address = {name: key_text("addr", address_of(home)) for name, home in self.homes.items()}
        uplink = f'[[peers]]\naddress = "{address["hub"]}"\nname = "hub"\nurls = ["{url}"]\nuplink = true\n'
        grants = 'grant = ["join", "store", "relay"]\n'
        for name, home in self.homes.items():
            text = "[node]\n" + ('services = ["services.dmq"]\nservices_public = ["dmq"]\n' if name in DIALS else "")
            if name == "hub":
                text += f'role = "core"\nlisten = ["{url}"]\n'
                text += "".join(f'[[peers]]\naddress = "{address[edge]}"\nname = "{edge}"\n{grants}' for edge in EDGES)
            text += uplink if name in EDGES else ""
            home.config_path.write_text(text + (self._dmq(name, places) if name in DIALS else ""))

    def _dmq(self, name: str, places: dict[str, int]) -> str:
        """Return the settings of a DMQ node, whose topology is written beside them."""
        points = [{"address": "127.0.0.1", "port": places[other]} for other in DIALS[name]]
        roots = [{"accessPoints": points, "hotValency": len(points), "advertise": False}]
        topology = self._base / f"{name}.topology"
        topology.write_text(json.dumps({"localRoots": roots, "publicRoots": [], "useLedgerAfterSlot": -1}))
        group = f'group = "{GROUP}"\n' if name in IN_GROUP else ""
        return (
            f'[services.dmq]\nnetwork = "{NETWORK}"\nlocal_socket = "unix:{self._socket(name)}"\n'
            f'consumers = ["aggregator=unix:{self._socket(name, "aggregator")}"]\n'
            f'listen = "tcp://127.0.0.1:{places[name]}"\ntopology_file = "{topology}"\n'
            f'stake_file = "{self._base / "stake.json"}"\n{group}'
        )

    async def _give_links(self) -> None:
        """Give each of the group's members its link while its node runs, which takes part from then on."""
        async with trio.open_nursery() as nursery:
            for name in (*IN_GROUP, "reader"):
                link = self._link.read_only() if name == "second" else self._link
                nursery.start_soon(partial(self.nodes[name].run, "group", "add", "-", stdin=link.text().encode()))

    def _socket(self, name: str, kind: str = "node") -> Path:
        return self._base / f"{name}.{kind}"

    # -- the play ------------------------------------------------------------------------------------------

    async def play(self) -> None:
        """Play to the end."""
        began_s, script = trio.current_time(), self._script
        async with trio.open_nursery() as nursery:
            await self._start(*NAMES)
            await self._give_links()
            for name in DIALS:
                nursery.start_soon(self._aggregate, name)
            nursery.start_soon(self._read)
            await until("the nodes are joined", self._are_joined)
            self._say("five routers run: four DMQ nodes that dial each other, and a topic's group; signers begin")
            await self._hand_in(script.first, *DIALS)
            await self._until_all(*NAMES)
            for name in KILLED:
                await self.nodes[name].kill()
            self._say(f"all have {len(self.played.accepted)} messages; {' and '.join(KILLED)} are killed")
            await self._hand_in(script.meanwhile, "hub", "first")
            await self._until_all("hub", "first", "reader")
            self._say(f"the others have {len(self.played.accepted)}; the killed ones come back")
            await self._start(*KILLED)
            await self._hand_in(script.after, "apart")
            await self._speak_in_the_group()
            await self._until_all(*NAMES)
            await until("the forged message is refused by all", self._has_refused)
            self.played.statuses = {name: await self.status(name) for name in DIALS}
            nursery.cancel_scope.cancel()
        await self.reader.stop()
        for node in self.nodes.values():
            await node.stop()
        self.played.audit = await self._audit()
        self.played.seconds = trio.current_time() - began_s

    async def _start(self, *names: str) -> None:
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(self.nodes[name].start)

    async def _are_joined(self) -> bool:
        rows = await self.nodes["hub"].ask("groups")
        joined = {row["subscriber"] for row in rows if row["group"] == self._link.group.hex()}
        edges = {address_of(self.homes[name]).hex() for name in EDGES}
        hot = [(await self.status(name)).get("nodes", {}).get("hot", 0) for name in DIALS]
        return edges <= joined and min(hot) > 0

    async def _hand_in(self, wires: tuple[bytes, ...], *names: str) -> None:
        """Hand messages in at these nodes in turn, each over a connection of its own."""
        for number, wire in enumerate(wires):
            async with connect(self._socket(names[number % len(names)]), MAGICS[NETWORK]) as client:
                if isinstance(await client.submit(wire), MsgAcceptMessage):
                    self.played.accepted.append(wire)

    async def _speak_in_the_group(self) -> None:
        """Hand a message in by a unicast from the router without a DMQ node, and publish a forged one."""
        service = key_of(self.homes["hub"], "dmq").public
        async with router.connect(home=self.homes["reader"]) as app:
            await app.send(service, self._script.by_unicast, plain=True)
            async for message in app.unicasts():
                self.played.answer = message.body
                break
            if self.played.answer == encode_message(MsgAcceptMessage()):
                self.played.accepted.append(self._script.by_unicast)
            await app.group(GROUP, raw=True).publish(self._script.forged)

    async def _aggregate(self, name: str) -> None:
        """Read as the durable consumer of a node, over a new connection after each that is lost."""
        while True:
            try:
                async with connect(self._socket(name, "aggregator"), MAGICS[NETWORK]) as client:
                    while True:
                        self.played.read[name] += (await client.request(blocking=True)).messages
            except (Unreachable, Broken):
                await trio.sleep(POLL_S)

    async def _read(self) -> None:
        """Read in the group on the router without a DMQ node, by `router sub`."""
        await self.reader.launch()
        while line := await self.reader.next_line():
            self.played.read["reader"].append(base64.b64decode(json.loads(line)["body_base64"]))

    async def _until_all(self, *names: str) -> None:
        """Wait until these have read all that was accepted, and their nodes know that."""

        async def have_read() -> bool:
            if any(not set(self.played.accepted) <= set(self.played.read[name]) for name in names):
                return False
            asked = [await self.status(name) for name in names if name in DIALS]
            return all("error" not in one and not one["consumers"][0]["lag"] for one in asked)

        await until(f"{', '.join(names)} have read {len(self.played.accepted)} messages", have_read)

    async def _has_refused(self) -> bool:
        return all([(await self.status(name))["group"]["rejected"] for name in IN_GROUP])

    async def status(self, name: str) -> dict[str, Any]:
        """Return what a DMQ node says of itself; an error while it starts."""
        async with router.connect(home=self.homes[name]) as app:
            found: dict[str, Any] = json.loads(await app.ask("service", "dmq status"))
            return found

    async def _audit(self) -> dict[str, Any]:
        done = await run_command(
            program("router", "audit", *[str(home.path) for home in self.homes.values()], "--json")
        )
        if done.code:
            raise RigFailed(f"the audit ended with code {done.code}: {done.stderr[-500:]}")
        found: dict[str, Any] = done.json
        return found

    async def end(self) -> None:
        for one in (self.reader, *self.nodes.values()):
            await one.kill()


@asynccontextmanager
async def network_staged(
    base: Path, script: NetworkScript, say: Callable[[str], None], *, tied: bool = True
) -> AsyncIterator[NetworkStage]:
    """Yield a stage whose processes end with the block, and if `tied` with this process however it ends."""
    reading, writing = os.pipe()
    stage = NetworkStage(base, script, say, reading if tied else None)
    try:
        yield stage
    finally:
        with trio.CancelScope(shield=True):
            await stage.end()
        os.close(reading)
        os.close(writing)
