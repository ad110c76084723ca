"""The measurements of `router dmq bench --network`: a round of messages at ten nodes, beside bad ones, and by a group.

A round is a message of each pool, of 1,150 to 2,637 bytes. Nodes, bad ones and consumers share one machine, so figures
in seconds are the worse the more it has to do; bytes are not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio

from router.bench.goal import Goal
from services.dmq.bench import traffic, yardstick
from services.dmq.bench.bad_peers import Badness
from services.dmq.bench.fabric_rig import FabricRig
from services.dmq.bench.network_rig import NetworkRig, RoundCost

NODES = 10
BAD = {1: Badness.SILENT, 4: Badness.WRONG_SIZE, 7: Badness.WRONG_BODY}
"""Which of the nodes are bad, when some are."""
BYTES_LEAST, BYTES_MOST = 1150, 2637
SOON_OVER_S = 60
"""How long the messages live of a round that comes before the one that is measured."""
NEXT_S = 65
"""Seconds from that round to the next: its messages are over, and each pool may send again."""


@dataclass
class NetworkBench:
    """Where a bench works, and how many messages a round has. `honest`: what a round without bad nodes took, and the
    microseconds of bare verification beside it."""

    base: Path
    messages: int
    honest: tuple[RoundCost, float] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._pools = traffic.pools(self.messages, 3)
        self.stake = self._pools.stake
        self.wires = self.spread()

    @property
    def size(self) -> int:
        return sum(map(len, self.wires))

    def spread(self, ttl_s: int = traffic.TTL_S) -> list[bytes]:
        """Return a message of each pool, made now, that lives so long."""
        return traffic.spread(self._pools, BYTES_LEAST, BYTES_MOST, ttl_s)

    async def honest_round(self) -> tuple[RoundCost, float]:
        """Return what a round at honest nodes costs, which is played once, and the microseconds of bare verification
        beside it."""
        if self.honest is None:
            path = self.base / "round"
            traffic.write_wires(path, self.wires)
            self.honest = await yardstick.beside(path, self._honest_round)
        return self.honest

    async def _honest_round(self) -> RoundCost:
        rig = NetworkRig(self.base / "honest", self.stake, self.wires, NODES)
        async with rig.running():
            return await rig.round()


async def ten_nodes(bench: NetworkBench) -> list[Goal]:
    """Measure bytes, delay and CPU of messages that are handed in at one of ten nodes."""
    cost, bare_us = await bench.honest_round()
    said, most = f"{bench.messages:,} messages at one of ten nodes", max(cost.bytes_in[1:]) / bench.size
    late_s = cost.times.read_s - cost.times.answered_s
    return [
        Goal(f"{said}: bytes that each other one receives, as a multiple of the round, most", most, 1.2, more=False),
        Goal(f"{said}: seconds from the last [1] to the last consumer", late_s, 5.0, more=False),
        _cpu_goal(f"{said}: a node's CPU for a message by bare verification", bench, cost, bare_us),
    ]


async def later_round(bench: NetworkBench) -> list[Goal]:
    """Measure the CPU of messages of pools that have sent before, so that each node knows their certificates."""
    path = bench.base / "later round"
    traffic.write_wires(path, bench.wires)
    rig = NetworkRig(bench.base / "later", bench.stake, bench.wires, NODES)

    async def measure() -> RoundCost:
        async with rig.running():
            await rig.round(bench.spread(SOON_OVER_S))
            await trio.sleep(NEXT_S)
            return await rig.round()

    cost, bare_us = await yardstick.beside(path, measure)
    title = f"{bench.messages:,} messages at one of ten nodes, all of pools that have sent before"
    return [_cpu_goal(f"{title}: a node's CPU for a message by bare verification", bench, cost, bare_us)]


def _cpu_goal(title: str, bench: NetworkBench, cost: RoundCost, bare_us: float) -> Goal:
    cpu_us = cost.cpu_s / (NODES * bench.messages) * 1e6
    remark = f"{cpu_us:.0f} us by {bare_us:.0f}, over {cost.times.read_s:.1f} s"
    return Goal(title, cpu_us / bare_us, 3.0, more=False, remark=remark)


async def bad_nodes(bench: NetworkBench) -> list[Goal]:
    honest, _ = await bench.honest_round()
    rig = NetworkRig(bench.base / "bad", bench.stake, bench.wires, NODES, BAD)
    async with rig.running():
        cost = await rig.round()
    title = "Three of ten nodes are silent or lie: seconds until all consumers have all, as a multiple of honest ones"
    ratio = cost.times.read_s / honest.times.read_s
    return [Goal(title, ratio, 2.0, more=False, remark=f"{cost.times.read_s:.1f} s, {honest.times.read_s:.1f} s")]


async def fabric(bench: NetworkBench) -> list[Goal]:
    found = []
    for name, dials, goal in (("the group alone", False, 1.15), ("the group and between nodes", True, 2.3)):
        rig = FabricRig(bench.base / ("both" if dials else "fabric"), bench.stake, bench.wires, dials=dials)
        async with rig.running():
            received = await rig.round()
        most = max(received.values()) / bench.size
        each = ", ".join(f"{router} {size / bench.size:.2f}" for router, size in received.items())
        title = f"Three routers, by {name}: bytes that each receives, as a multiple of the round, most"
        found.append(Goal(title, most, goal, more=False, remark=f"{each}; each consumer and app has each message once"))
    return found


NETWORK_SCENARIOS: dict[str, Callable[[NetworkBench], Awaitable[list[Goal]]]] = {
    "ten-nodes": ten_nodes,
    "later-round": later_round,
    "bad-nodes": bad_nodes,
    "fabric": fabric,
}
