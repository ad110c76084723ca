"""Real nodes for end-to-end tests: homes, `router serve` processes by their pids, what they answer, how they end.

Nothing waits for a time to pass: a process is ready when it has printed its line, a state is there when the node says
so, and every wait has a deadline that fails with what was awaited and what the processes printed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import trio

from router import config, connect, keyring
from router.config_peers import AddPeer, Grant, Peer
from router.core.crypto import PublicKey, SigningKey
from router.home import Home

READY_S = 30.0
ENDED_S = 30.0
STATE_S = 30.0
TEST_S = 120.0
POLL_S = 0.01
ROUTER = (sys.executable, "-m", "router")
PORTS = range(20_000, 32_000)  # below the ports that the system gives to outgoing connections
QUICK = {  # a test does not wait for an operator's patience
    "link.dial_backoff_s_min": 0.05, "link.dial_backoff_s_max": 0.2, "link.retry_backoff_s_min": 0.1,
    "link.goodbye_s": 1, "verify.verifiers": 0,
}  # fmt: skip


class Failed(AssertionError):
    """What was awaited did not come; the text says what, and what the processes had to say."""


class Finished(NamedTuple):
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[Any]:
        """JSON Lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]


async def run_command(command: Sequence[str], stdin: bytes = b"", user: int | None = None) -> Finished:
    """Run it to its end, as another user if one is named."""
    with trio.fail_after(ENDED_S):
        done = await trio.run_process(
            list(command), stdin=stdin, capture_stdout=True, capture_stderr=True, check=False, user=user
        )
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


async def until(what: str, holds: Callable[[], Awaitable[bool]], within_s: float = STATE_S) -> None:
    """Ask again and again until it holds."""
    deadline = trio.current_time() + within_s
    while not await holds():
        if trio.current_time() > deadline:
            raise Failed(f"after {within_s:g} s still not: {what}")
        await trio.sleep(POLL_S)


def free_port() -> int:
    """A port nobody listens on, to be listened on again after every restart."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(PORTS)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Process:
    """A child process of ours that prints lines; standard error goes to a file."""

    def __init__(self, name: str, command: Sequence[str], stderr: Path) -> None:
        self.name = name
        self.command = list(command)
        self.stderr = stderr
        self._process: trio.Process | None = None
        self._unread = b""

    def __repr__(self) -> str:
        return f"<{self.name}, {f'pid {self.pid}' if self.is_running else 'not running'}>"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def launch(self) -> None:
        """Start it, ready or not."""
        assert not self.is_running
        self._unread = b""
        with self.stderr.open("ab") as stderr:
            self._process = await trio.lowlevel.open_process(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
            )

    async def start(self) -> str:
        """Start it and wait until it is ready."""
        await self.launch()
        return await self.ready()

    async def ready(self) -> str:
        """The line that it prints when it is ready."""
        line = await self.line()
        if not line:
            raise Failed(f"{self.name} ended with code {await self.wait()} before it was ready: {self.said()}")
        return line

    async def line(self) -> str:
        """Its next line; empty at its end."""
        assert self._process is not None and self._process.stdout is not None
        with trio.move_on_after(READY_S):
            while b"\n" not in self._unread:
                data = await self._process.stdout.receive_some()
                if not data:
                    return self._unread.decode()
                self._unread += data
            line, _, self._unread = self._unread.partition(b"\n")
            return line.decode()
        raise Failed(f"{self.name} printed no line within {READY_S:g} s: {self.said()}")

    async def tell(self, line: str) -> None:
        """A line on its standard input."""
        assert self._process is not None and self._process.stdin is not None
        await self._process.stdin.send_all(line.encode() + b"\n")

    def signal(self, number: signal.Signals) -> None:
        if self.is_running:
            os.kill(self.pid, number)

    async def kill(self) -> None:
        """As `kill -9`."""
        self.signal(signal.SIGKILL)
        await self.wait()

    async def stop(self) -> int:
        """As `kill`; its exit code."""
        self.signal(signal.SIGTERM)
        return await self.wait()

    async def wait(self) -> int:
        process = self._process
        assert process is not None
        with trio.move_on_after(ENDED_S):
            code = await process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()
            return code
        raise Failed(f"{self.name} did not end within {ENDED_S:g} s: {self.said()}")

    async def freeze(self) -> None:
        """Stop every thread where it stands: its files are now what `kill -9` would leave."""
        self.signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.pid}/task")
        while any(_state(task) != "T" for task in tasks.iterdir()):
            await trio.sleep(0)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def said(self) -> str:
        """The end of its standard error."""
        text = self.stderr.read_text(errors="replace") if self.stderr.exists() else ""
        return text[-2000:] or "nothing on standard error"


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "T"  # This thread has ended.


class NodeProcess(Process):
    """A node: a home, and `router serve` on it."""

    def __init__(
        self, base: Path, name: str, role: config.Role, settings: dict[str, object], *, listens: bool, verbose: bool
    ) -> None:
        self.home = Home(base / name)
        self.home.create(role)
        self.key = keyring.load_or_create(self.home, keyring.NODE)
        self.url = f"tls://127.0.0.1:{free_port()}" if listens else ""
        self.settings = {**QUICK, **settings}
        self.verbose = ("--verbose",) if verbose else ()
        super().__init__(name, (), base / f"{name}.stderr")

    @property
    def address(self) -> PublicKey:
        return self.key.public

    def knows(
        self, key: PublicKey, name: str = "", *, url: str = "", grants: tuple[Grant, ...] = (), uplink: bool = False
    ) -> None:
        """Write a neighbour into the configuration."""
        peer = Peer(address=key, name=name, urls=(url,) if url else (), grant=grants, uplink=uplink)
        config.edit_peers(self.home.config_path, AddPeer(peer))

    def serves(self, edge: NodeProcess) -> None:
        """This node is an uplink of that edge, which has every right here."""
        self.knows(edge.address, edge.name, grants=("join", "store", "relay"))
        edge.knows(self.address, self.name, url=self.url, uplink=True)

    async def launch(self) -> None:
        listen = ("--listen", self.url) if self.url else ()
        settings = [part for name, value in self.settings.items() for part in ("--set", f"{name}={_toml(value)}")]
        self.command = [*ROUTER, "--home", str(self.home.path), "serve", "--json", *listen, *settings, *self.verbose]
        await super().launch()

    async def run(self, *args: str, stdin: bytes = b"") -> Finished:
        """A command on this home, in a process of its own."""
        return await run_command((*ROUTER, "--home", str(self.home.path), *args), stdin)

    # -- what it answers -----------------------------------------------------------------------------------

    async def ask(self, word: str) -> Any:
        """What `router status`, `queue`, `groups` or `peers` ask the node, without the process around it."""
        with trio.fail_after(STATE_S):
            async with connect(home=self.home) as app:
                return json.loads(await app.ask(word))

    async def queued(self, recipient: PublicKey | None = None) -> int:
        """How many messages wait, for everybody or for one."""
        rows = await self.ask("queue")
        return sum(row["messages"] for row in rows if recipient is None or row["recipient"] == recipient.hex())

    async def until_drained(self, recipient: PublicKey | None = None) -> None:
        async def is_drained() -> bool:
            return await self.queued(recipient) == 0

        await until(f"the queues of {self.name} are empty", is_drained)

    async def until_joined(self, group: PublicKey, subscriber: PublicKey) -> None:
        async def has_joined() -> bool:
            rows = await self.ask("groups")
            return any(row["group"] == group.hex() and row["subscriber"] == subscriber.hex() for row in rows)

        await until(f"{subscriber.hex()[:8]} is in the group at {self.name}", has_joined)

    async def until_connected(self, key: PublicKey, *, up: bool = True) -> None:
        async def is_so() -> bool:
            connected = (row["address"] for row in await self.ask("peers") if row["state"] == "connected")
            return (key.hex() in connected) is up

        await until(f"{key.hex()[:8]} is {'connected' if up else 'gone'} at {self.name}", is_so)


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Rig:
    """The processes of one test, all of which end with it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.processes: list[Process] = []

    def node(
        self, name: str, role: config.Role = "edge", *, listens: bool | None = None, verbose: bool = False,
        **settings: object,
    ) -> NodeProcess:  # fmt: skip
        """A node that is not started yet. `settings`: `store__map_bytes_max=…` is store.map_bytes_max."""
        dotted = {key.replace("__", "."): value for key, value in settings.items()}
        listens = role == "core" if listens is None else listens
        found = NodeProcess(self.base, name, role, dotted, listens=listens, verbose=verbose)
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
        """No process met a fault of its own."""
        for one in self.processes:
            said = one.stderr.read_text(errors="replace") if one.stderr.exists() else ""
            if "Traceback" in said or "something is wrong in this program" in said:
                raise Failed(f"{one.name} met a fault of its own: {said[-4000:]}")


@asynccontextmanager
async def rig(base: Path, within_s: float = TEST_S) -> AsyncIterator[Rig]:
    """The processes of a test; killed, by their pids, when it ends or has taken too long."""
    found = Rig(base)
    try:
        with trio.fail_after(within_s):
            yield found
    finally:
        with trio.CancelScope(shield=True):
            await found.close()
    found.check()


@asynccontextmanager
async def three_tiers(
    base: Path, verifiers: int = 0, within_s: float = TEST_S, **settings: object
) -> AsyncIterator[tuple[Rig, NodeProcess, NodeProcess, NodeProcess]]:
    """Edge A, the core that is its uplink, and edge B of the same core; all of them run and are connected.

    `verifiers`: the core's, in processes of their own.
    """
    async with rig(base, within_s) as found:
        core = found.node("core", "core", **settings, verify__verifiers=verifiers)
        edges = found.node("edge-a", **settings), found.node("edge-b", **settings)
        for edge in edges:
            core.serves(edge)
        async with trio.open_nursery() as nursery:
            for node in (core, *edges):
                nursery.start_soon(node.start)
        for edge in edges:
            await core.until_connected(edge.address)
        yield found, edges[0], core, edges[1]


def new_key() -> SigningKey:
    return SigningKey(os.urandom(32))


