"""A real node in its own process on a temporary home, and the client processes around it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from router.actors.process import program
from router.bench.clients import Order
from router.bench.traffic import Traffic
from router.core.wire.crypto import SigningKey


class BenchFailed(Exception):
    """The bench could not measure; the text says what went wrong."""


def apart(command: list[str], **more: Any) -> subprocess.Popen[Any]:
    """Start a child whose output we read, and which Ctrl-C on the terminal does not reach: the bench itself ends it."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, **more)


@dataclass
class Client:
    """A client process: ready when made, begins at `go`, ends with `result`."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, order: Order) -> Client:
        command = program("router.bench.clients", json.dumps(asdict(order)))
        return cls(apart(command, stdin=subprocess.PIPE, text=True))

    def ready(self) -> None:
        self._line()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self) -> dict[str, Any]:
        found = self._line()
        self.end()
        return found

    def whole(self) -> dict[str, Any]:
        """Run the client from start to end, and return its result."""
        self.ready()
        self.go()
        return self.result()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise BenchFailed(f"a client process ended early, with code {self.process.wait()}")
        value: dict[str, Any] = json.loads(line)
        return value

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@dataclass
class Rig:
    """The node under test. `settings` are flags of `router serve`; `program` is the module that is run."""

    home: Path
    transport: str
    settings: dict[str, str] = field(default_factory=dict)
    grants: list[bytes] = field(default_factory=list)
    program: str = "router"
    address: str = ""
    url: str = ""
    tls_url: str = ""
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        flags = [part for name, value in self.settings.items() for part in ("--set", f"{name}={value}")]
        listen = ["--listen", "tls://127.0.0.1:0"]
        command = program(self.program, "--home", str(self.home), "serve", "--json", *listen, *flags)
        if not (self.home / "router.toml").exists():
            self._prepare()
        self.process = apart(command, text=True)
        assert self.process.stdout is not None
        try:
            line = self.process.stdout.readline()
            if not line:
                raise BenchFailed(f"the node did not start; its exit code is {self.process.wait()}")
        except BaseException:
            self.stop()
            raise
        ready = json.loads(line)
        self.address = ready["address"]
        self.url, self.tls_url = (
            next(url for url in ready["listeners"] if url.startswith(one)) for one in (self.transport, "tls")
        )

    def _prepare(self) -> None:
        """Prepare the home. Clients on TLS act as other machines: they need the right to join and to have messages
        stored."""
        subprocess.run(
            program("router", "--home", str(self.home), "init", "--role", "core"),
            check=True, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        blocks = [f'\n[[peers]]\naddress = "{key.hex()}"\ngrant = ["join", "store"]\n' for key in self.grants]
        with (self.home / "router.toml").open("a") as file:
            file.write("".join(blocks))

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    # -- what the node costs -------------------------------------------------------------------------------

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the node and its verifiers."""
        assert self.process is not None
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def cpu_s(self) -> float:
        return sum(_cpu_s(pid) for pid in self.pids)

    def memory_mib(self) -> float:
        """Return the processes' private memory; pages of the database's map are the system's cache, and not counted."""
        return sum(_anonymous_kib(pid) for pid in self.pids) / 1024

    def commits(self) -> int:
        """Return how many transactions the node has committed since its start."""
        command = program("router", "--home", str(self.home), "status", "--json")
        status = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, start_new_session=True)
        return int(json.loads(status.stdout)["counters"]["commits"])

    @contextmanager
    def running(self) -> Iterator[Clients]:
        """Yield the node's clients; they and the node are ended in any case."""
        clients = Clients(self)
        try:
            yield clients
        finally:
            for client in clients.clients:
                client.end()
            self.stop()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _anonymous_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


class Clients:
    """Start client processes of one rig, and keep track of them all."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.clients: list[Client] = []

    def __call__(self, role: str, keys: Sequence[SigningKey], traffic: Traffic, **more: Any) -> Client:
        """Start a process with a link for each key."""
        rig, seeds = self._rig, [key.seed.hex() for key in keys]
        order = Order(
            role, rig.url, rig.address, seeds, path=str(traffic.path),
            group_seeds=[seed.hex() for seed in (traffic.group_seed, *traffic.further_seeds)],
            frame_bytes=traffic.frame_bytes, number_at=traffic.number_at, **more,
        )  # fmt: skip
        self.clients.append(Client.start(order))
        return self.clients[-1]


@contextmanager
def workbench() -> Iterator[Path]:
    """Yield a directory for homes and traffic, on the disk where homes usually are; deleted afterwards."""
    base = Path(tempfile.mkdtemp(prefix="router-bench-"))
    try:
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)
