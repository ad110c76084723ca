"""Real nodes for end-to-end tests: homes, `router serve` processes, and their answers."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import trio
from rigs.patience import HANG_S
from rigs.ports import free_port

from router.actors.process import program
from router.core.wire.crypto import PublicKey, SigningKey
from router.rig import node
from router.rig.process import Process, RigFailed, given_up
from router.settings import config, keyring
from router.settings.config_peers import AddPeer, Grant, Peer
from router.settings.home import Home

ROUTER = program("router")
SHIFTED = Path(__file__).parent / "shifted.py"
QUICK: Mapping[str, object] = {  # waits shorter than an operator's patience
    "link.dial_backoff_s_min": 0.05, "link.dial_backoff_s_max": 0.2, "link.retry_backoff_s_min": 0.1,
    "link.goodbye_s": 1, "verify.verifiers": 0,
}  # fmt: skip

Settings = Mapping[str, object]
Rows = list[dict[str, Any]]


class NodeProcess(node.NodeProcess):
    """A node of a test, which always listens at the same URL."""

    def __init__(
        self, base: Path, name: str, role: config.Role, settings: Settings, *, listens: bool, verbose: bool
    ) -> None:
        home = Home(base / name)
        home.create(role)
        self.key = keyring.load_or_create(home, keyring.NODE)
        self.url = f"tls://127.0.0.1:{free_port()}" if listens else ""
        flags = [*(("--listen", self.url) if listens else ()), *(("--verbose",) if verbose else ())]
        super().__init__(name, home, base / f"{name}.stderr", {**QUICK, **settings}, *flags)

    @property
    def address(self) -> PublicKey:
        return self.key.public

    def knows(
        self, key: PublicKey, name: str = "", *, url: str = "", grants: tuple[Grant, ...] = (), uplink: bool = False
    ) -> None:
        """Add a neighbour to the configuration."""
        peer = Peer(address=key, name=name, urls=(url,) if url else (), grant=grants, uplink=uplink)
        config.edit_peers(self.home.config_path, AddPeer(peer))

    def serves(self, edge: NodeProcess) -> None:
        """Make this node an uplink of that edge, which gets all rights here."""
        self.knows(edge.address, edge.name, grants=("join", "store", "relay"))
        edge.knows(self.address, self.name, url=self.url, uplink=True)

    def move_clock(self, seconds: int) -> None:
        """Put this node's wall clock ahead by `seconds`; after its next start it can be moved while the node runs."""
        moved_by = self.home.path.parent / f"{self.name}.clock"
        before = moved_by.with_suffix(".next")
        before.write_text(str(seconds))
        before.replace(moved_by)
        self.served_by = (sys.executable, str(SHIFTED), str(moved_by))

    # -- what it answers -----------------------------------------------------------------------------------

    async def queued(self, recipient: PublicKey | None = None) -> int:
        """Return how many messages are queued, for all recipients or for one."""
        return _queued(await self.ask("queue"), recipient)

    async def until_drained(self, recipient: PublicKey | None = None) -> None:
        def is_drained(rows: Rows) -> bool:
            return not _queued(rows, recipient)

        await self.until_answer("the emptying of its queues", "queue", is_drained)

    async def until_joined(self, group: PublicKey, subscriber: PublicKey) -> None:
        def has_joined(rows: Rows) -> bool:
            return any(row["group"] == group.hex() and row["subscriber"] == subscriber.hex() for row in rows)

        await self.until_answer(f"the joining of {subscriber.hex()[:8]}", "groups", has_joined)

    async def until_connected(self, key: PublicKey, *, up: bool = True) -> None:
        def is_so(rows: Rows) -> bool:
            return any(row["address"] == key.hex() and row["state"] == "connected" for row in rows) is up

        await self.until_answer(f"the {'coming' if up else 'going'} of {key.hex()[:8]}", "peers", is_so)


def _queued(rows: Rows, recipient: PublicKey | None) -> int:
    return sum(row["messages"] for row in rows if recipient is None or row["recipient"] == recipient.hex())


class Rig:
    """The processes of one test, which all end with it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.processes: list[Process] = []

    def node(
        self,
        name: str,
        role: config.Role = "edge",
        settings: Settings = MappingProxyType({}),
        *,
        listens: bool | None = None,
        verbose: bool = False,
    ) -> NodeProcess:
        """Return a node that is not started yet; by default a core listens on TLS and an edge does not."""
        listens = role == "core" if listens is None else listens
        found = NodeProcess(self.base, name, role, settings, listens=listens, verbose=verbose)
        self.processes.append(found)
        return found

    def process(self, name: str, *command: str) -> Process:
        found = Process(name, command, self.base / f"{name}.stderr")
        self.processes.append(found)
        return found

    async def close(self) -> None:
        for one in self.processes:
            if one.is_running:
                one.thaw()
                await one.kill()

    def check(self) -> None:
        """Raise `RigFailed` if a process printed a traceback or reported an internal error."""
        for one in self.processes:
            said = one.stderr.read_text(errors="replace") if one.stderr.exists() else ""
            if "Traceback" in said or "something is wrong in this program" in said:
                raise RigFailed(f"{one.name} met a fault of its own: {said[-4000:]}")


@asynccontextmanager
async def rig(base: Path, within_s: float = HANG_S) -> AsyncIterator[Rig]:
    """Yield the rig of a test; kill its processes by their pids when the test ends.

    Raise `RigFailed` after too long a time, with the pending waits and the last output of each process."""
    found = Rig(base)
    given_up.clear()
    try:
        with trio.move_on_after(within_s) as patience:
            yield found
    finally:
        with trio.CancelScope(shield=True):
            await found.close()
    if patience.cancelled_caught:
        said = [f"{one.name} said last: {one.said()}" for one in found.processes]
        raise RigFailed("\n".join([f"after {within_s:g} s still waited for:", *given_up, *said]))
    found.check()


class Tiers(NamedTuple):
    """Edge A, the core that is its uplink, and edge B of that core."""

    rig: Rig
    edge_a: NodeProcess
    core: NodeProcess
    edge_b: NodeProcess


@asynccontextmanager
async def three_tiers(
    base: Path, settings: Settings = MappingProxyType({}), *, verifiers: int = 0, within_s: float = HANG_S
) -> AsyncIterator[Tiers]:
    """Start and connect all three. `verifiers`: the number of the core's verifier processes."""
    async with rig(base, within_s) as found:
        core = found.node("core", "core", {**settings, "verify.verifiers": verifiers})
        edge_a, edge_b = found.node("edge-a", "edge", settings), found.node("edge-b", "edge", settings)
        core.serves(edge_a)
        core.serves(edge_b)
        async with trio.open_nursery() as nursery:
            for node in (core, edge_a, edge_b):
                nursery.start_soon(node.start)
        await core.until_connected(edge_a.address)
        await core.until_connected(edge_b.address)
        yield Tiers(found, edge_a, core, edge_b)


def new_key() -> SigningKey:
    return SigningKey(os.urandom(32))
