"""A real node in its own process on a temporary home, and the client processes around it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from functools import partial, wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import trio

from router.actors.process import program
from router.bench.clients import Order
from router.bench.traffic import Traffic
from router.cli.signals import handling
from router.core.wire.crypto import SigningKey
from router.rig.ending import tie_to_this_process
from router.rig.machines import NamespaceMachine
from router.rig.node import NodeProcess
from router.rig.process import Process, RigFailed
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.config_services import NOBODY, Residents
from router.settings.home import Home

P = ParamSpec("P")
T = TypeVar("T")


def in_trio(act: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    """Return a plain function that runs `function` in an event loop of its own."""

    @wraps(act)
    def run(*args: P.args, **more: P.kwargs) -> T:
        return trio.run(partial(act, *args, **more))

    return run


class Client(Process):
    """A client process: ready when started, begins at `go`, ends with `result`."""

    async def go(self) -> None:
        await self.tell("")

    async def result(self) -> dict[str, Any]:
        line = await self.next_line()
        if line is None:
            raise RigFailed(f"{self.name} ended early, with code {await self.wait()}: {self.said()}")
        await self.kill()
        return dict(json.loads(line))

    async def whole(self) -> dict[str, Any]:
        """Run the client from start to end, and return its result."""
        await self.start()
        await self.go()
        return await self.result()


class Rig(NodeProcess):
    """The node under test. `module`: the module to run in place of `router`; it grants `guests` the rights they
    need. `machine`: where it runs as an edge on the local network, in place of a core on this one."""

    def __init__(
        self,
        path: Path,
        transport: str,
        settings: Mapping[str, str] = MappingProxyType({}),
        guests: Sequence[SigningKey] = (),
        module: str = "router",
        machine: NamespaceMachine | None = None,
        residents: Residents = NOBODY,
    ) -> None:
        enter = machine.enter if machine else ()
        flags = ("--lan",) if machine else ("--listen", f"{transport if transport != 'unix' else 'tls'}://127.0.0.1:0")
        super().__init__(
            "the node",
            Home(path),
            path / "stderr",
            settings,
            *flags,
            served_by=(*enter, *program(module)),
            tie=tie_to_this_process(),
        )
        self._transport = transport
        self.home.create("edge" if machine else "core", residents=residents)
        for guest in guests:
            edit_peers(self.home.config_path, AddPeer(Peer(address=guest.public, grant=("join", "store", "relay"))))

    async def start(self, *more: str) -> str:
        """Start the node and wait until it is ready; end it if that is interrupted."""
        try:
            return await super().start(*more)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self.kill()
            raise

    @property
    def address(self) -> str:
        return str(self.told["address"])

    @property
    def url(self) -> str:
        return self.url_of(self._transport)

    def url_of(self, transport: str) -> str:
        return str(next(url for url in self.told["listeners"] if url.startswith(transport)))

    # -- what the node costs -------------------------------------------------------------------------------

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the node and its verifiers."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def cpu_s(self) -> float:
        return sum(_cpu_s(pid) for pid in self.pids)

    def memory_mib(self) -> float:
        """Return the processes' private memory, without pages of the database's map, which are the system's cache."""
        return sum(_anonymous_kib(pid) for pid in self.pids) / 1024

    async def commits(self) -> int:
        """Return how many transactions the node has committed since its start."""
        return int((await self.ask("status"))["counters"]["commits"])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Clients]:
        """Yield the node's clients; they and the node are ended in any case."""
        clients = Clients(self)
        try:
            yield clients
        finally:
            with trio.CancelScope(shield=True):
                for client in clients.clients:
                    await client.kill()
                await self.stop()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _anonymous_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


class Clients:
    """Makes the client processes of one rig, and keeps track of them all."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.clients: list[Client] = []

    def __call__(self, role: str, keys: Sequence[SigningKey], traffic: Traffic, **more: Any) -> Client:
        """Return a process with a link for each key, not started yet."""
        rig, seeds = self.rig, [key.seed.hex() for key in keys]
        order = Order(
            role,
            rig.url,
            rig.address,
            seeds,
            path=str(traffic.path),
            group_seeds=[seed.hex() for seed in (traffic.group_seed, *traffic.further_seeds)],
            frame_bytes=traffic.frame_bytes,
            number_at=traffic.number_at,
            **more,
        )
        return self.client("router.bench.clients", asdict(order))

    def client(self, module: str, order: Mapping[str, Any], machine: NamespaceMachine | None = None) -> Client:
        """Return a process of a module, on a machine of its own if one is named, not started yet."""
        enter = machine.enter if machine else ()
        command = (*enter, *program(module, json.dumps(order)))
        client = Client(f"a process of {module}", command, self.rig.stderr, tie_to_this_process())
        self.clients.append(client)
        return client


@contextmanager
def workbench() -> Iterator[Path]:
    """Yield a directory for homes and traffic, on the disk where homes usually are; deleted afterwards, also when a
    signal ends the bench."""
    base = Path(tempfile.mkdtemp(prefix="router-bench-"))
    try:
        yield base
    finally:
        with handling(signal.SIG_IGN):
            shutil.rmtree(base, ignore_errors=True)
