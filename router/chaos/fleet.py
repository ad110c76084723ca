"""The fleet: real nodes and apps as processes, joined by relays that can be cut, in one directory."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import trio

from router.actors.process import program
from router.chaos.app import LIFE_MIN, read_lines
from router.chaos.ledger import Ledger
from router.chaos.relay import Relay
from router.chaos.shape import FleetShape
from router.client.errors import ClientError
from router.core.wire.grouplink import new_group
from router.disk import private_file
from router.rig.ending import tie_to_this_process
from router.rig.node import NodeProcess, address_of
from router.rig.process import Process, RigFailed, free_ports, run_command, until
from router.settings import keyring
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Grant, Peer
from router.settings.config_services import OF_AN_EDGE, NewHomeService
from router.settings.home import Home

GROUP = "chaos"
DMQ_NETWORK = "preview"
PERIOD_S = 1.0
QUICK: dict[str, object] = {
    "link.dial_backoff_s_min": 0.1, "link.dial_backoff_s_max": 1.0, "link.retry_backoff_s_min": 0.1,
    "link.retry_backoff_s_max": 1.0, "link.goodbye_s": 1, "verify.verifiers": 0, "log.segment_bytes": 1 << 18,
    "node.service_restart_s_max": 1.0,
}  # fmt: skip
"""Waits shorter than an operator's patience: a run lasts minutes, not days."""
FULL = "store.disk_free_bytes_min=1125899906842624"
"""A quota that every disk falls short of: the node finds less free than it is to leave, and takes nothing."""
_PUBSUB = "services.pubsub"
_PUBSUB_APART = f'{{name = "pubsub", module = "{_PUBSUB}", run = "apart"}}'
MODULE_OF_APART = b"router.service.apart"


class FleetNode(NodeProcess):
    """A node whose clock can be stepped, and which can be restored from a snapshot."""

    def __init__(self, base: Path, name: str) -> None:
        self.clock_path = base / f"{name}.clock"
        self.ahead_s = 0.0
        self.step_clock(0.0)
        served_by, tie = program("router.chaos.moved_clock", str(self.clock_path)), tie_to_this_process()
        super().__init__(name, Home(base / name), base / f"{name}.stderr", QUICK, served_by=served_by, tie=tie)

    def step_clock(self, seconds: float) -> None:
        """Set the clock further ahead, or back where `seconds` is below 0; to a millisecond."""
        self.ahead_s += seconds
        draft = self.clock_path.with_suffix(".draft")
        draft.write_text(f"{self.ahead_s:.3f}")
        draft.replace(self.clock_path)

    def pids_apart(self) -> list[int]:
        """Return the processes of its services that run apart, whichever of its threads started them."""
        found = []
        for children in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with suppress(OSError):
                for pid in children.read_text().split():
                    with suppress(OSError):
                        if MODULE_OF_APART in Path(f"/proc/{pid}/cmdline").read_bytes():
                            found.append(int(pid))
        return found

    async def kill_apart(self) -> None:
        """Kill its services that run apart, as soon as there is one. Raise `RigFailed` if none comes."""
        found: list[int] = []

        async def is_one_there() -> bool:
            found[:] = self.pids_apart()
            return bool(found)

        await until(f"a service of {self.name} runs apart", is_one_there)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def save(self, file: Path) -> None:
        """Take a snapshot. Raise `RigFailed`."""
        done = await self.run("backup", str(file), "--plain")
        if done.code:
            raise RigFailed(f"`router backup` of {self.name} ended with {done.code}: {done.stderr.strip()}")

    async def restore(self, file: Path) -> None:
        """Make the home anew of a snapshot, after its disk was lost. Raise `RigFailed`."""
        shutil.rmtree(self.home.path)
        done = await self.run("restore", str(file), "--yes")
        if done.code:
            raise RigFailed(f"`router restore` of {self.name} ended with {done.code}: {done.stderr.strip()}")


class Fleet:
    """Nodes, apps, relays and the apps' accounts. `per_s`: messages a second of each app, which live for `life_min`
    minutes. `pools`: whether the core whose services run apart has the pools of CAPD and DMQ as well; `pool_keys`: the
    keys of those who write to the latter, if there are any.

    An edge dials its core through a relay; cores find each other by discovery, each at the address of a relay."""

    def __init__(self, base: Path, shape: FleetShape, per_s: float, *, pools: bool, life_min: int = LIFE_MIN) -> None:
        self.base = base
        self._per_s, self._life_min = per_s, life_min
        self.pool_keys = base / "pool-keys" if pools else None
        self.shape = shape
        self._ports = dict(zip(shape.cores, free_ports(len(shape.cores)), strict=True))
        self.nodes = {name: FleetNode(base, name) for name in shape.nodes}
        self._relays = {place: Relay(self._ports[core]) for place, core in self._places()}
        self.ledger = Ledger(shape)
        self._read_bytes = dict.fromkeys(shape.nodes, 0)
        self.apps = {name: self._app(name) for name in shape.nodes}

    def _places(self) -> Iterator[tuple[str, str]]:
        """Yield the place of each relay, an edge or a core that others dial, and the core behind it."""
        yield from ((core, core) for core in self.shape.cores)
        yield from self.shape.core_of.items()

    def _app(self, name: str) -> Process:
        home, ledger = str(self.nodes[name].home.path), str(self.ledger_path(name))
        words = (home, name, GROUP, ledger, f"{self._per_s:g}", str(self._life_min))
        command = program("router.chaos.app", *words)
        return Process(f"the app of {name}", command, self.base / f"app-of-{name}.stderr", tie_to_this_process())

    def ledger_path(self, name: str) -> Path:
        return self.base / f"{name}.ledger"

    def relays(self, link: str) -> list[Relay]:
        """Return the relays through which a link's connections go: of an edge its own, of two cores those of both."""
        ends = link.split(">")
        return [self._relays[one] for one in ends if one not in self.shape.cores] or [self._relays[one] for one in ends]

    async def serve_relays(self, nursery: trio.Nursery) -> None:
        for relay in self._relays.values():
            await nursery.start(relay.serve)

    # -- the beginning -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Make the homes, start everything, and wait until each app has been shown a message of each other one."""
        await self._make_homes()
        for node in self.nodes.values():
            await node.start()
        async with trio.open_nursery() as nursery:
            for app in self.apps.values():
                nursery.start_soon(app.start)
        await until("each app has heard each other one", self._are_joined)
        self.ledger.since_s = time.time()

    async def _are_joined(self) -> bool:
        self.check_running()
        self.read_ledgers()
        accounts = self.ledger.accounts
        return all({one.by for one in mine.shown} == accounts.keys() - {name} for name, mine in accounts.items())

    async def _make_homes(self) -> None:
        link = new_group(secrets.token_bytes(32), secrets.token_bytes(32), GROUP)
        seeds: tuple[str, ...] = ()
        for core, port in self._ports.items():
            home, urls = self.nodes[core].home, (f"tls://127.0.0.1:{port}",)
            residents = _of_a_core(seeds) | (await self._pools() if core == self.shape.apart else {})
            home.create("core", urls, residents, (self._url(core),), core)
            address_of(home)  # makes its key
            seeds = seeds or ((await self.nodes[core].run("id", "--link")).stdout.strip(),)
        for edge, core in self.shape.core_of.items():
            ours, other = self.nodes[edge].home, self.nodes[core].home
            ours.create("edge", residents=OF_AN_EDGE, name=edge)
            peer = Peer(address=address_of(other), name=core, urls=(self._url(edge),), uplink=True)
            edit_peers(ours.config_path, AddPeer(peer))
            edit_peers(other.config_path, AddPeer(Peer(address=address_of(ours), name=edge, grant=_ALL)))
        for node in self.nodes.values():
            keyring.add_group(node.home, GROUP, link)
        config = self.nodes[self.shape.apart].home.config_path
        private_file.replace(config, config.read_text().replace(f'"{_PUBSUB}"', _PUBSUB_APART, 1).encode())

    async def _pools(self) -> dict[str, NewHomeService]:
        """Return the services that hold pools, after making the keys of a test pool."""
        if self.pool_keys is None:
            return {}
        done = await run_command(program("router", "dmq", "keygen", "--network", DMQ_NETWORK, str(self.pool_keys)))
        if done.code:
            raise RigFailed(f"`router dmq keygen` ended with {done.code}: {done.stderr.strip()}")
        dmq = {"network": DMQ_NETWORK, "stake_file": str(self.pool_keys / "stake.json")}
        return {"capd": NewHomeService(), "dmq": NewHomeService(dmq, is_public=False)}

    def _url(self, place: str) -> str:
        return f"tls://127.0.0.1:{self._relays[place].port}"

    # -- while it runs -------------------------------------------------------------------------------------

    def read_ledgers(self) -> None:
        """Enter what the apps have written down since the last time."""
        for name, account in self.ledger.accounts.items():
            with suppress(FileNotFoundError), self.ledger_path(name).open("rb") as file:
                file.seek(self._read_bytes[name])
                data = file.read()
                self._read_bytes[name] += data.rfind(b"\n") + 1
                for line in read_lines(data):
                    account.enter(line)

    def check_running(self) -> None:
        """Raise `RigFailed` if a process has ended that nobody ended."""
        for one in (*self.nodes.values(), *self.apps.values()):
            if one.has_ended_by_itself:
                raise RigFailed(f"{one.name} ended by itself: {one.said()}")

    def tracebacks(self) -> list[str]:
        """Return a sentence for each process that printed a traceback."""
        processes = (*self.nodes.values(), *self.apps.values())
        said = ((one, one.stderr.read_text(errors="replace")) for one in processes if one.stderr.exists())
        return [f"{one.name} printed a traceback, in {one.stderr.name}" for one, text in said if "Traceback" in text]

    # -- the end -------------------------------------------------------------------------------------------

    async def hush(self) -> None:
        """Let the apps publish no more."""
        for app in self.apps.values():
            await app.tell("")

    async def left_in_queues(self, patience_s: float) -> list[str]:
        """Wait until all queues are empty; return a sentence for each node where they are not by then."""
        found = []
        with trio.move_on_after(patience_s):
            for node in self.nodes.values():
                await node.until_answer("the emptying of its queues", "queue", lambda rows: not rows)
            return []
        for node in self.nodes.values():
            with suppress(ClientError):
                left = sum(row["messages"] for row in await node.ask("queue"))
                found += [f"{left} messages are left in the queues of {node.name}"] if left else []
        return found

    async def stop(self) -> list[str]:
        """End the apps and stop the nodes; return a sentence for each node that did not drain and stop."""
        for app in self.apps.values():
            await app.kill()
        codes = {name: await node.stop() for name, node in self.nodes.items()}
        return [f"{name} did not drain and stop, code {code}" for name, code in codes.items() if code]

    async def end(self) -> None:
        """End every process, whatever its state, and what lies outside of the fleet's directory."""
        for one in (*self.apps.values(), *self.nodes.values()):
            if one.is_running:
                one.thaw()
            await one.kill()
        for node in self.nodes.values():
            if node.home.socket_path.parent != node.home.path:
                shutil.rmtree(node.home.socket_path.parent, ignore_errors=True)


_ALL: tuple[Grant, ...] = ("join", "store", "relay", "why")


def _of_a_core(seeds: tuple[str, ...]) -> dict[str, NewHomeService]:
    """Return the services of a core, which look for others more often than by default."""
    return {
        "discovery": NewHomeService({"sampling": True, "period_s": PERIOD_S, "seeds": seeds}),
        "pubsub": NewHomeService({"mode": "overlay", "period_s": PERIOD_S}),
    }
