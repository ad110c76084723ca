"""Print what a message costs here and with go-libp2p-pubsub: `PYTHONPATH=tests python -m scale.beside_gossipsub`.

First ten cores with discovery and pub/sub as `router init` sets them, TLS, and an app at each; then ten peers of
`tests/peers/gossipsub`, all connected, with StrictSign. Each publishes 1 KiB every two seconds. After a warm-up CPU
time, bytes, delays and memory are taken; then some are killed and started again, and it is counted which share of the
messages reached them. Each side has a network namespace of its own, so bytes are those of its loopback with all
headers and control traffic. CPU time is that of nodes and their processes, without the apps, which are tasks here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median, quantiles
from typing import NamedTuple

import trio
from rigs.ports import free_port

from router import SigningKey, connect
from router.rig.ending import until_signalled
from router.rig.machines import bridged
from router.rig.node import NodeProcess
from router.rig.process import HANG_S, Process, until
from router.settings.config_services import OF_A_CORE, NewHomeService
from router.settings.home import Home

TESTS = Path(__file__).parent.parent
PEER = TESTS / "peers" / "gossipsub"
THIS_TREE = {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"}
BODY_BYTES = 1024
AWAY_S, REST_S = 10.0, 60.0
"""How long a killed one stays away, and how long all wait for what is still missing when nobody publishes any more."""


class Asked(NamedTuple):
    """The numbers of a run. `victims`: how many are killed, one after the other."""

    nodes: int
    pace_s: float
    warm_s: float
    length_s: float
    victims: int


class Figures(NamedTuple):
    """What one side needed; `killed_share`: of what others published from the first kill on, what reached those that
    were killed, NaN without kills."""

    cpu_ms: float
    p50_s: float
    p95_s: float
    wire_bytes: float
    memory_mb: float
    children_mb: float
    share: float
    killed_share: float
    load: float


GOALS = {"cpu_ms": 2.5, "p50_s": 1.5, "wire_bytes": 0.9}
"""At most so many times as much as GossipSub."""
MEMORY_MB = 50
NAMES = {
    "cpu_ms": "CPU time a delivery, ms", "p50_s": "median delay, s", "p95_s": "95 % delay, s",
    "wire_bytes": "bytes a delivery", "memory_mb": "resident memory of a node, MB",
    "children_mb": "the same of its verifier processes, MB", "share": "share delivered",
    "killed_share": "share delivered to those that were killed", "load": "load of the machine at the end",
}  # fmt: skip


class Ledger:
    """What was published and what came, with the moments (monotonic) at which this program heard of it."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, int, str]] = []
        self.got: list[tuple[float, int, str, float]] = []

    def delays_s(self, since_s: float, until_s: float) -> list[float]:
        """Return the delays of what came in that time."""
        return [delay for at, _, _, delay in self.got if since_s <= at < until_s]

    def missing(self, since_s: float, until_s: float, readers: Iterable[int]) -> tuple[list[Owed], int]:
        """Return what of the others' messages of that time has not reached these readers, and how many should have."""
        reached = {(reader, name) for _, reader, name, _ in self.got}
        sent = [one for one in self.sent if since_s <= one[0] < until_s]
        owed = [
            Owed(at - since_s, sender, reader, name)
            for reader in readers
            for at, sender, name in sent
            if sender != reader
        ]
        return [one for one in owed if (one.reader, one.name) not in reached], len(owed)

    def share(self, since_s: float, until_s: float, readers: Iterable[int]) -> float:
        """Return which share of the others' messages of that time reached these readers; print what did not."""
        missing, owed = self.missing(since_s, until_s, readers)
        for one in missing:
            print(f"not delivered: {one}", file=sys.stderr)
        return 1 - len(missing) / owed if owed else float("nan")


class Owed(NamedTuple):
    """A message that a reader should get; `at_s`: seconds after the beginning of the time that is judged."""

    at_s: float
    sender: int
    reader: int
    name: str


class Side(ABC):
    """Ten nodes of one kind, which are killed and started again by their numbers."""

    def __init__(self, base: Path, asked: Asked, nursery: trio.Nursery) -> None:
        self.base, self.asked, self.nursery = base, asked, nursery
        self.ledger = Ledger()
        self.processes: list[Process] = []

    @abstractmethod
    async def start(self) -> None:
        """Start all, and return once each knows all others."""

    @abstractmethod
    async def publish(self) -> None:
        """Let all begin to publish, spread over the pace."""

    @abstractmethod
    async def hush(self) -> None:
        """Let nobody publish any more."""

    @abstractmethod
    async def start_again(self, number: int) -> None:
        """Start one that was killed."""

    async def end(self) -> None:
        for one in self.processes:
            await one.kill()


class Ours(Side):
    """Cores with an app at each, which outlives the kills of its core."""

    def __init__(self, base: Path, asked: Asked, nursery: trio.Nursery) -> None:
        super().__init__(base, asked, nursery)
        self.nodes: list[NodeProcess] = []
        self.group = SigningKey(os.urandom(32))
        self.is_hushed, self.hushed = False, trio.Event()

    async def start(self) -> None:
        link: tuple[str, ...] = ()
        for number in range(self.asked.nodes):
            home = Home(self.base / f"core{number}")
            residents = dict(OF_A_CORE)
            residents["discovery"] = NewHomeService({**OF_A_CORE["discovery"].settings, "seeds": link})
            home.create("core", (f"tls://127.0.0.1:{free_port()}",), residents)
            node = NodeProcess(f"core{number}", home, self.base / f"core{number}.stderr", {})
            self.nodes.append(node)
            self.processes.append(node)
            await node.start()
            link = link or ((await node.run("id", "--link")).stdout.strip(),)
            await self.nursery.start(self._read, number)
        await until("the meeting of all cores", self._have_met)

    async def _have_met(self) -> bool:
        return all([await self._neighbours(node) >= self.asked.nodes - 1 for node in self.nodes])

    async def _neighbours(self, node: NodeProcess) -> int:
        async with connect(home=node.home) as app:
            topics = json.loads(await app.ask("service", "pubsub topics", timeout_s=HANG_S))["topics"]
        return int(topics[self.group.public.hex()]["neighbours"])

    async def _read(self, number: int, task_status: trio.TaskStatus[None]) -> None:
        """Read by a kept key: messages wait for it, and its group stays joined, while its core is away."""
        async with connect(home=self.nodes[number].home, as_name="reader", when_down="queue") as app:
            messages = await app.join(self.group.public, timeout_s=HANG_S)
            task_status.started()
            async for message in messages:
                name, delay_s = _read_body(message.body)
                if not name.startswith(f"{number}-"):
                    self.ledger.got.append((time.monotonic(), number, name, delay_s))

    async def publish(self) -> None:
        self.nursery.start_soon(self._publish_all)

    async def _publish_all(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(self.asked.nodes):
                nursery.start_soon(self._publish, number)
                await trio.sleep(self.asked.pace_s / self.asked.nodes)
        self.hushed.set()

    async def _publish(self, number: int) -> None:
        async with connect(home=self.nodes[number].home, when_down="queue") as app:
            while not self.is_hushed:
                began = trio.current_time()
                body = _body(number)
                self.ledger.sent.append((time.monotonic(), number, _read_body(body)[0]))
                await app.group(self.group).publish(body)
                await trio.sleep_until(began + self.asked.pace_s)

    async def hush(self) -> None:
        self.is_hushed = True  # a message under way is still handed in
        await self.hushed.wait()

    async def start_again(self, number: int) -> None:
        await self.nodes[number].start()


class Theirs(Side):
    """Peers of go-libp2p-pubsub, which read and publish themselves. `command`: the built program."""

    def __init__(self, base: Path, asked: Asked, nursery: trio.Nursery, command: str) -> None:
        super().__init__(base, asked, nursery)
        ports = [str(free_port()) for _ in range(asked.nodes)]
        self.processes = [
            Process(f"peer{number}", (command, str(number), *ports), base / f"peer{number}.stderr")
            for number in range(asked.nodes)
        ]
        self._neighbours = [0] * asked.nodes

    async def start(self) -> None:
        for number, one in enumerate(self.processes):
            await one.start()
            self.nursery.start_soon(self._read, number)
        await until("the meeting of all peers", self._have_met)

    async def _have_met(self) -> bool:
        for one in self.processes:
            await one.tell("count")
        return min(self._neighbours) == self.asked.nodes - 1

    async def _read(self, number: int) -> None:
        while line := await self.processes[number].next_line():
            said, now = json.loads(line), time.monotonic()
            if "got" in said:
                self.ledger.got.append((now, number, said["got"], said["delay_s"]))
            elif "sent" in said:
                self.ledger.sent.append((now, number, said["sent"]))
            elif "neighbours" in said:
                self._neighbours[number] = said["neighbours"]

    async def publish(self) -> None:
        for number in range(self.asked.nodes):
            await self._publish(number)
            await trio.sleep(self.asked.pace_s / self.asked.nodes)

    async def _publish(self, number: int) -> None:
        await self.processes[number].tell(f"publish {1000 * self.asked.pace_s:.0f} {BODY_BYTES}")

    async def hush(self) -> None:
        for one in self.processes:
            await one.tell("hush")

    async def start_again(self, number: int) -> None:
        await self.processes[number].start()
        self.nursery.start_soon(self._read, number)
        await self._publish(number)


def _body(number: int) -> bytes:
    return (time.time_ns().to_bytes(8) + number.to_bytes(8)).ljust(BODY_BYTES, b"\0")


def _read_body(body: bytes) -> tuple[str, float]:
    """Return the name of a message and its age in seconds."""
    at_ns = int.from_bytes(body[:8])
    return f"{int.from_bytes(body[8:16])}-{at_ns}", (time.time_ns() - at_ns) / 1e9


class Reading(NamedTuple):
    """What the processes and the loopback have used until now."""

    at_s: float
    cpu_s: float
    wire_bytes: int


def read_processes(processes: Sequence[Process]) -> Reading:
    cpu_s = sum(_cpu_s(pid) for one in processes for pid in (one.pid, *_children(one.pid)))
    return Reading(time.monotonic(), cpu_s, _loopback_bytes())


def _children(pid: int) -> list[int]:
    return [
        int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text().split()
    ]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024 / 1e6


def _loopback_bytes() -> int:
    line = next(each for each in Path("/proc/net/dev").read_text().splitlines() if each.strip().startswith("lo:"))
    return int(line.partition(":")[2].split()[0])


async def measured(side: Side, asked: Asked) -> Figures:
    """Run one side: warm-up, measurement, kills."""
    await side.start()
    await side.publish()
    await trio.sleep(asked.warm_s)
    before = read_processes(side.processes)
    await trio.sleep(asked.length_s)
    after = read_processes(side.processes)
    load = os.getloadavg()[0]
    memory_mb = mean(_resident_mb(one.pid) for one in side.processes)
    children_mb = mean(sum(map(_resident_mb, _children(one.pid))) for one in side.processes)
    victims = [asked.nodes - 1 - number for number in range(asked.victims)]
    for number in victims:
        await side.processes[number].kill()
        await trio.sleep(AWAY_S)
        await side.start_again(number)
        await trio.sleep(AWAY_S)
    await side.hush()
    ended_s = time.monotonic()
    await trio.sleep(REST_S if victims else AWAY_S)
    ledger = side.ledger
    delays = ledger.delays_s(before.at_s, after.at_s)
    return Figures(
        1000 * (after.cpu_s - before.cpu_s) / len(delays),
        median(delays),
        quantiles(delays, n=20)[-1],
        (after.wire_bytes - before.wire_bytes) / len(delays),
        memory_mb,
        children_mb,
        ledger.share(before.at_s, after.at_s, range(asked.nodes)),
        ledger.share(after.at_s, ended_s, victims),
        load,
    )


async def run_side(name: str, command: str, asked: Asked) -> Figures:
    with tempfile.TemporaryDirectory(prefix="beside-", ignore_cleanup_errors=True) as base:
        async with trio.open_nursery() as nursery:
            side: Side = Ours(Path(base), asked, nursery)
            if name == "theirs":
                side = Theirs(Path(base), asked, nursery, command)
            try:
                found = await measured(side, asked)
            finally:
                with trio.CancelScope(shield=True):
                    await side.end()
            nursery.cancel_scope.cancel()
    return found


@contextmanager
def built(given: str) -> Iterator[str]:
    """Yield the program of a peer: the given one, or one that is built, for which its modules are fetched."""
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="gossipsub-") as base:
        place = Path(base) / "gossipsub"
        shutil.copytree(PEER, place)
        for words in (("mod", "tidy"), ("build", "-o", "peer", ".")):
            subprocess.run(("go", *words), cwd=place, check=True)
        yield str(place / "peer")


def table(ours: Figures, theirs: Figures | None) -> list[str]:
    """Return the lines of the table, with ratios and goals."""
    lines = [f"{'FIGURE':42} {'OURS':>10} {'THEIRS':>10} {'RATIO':>7}  GOAL"]
    for name, title in NAMES.items():
        one, other = getattr(ours, name), getattr(theirs, name) if theirs else float("nan")
        goal = f"{GOALS[name]} x" if name in GOALS else ""
        goal = {"memory_mb": f"{MEMORY_MB} MB", "share": "1", "killed_share": "1"}.get(name, goal)
        ratio = one / other if other else float("nan")
        lines.append(f"{title:42} {one:10.4g} {other:10.4g} {ratio:7.2f}  {goal}")
    return lines


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--pace", type=float, default=2.0, help="seconds between two messages of each")
    parser.add_argument("--warm", type=float, default=35.0, help="seconds with traffic before the measurement")
    parser.add_argument("--length", type=float, default=40.0, help="seconds that are measured")
    parser.add_argument("--kills", type=int, default=3, help="how many are killed, one after the other")
    parser.add_argument("--peer", default="", help="the built program of tests/peers/gossipsub")
    parser.add_argument("--only", choices=("ours", "theirs"), help="run one side alone")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    given = _parsed()
    asked = Asked(given.nodes, given.pace, given.warm, given.length, given.kills)
    if given.inside:
        found = trio.run(until_signalled, run_side, given.inside, given.peer, asked)
        print(json.dumps(found._asdict()))
        return
    sides = (given.only,) if given.only else ("ours", "theirs")
    figures: dict[str, Figures] = {}
    with built(given.peer if "theirs" in sides else "none") as peer, bridged() as bridge:
        for side in sides:
            words = (sys.executable, "-m", "scale.beside_gossipsub", *sys.argv[1:], "--peer", peer, "--inside", side)
            done = subprocess.run((*bridge.machine().enter, *words), stdout=subprocess.PIPE, check=True, env=THIS_TREE)
            figures[side] = Figures(**json.loads(done.stdout.splitlines()[-1]))
            print(side, figures[side], flush=True)
    if "ours" in figures:
        print("\n".join(table(figures["ours"], figures.get("theirs"))))


if __name__ == "__main__":
    main()
