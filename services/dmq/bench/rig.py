"""A DMQ node in a process of its own, on a home that is made for it, and the client processes around it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from router.actors.process import program
from router.client.node import connect
from router.rig.process import HANG_S, Process, RigFailed, until
from services.dmq.bench import traffic

LOGGED, UNLOGGED = "router", "services.dmq.bench.unlogged"


class Node(Process):
    """A node of pools that have stake. `consumers`: its named ones; `module`: what is run in place of `router`."""

    def __init__(
        self, base: Path, stake: bytes, consumers: Sequence[str] = (), module: str = LOGGED, *settings: str
    ) -> None:
        base.mkdir(parents=True, exist_ok=True)
        (base / "stake.json").write_bytes(stake)
        self.home, self.base = base / "home", base
        serve = ["--home", str(self.home), "dmq", "serve", "--network", traffic.NETWORK, "--json"]
        serve += ["--local-socket", str(self.socket), "--stake", str(base / "stake.json")]
        serve += settings
        for name in consumers:
            serve += ["--consumer", f"{name}={self.socket_of(name)}"]
        super().__init__("the node", program(module, *serve), base / "stderr")
        self.clients: list[Client] = []

    @property
    def socket(self) -> Path:
        return self.base / "node.sock"

    def socket_of(self, consumer: str) -> Path:
        return self.base / f"{consumer}.sock"

    def client(self, role: str, socket: Path, *more: object) -> Client:
        """Return a client process, not started yet."""
        return self.process("services.dmq.bench.clients", role, str(socket), *map(str, more))

    def process(self, module: str, *words: str) -> Client:
        """Return a process of a module, not started yet."""
        one = Client(f"the client {words[0]}", program(module, *words), self.base / "clients.stderr")
        self.clients.append(one)
        return one

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the node; it ends with the block, and its clients too."""
        await self.start()
        try:
            await until("the stake is read", self._knows_stake)
            yield
        finally:
            with trio.CancelScope(shield=True):
                for one in self.clients:
                    await one.kill()
                self.clients.clear()
                if self.is_running:
                    await self.stop()

    async def _knows_stake(self) -> bool:
        status = await self.status()
        return bool(status.get("stake", {}).get("pools"))

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.ask("service", "dmq status")
        return found

    async def ask(self, word: str, argument: str = "") -> Any:
        async with connect(home=self.home) as app:
            return json.loads(await app.ask(word, argument, timeout_s=HANG_S))

    # -- what it costs -------------------------------------------------------------------------------------

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the node, its worker and its verifiers."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        return [self.pid, *(int(child) for one in threads for child in (one / "children").read_text().split())]

    def cpu_s(self) -> float:
        """Return the CPU time of the node's processes until now, from the scheduler's clock in nanoseconds."""
        return sum(_cpu_s(pid) for pid in self.pids)

    def memory_bytes(self) -> int:
        """Return the private memory of the node's processes; pages of its databases are the system's cache."""
        return sum(_anonymous_bytes(pid) for pid in self.pids)


class Client(Process):
    """A client process: ready when it has shaken hands, begins at `go`, ends with `result`."""

    async def go(self) -> None:
        await self.tell("")

    async def result(self) -> dict[str, Any]:
        line = await self.line()
        if not line:
            raise RigFailed(f"{self.name} ended early, with code {await self.wait()}: {self.said()}")
        await self.kill()
        return dict(json.loads(line))


def _cpu_s(pid: int) -> float:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((one / "schedstat").read_text().split()[0]) for one in threads) / 1e9


def _anonymous_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return 0
