"""Play the demo: three nodes, two wallets, and a client that knows the protocol between Nexa nodes alone."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from msgspec import Struct, field

import router
from router.actors.process import program
from router.client.node import connect
from router.core.wire.text import key_text
from router.rig.node import NodeProcess, address_of
from router.rig.process import Process, RigFailed, free_ports, run_command, until
from router.service.running import key_of
from services.capd.client import PoolClient, pool_of
from services.capd.core import messages as m
from services.capd.core.limits import Standing
from services.capd.core.nexa.commands import GetMsg, Inv, MessagesReply, Msg, PrefixQuery
from services.capd.core.nexa.own_commands import RescindSecrets
from services.capd.core.pattern import Pattern
from services.capd.demo.wallet import OFFER, OFFERS
from services.capd.nexa_client import NexaClient, nexa_client

NETWORK = "regtest"
NAMES = ("one", "two", "three")
QUICK: dict[str, object] = {
    "link.dial_backoff_s_min": 0.05, "link.dial_backoff_s_max": 0.2, "link.goodbye_s": 1, "verify.verifiers": 0,
}  # fmt: skip


class Played(Struct):
    """The observations of a played demo. `held`, `ended`, `served` and `why` have a value for each node, by its
    name."""

    offer: dict[str, Any] = field(default_factory=dict)
    waited: int = 0
    held: dict[str, str] = field(default_factory=dict)
    after_kill: str = ""
    bob: dict[str, Any] = field(default_factory=dict)
    alice: dict[str, Any] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    served: dict[str, int] = field(default_factory=dict)
    wire: dict[str, int] = field(default_factory=dict)
    told_again: int = 0
    why: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, int] = field(default_factory=dict)
    audit: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class Stage:
    """Three nodes in a directory: one and two are joined by the protocol between Nexa nodes, two and three by routers.

    `tie`: as in `Process`; `say` is called with a sentence about each event."""

    def __init__(self, base: Path, tie: int, say: Callable[[str], None]) -> None:
        self._base = base
        self._tie = tie
        self._say = say
        nexa_one, nexa_two, tls = free_ports(3)
        self.places = {"one": f"127.0.0.1:{nexa_one}", "two": f"127.0.0.1:{nexa_two}"}
        self.url = f"tls://127.0.0.1:{tls}"
        self.homes = {name: router.Home(base / name) for name in NAMES}
        for name, home in self.homes.items():
            home.create("core" if name == "three" else "edge")
        self.nodes = {
            name: NodeProcess(name, self.homes[name], base / f"{name}.stderr", QUICK, tie=tie) for name in NAMES
        }
        self._processes: list[Process] = list(self.nodes.values())
        self._configure()

    def _configure(self) -> None:
        address = {name: key_text("addr", address_of(home)) for name, home in self.homes.items()}
        pool = {name: key_text("addr", key_of(home, "capd").public) for name, home in self.homes.items()}
        head = '[node]\nservices = ["services.capd"]\n'
        public = head + 'services_public = ["capd"]\n'
        nexa = f'[services.capd]\nnetwork = "{NETWORK}"\n'
        texts = {
            "one": f'{head}\n{nexa}listen = "{self.places["one"]}"\n',
            "two": (
                f'{public}\n[[peers]]\naddress = "{address["three"]}"\nname = "three"\nurls = ["{self.url}"]\n'
                f'uplink = true\n\n{nexa}listen = "{self.places["two"]}"\nconnect = ["{self.places["one"]}"]\n'
                f'peers = ["{pool["three"]}"]\n'
            ),
            "three": (
                f'{public}role = "core"\nlisten = ["{self.url}"]\n\n'
                f'[[peers]]\naddress = "{address["two"]}"\nname = "two"\ngrant = ["join", "store", "relay"]\n\n'
                f'{nexa}peers = ["{pool["two"]}"]\n'
            ),
        }
        for name, text in texts.items():
            self.homes[name].config_path.write_text(text)

    # -- processes -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the nodes, and wait until both links are up."""
        async with trio.open_nursery() as nursery:
            for node in self.nodes.values():
                nursery.start_soon(node.start)
        await until("the pools are linked", self._are_linked)

    async def _are_linked(self) -> bool:
        two, three = await self.asked("two", "capd peers"), await self.asked("three", "capd peers")
        is_nexa_up = any(one["open"] for one in two.get("neighbours", ()))
        return is_nexa_up and all(
            one["present"] for said in (two, three) for one in said.get("pools", [{"present": False}])
        )

    async def asked(self, name: str, argument: str) -> dict[str, Any]:
        """Return a service's answer; an error while it does not run."""
        async with connect(home=self.homes[name]) as node:
            found: dict[str, Any] = json.loads(await node.ask("service", argument))
            return found

    def wallet(self, task: str, name: str, *arguments: str) -> Process:
        command = program("services.capd.demo.wallet", task, str(self.homes[name].path), *arguments)
        found = Process(f"the wallet at {name}, {task}", command, self._base / f"{task}.stderr", self._tie)
        self._processes.append(found)
        return found

    async def reported(self, wallet: Process, count: int) -> dict[str, Any]:
        """Return the values of a wallet's next `count` lines."""
        found: dict[str, Any] = {}
        for _ in range(count):
            line = await wallet.line()
            if not line:
                raise RigFailed(f"{wallet.name} ended with code {await wallet.wait()}: {wallet.said()}")
            found |= json.loads(line)
        return found

    async def played(self, task: str, name: str, *arguments: str, lines: int = 1) -> dict[str, Any]:
        """Run a wallet to its end, and return the values that it has reported."""
        one = self.wallet(task, name, *arguments)
        await one.launch()
        found = await self.reported(one, lines)
        if code := await one.wait():
            raise RigFailed(f"{one.name} ended with code {code}: {one.said()}")
        return found

    @asynccontextmanager
    async def pool(self, name: str) -> AsyncIterator[PoolClient]:
        """Use the pool of a node."""
        async with connect(home=self.homes[name]) as node, pool_of(node) as pool:
            yield pool

    async def standing(self, name: str, own_id: bytes) -> str:
        """Return the state of a message at a node's pool; "" if the pool does not hold it."""
        async with self.pool(name) as pool:
            found: m.Found = await pool.ask(m.Get, own_id)
            return found.messages[0][0].value if found.messages else ""

    async def until_all(self, own_id: bytes, standing: Standing) -> dict[str, str]:
        """Wait until the message has this state at all nodes, and return the states."""
        found: dict[str, str] = {}

        async def holds() -> bool:
            found.update({name: await self.standing(name, own_id) for name in NAMES})
            return set(found.values()) == {standing.value}

        await until(f"the offer is {standing.value} everywhere", holds)
        return found

    async def end(self) -> None:
        for one in self._processes:
            await one.kill()

    # -- the scene -----------------------------------------------------------------------------------------

    async def play(self) -> Played:
        """Play the demo to its end, and return the observations."""
        began_s, played = trio.current_time(), Played()
        await self.start()
        self._say("Nodes one and two are joined by the protocol between Nexa nodes, two and three by routers.")
        bob = (await self.played("watch", "three"))["address"]
        self._say("Bob has left a standing query with a mask at node three, and his process has ended.")
        async with nexa_client(self.places["two"], NETWORK) as watcher:
            played.offer = await self.played("offer", "one", "5 for 7")
            own_id = bytes.fromhex(played.offer["id"])[::-1]
            played.wire["announced"] = await announced(watcher, own_id)
            played.wire["served"] = await served(watcher, own_id)
            played.held = await self.until_all(own_id, Standing.RELAYED)
            played.waited = await self._waiting(bob)
            self._say("Alice has posted an offer at node one; it has crossed both links, and waits in Bob's queue.")
            await self.nodes["one"].kill()
            await self.nodes["one"].start()
            await until("node one's pool is back", self._is_back)
            played.after_kill = await self.standing("one", own_id)
            self._say("Node one has got kill -9, and is back with its pool. Bob comes back, then Alice.")
            await self._agree(played)
            self._say("They have spoken in a group that came sealed in Bob's reply, and Alice has rescinded the offer.")
            played.wire["rescinded"] = await rescinded(watcher, bytes.fromhex(played.offer["secret"]))
            played.ended = await self.until_all(own_id, Standing.RESCINDED)
        self._say("No pool holds the offer live any more.")
        await self._look_again(played, own_id)
        await until("the logs tell of the end", lambda: self._is_told(played))
        for name in NAMES:
            if await self.nodes[name].stop():
                raise RigFailed(f"node {name} did not stop: {self.nodes[name].said()}")
        homes = [str(home.path) for home in self.homes.values()]
        played.audit = (await run_command(program("router", "audit", *homes, "--json"))).json
        played.seconds = trio.current_time() - began_s
        return played

    async def _is_back(self) -> bool:
        return "address" in await self.asked("one", "capd address")

    async def _is_told(self, played: Played) -> bool:
        """Whether `router why` reports the end of the offer at all nodes; events reach the log after the answer."""
        for name, home in self.homes.items():
            async with connect(home=home) as node:
                found = json.loads(await node.ask("why", played.offer["id"]))
                played.why[name] = [one["event"] for one in found["noted"]]
        return all("capd_rescinded" in events for events in played.why.values())

    async def _waiting(self, recipient: str) -> int:
        """Return how many messages wait for a wallet at node three, once one does."""
        rows: list[dict[str, Any]] = []

        async def waits() -> bool:
            rows[:] = [one for one in await self.nodes["three"].ask("queue") if one["recipient"] == recipient]
            return bool(rows)

        await until("the offer waits for Bob", waits)
        return sum(int(one["messages"]) for one in rows)

    async def _agree(self, played: Played) -> None:
        """Let both wallets come back, and go on in a group."""
        bob = self.wallet("take", "three", self.url)
        await bob.launch()
        played.bob = await self.reported(bob, 2)
        offer = played.offer
        played.alice = await self.played("agree", "one", offer["id"], offer["secret"], lines=3)
        played.bob |= await self.reported(bob, 1)
        if code := await bob.wait():
            raise RigFailed(f"{bob.name} ended with code {code}: {bob.said()}")

    async def _look_again(self, played: Played, own_id: bytes) -> None:
        """Look for the offer everywhere, and bring it once more."""
        wire = bytes.fromhex(played.offer["message"])
        for name in NAMES:
            async with self.pool(name) as pool:
                await pool.ask(m.Watch, OFFERS, 60)
                found: m.FoundIds = await pool.ask(m.Query, Pattern.prefix(OFFER), True)
                played.served[name] = found.ids.count(own_id)
                await pool.ask(m.Post, wire)
                await pool.ask(m.Info)  # a match would have come before this answer
                played.told_again += pool.matches.statistics().current_buffer_used
        for name, place in self.places.items():
            async with nexa_client(place, NETWORK) as client:
                played.wire[f"served by {name}"] = await served(client, own_id)
                await client.say(PrefixQuery(1, 1, 0, 200, OFFER))
                reply: MessagesReply = await client.next(MessagesReply)
                played.wire[f"found at {name}"] = sum(one.own_id() == own_id for one in reply.messages)


async def announced(client: NexaClient, own_id: bytes) -> int:
    while own_id not in (await client.next(Inv)).ids:
        continue
    return 1


async def served(client: NexaClient, own_id: bytes) -> int:
    """Ask for the message by its id; return how often it came before the answer to a query that follows."""
    await client.say(GetMsg(0.0, (own_id,)))
    await client.say(PrefixQuery(2, 1, 0, 1, b"none of these   "))
    count = 0
    while not isinstance(said := await client.next(Msg, MessagesReply), MessagesReply):
        count += sum(one.own_id() == own_id for one in said.messages)
    return count


async def rescinded(client: NexaClient, secret: bytes) -> int:
    while secret not in (await client.next(RescindSecrets)).secrets:
        continue
    return 1


@asynccontextmanager
async def staged(base: Path, say: Callable[[str], None]) -> AsyncIterator[Stage]:
    """Yield a stage whose processes end with the block, and with this process however it ends."""
    reading, writing = os.pipe()
    stage = Stage(base, reading, say)
    try:
        yield stage
    finally:
        with trio.CancelScope(shield=True):
            await stage.end()
        os.close(reading)
        os.close(writing)
