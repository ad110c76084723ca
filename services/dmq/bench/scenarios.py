"""The measurements of `router dmq bench`, each on a fresh node, and the goals beside them.

A node's cost is the CPU time of all its processes, by the scheduler's clock; the yardstick is taken just before and
just after. So other work on the machine makes a figure slower to come, and a little worse, but not meaningless.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from router.actors.process import program
from router.bench.goal import Goal
from router.rig.ending import Scenario
from router.rig.process import RigFailed, run_command
from services.dmq.bench import traffic, yardstick
from services.dmq.bench.rig import LOGGED, UNLOGGED, Node
from services.dmq.bench.traffic import Pools

SEED_US = 2000.0
"""What the CIP reckons for a verification."""
CONNECTIONS = 16
SIZE = 1150
POOLS = 400
TIMES = 3
LIVE_POOLS = 1550
NO_PACE = ("--min-sig-delay", "0.000001s")
RATE, PAIR_MESSAGES, WRONG_PER_S = 200, 2000, 1000


@dataclass
class Bench:
    """Where a bench works, how many messages a run has, and how many live ones memory is measured with."""

    base: Path
    messages: int
    live: int

    def __post_init__(self) -> None:
        self.pools = traffic.pools(min(POOLS, self.messages), 1)
        self.signed = self.written("signed", self.pools, self.messages, SIZE)
        self.alone = self.written("alone", self.pools, len(self.pools.keys), SIZE)

    def written(self, name: str, pools: Pools, count: int, size: int, *, wrong: bool = False) -> Path:
        traffic.write(self.base / name, pools, count, size, wrong=wrong)
        return self.base / name

    def node(
        self, *settings: str, module: str = LOGGED, pools: Pools | None = None, names: tuple[str, ...] = ()
    ) -> Node:
        home = Path(tempfile.mkdtemp(prefix="n", dir=self.base))
        return Node(home, (pools or self.pools).stake, names, module, *settings)


def verification(bench: Bench) -> list[Goal]:
    yard = yardstick.run(bench.alone)
    return [
        Goal("Full verification, certificates new: share of bare verification", yard.bare_us / yard.new_us, 0.8),
        Goal("Full verification, certificates known: share of bare verification", yard.bare_us / yard.known_us, 1.4),
        Goal("Full verification, certificates new: times faster than the CIP's 2 ms", SEED_US / yard.new_us),
        Goal("Bare verification of one message, microseconds", yard.bare_us),
    ]


async def kept(bench: Bench) -> list[Goal]:
    share, us = await _share(bench, "sign")
    return [
        Goal("16 kept connections: bare verification by the node's CPU", share, 0.45, remark=f"{us:.0f} us a message")
    ]


async def each(bench: Bench) -> list[Goal]:
    share, us = await _share(bench, "dial")
    title = "One connection for each message: bare verification by the node's CPU"
    return [Goal(title, share, 0.15, remark=f"{us:.0f} us a message")]


async def _share(bench: Bench, role: str) -> tuple[float, float]:
    """Return the middle of several runs: bare verification by the node's CPU for a message, and that in us."""
    found = []
    for _ in range(TIMES):
        us, bare_us = await yardstick.beside(bench.alone, partial(cpu_us, bench, role, readers=1))
        found.append((bare_us / us, us))
    return sorted(found)[TIMES // 2]


async def cpu_us(bench: Bench, role: str, readers: int, module: str = LOGGED) -> float:
    """Return the node's CPU for each message that so many consumers without a name read as well."""
    node = bench.node(module=module)
    async with node.running():
        clients = [node.client("read", node.socket, "-", bench.messages) for _ in range(readers)]
        clients.append(node.client(role, node.socket, bench.signed, bench.messages, CONNECTIONS))
        for one in clients:
            await one.start()
        began_s = node.cpu_s()
        for one in clients:
            await one.go()
        results = [await one.result() for one in clients]
        took_s = node.cpu_s() - began_s
    if results[-1].get("accepted") != bench.messages:
        raise RigFailed(f"of {bench.messages} messages not all were accepted: {results[-1]}")
    return took_s / bench.messages * 1e6


async def second_consumer(bench: Bench) -> list[Goal]:
    async def further() -> float:
        return await cpu_us(bench, "sign", 2) - await cpu_us(bench, "sign", 1)

    us, bare_us = await yardstick.beside(bench.alone, partial(_middle, further))
    title = "A second consumer: its CPU for a message, as a share of a verification"
    return [Goal(title, us / bare_us, 0.05, more=False)]


async def log(bench: Bench) -> list[Goal]:
    async def share() -> float:
        without = await cpu_us(bench, "sign", 1, UNLOGGED)
        return 1 - without / await cpu_us(bench, "sign", 1)

    return [Goal("The log: share of the node's CPU", await _middle(share), 0.1, more=False)]


async def _middle(measure: Callable[[], Awaitable[float]]) -> float:
    return median([await measure() for _ in range(TIMES)])


def live(size: int, most: float) -> Callable[[Bench], Awaitable[list[Goal]]]:
    """Measure what so many live messages of that size take, and a start with them."""

    async def measure(bench: Bench) -> list[Goal]:
        pools = traffic.pools(min(LIVE_POOLS, bench.live), 2)
        file = bench.written("live", pools, bench.live, size)
        node = bench.node(*NO_PACE, pools=pools)
        async with node.running():
            signers = node.client("sign", node.socket, file, bench.live, CONNECTIONS)
            await signers.start()
            before = node.memory_bytes()
            await signers.go()
            if (await signers.result()).get("accepted") != bench.live:
                raise RigFailed("not all live messages were accepted")
            held = node.memory_bytes() - before
            live_bytes = (await node.status())["mempool"]["bytes"]
            await node.stop()
            began_s = time.perf_counter()
            await node.start()
            took_s = time.perf_counter() - began_s
            status = await node.status()
        file.unlink()
        if status["mempool"]["messages"] != bench.live or status["verified"]:
            raise RigFailed(f"after a new start the node holds {status['mempool']} and verified {status['verified']}")
        told = f"{bench.live:,} live messages of {live_bytes // bench.live:,} bytes"
        return [
            Goal(f"{told}: memory as a share of their bytes", held / live_bytes, most, more=False),
            Goal(f"{told}: seconds until a new start is ready, nothing verified again", took_s, 2.0, more=False),
        ]

    return measure


async def beside(bench: Bench) -> list[Goal]:
    """Measure the router's latency while wrongly signed messages come, as a multiple of that without."""
    seconds = PAIR_MESSAGES / RATE + 5
    wrong = bench.written("wrong", bench.pools, int(seconds * WRONG_PER_S), SIZE, wrong=True)
    node = bench.node()
    async with node.running():
        made = await run_command(program("router", "--home", str(node.home), "group", "new", "bench"))
        if made.code:
            raise RigFailed(f"no group could be made: {made.stderr}")
        quiet = await _p50_ms(node)
        flood = node.client("pour", node.socket, wrong, int(seconds * WRONG_PER_S), WRONG_PER_S)
        await flood.start()
        await flood.go()
        loud = await _p50_ms(node)
        await flood.kill()
    title = (
        f"The router beside {WRONG_PER_S:,} wrongly signed messages a second: median latency at {RATE}/s, as a multiple"
    )
    return [Goal(title, loud / quiet, 1.5, more=False, remark=f"{quiet:.2f} ms without them")]


async def _p50_ms(node: Node) -> float:
    pair = node.process("router.bench.beside", str(node.home), "bench", str(PAIR_MESSAGES), str(RATE))
    await pair.start()
    await pair.go()
    return float((await pair.result())["p50_ms"])


SCENARIOS: dict[str, Scenario[Bench, list[Goal]]] = {
    "verify": verification,
    "kept": kept,
    "each": each,
    "consumer": second_consumer,
    "log": log,
    "live": live(1150, 0.30),
    "long": live(2790, 0.15),
    "beside": beside,
}
