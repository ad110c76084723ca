"""Measure an honest pair on a local network while a third machine floods it with datagrams that must not count.

The pair are apps of two nodes that have met there, each in a network namespace of its own. Quiet and flooded phases
alternate; the flood reaches both nodes. All machines share this one's cores, so the goal is about a pair that offers
half of the rate that the quiet nodes take.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from ipaddress import IPv4Network
from statistics import median

import trio

from router.bench.flood import Flood
from router.bench.pair import LATENCY_GOAL, RATE_GOAL, Pair, Row
from router.bench.rig import Clients, in_trio
from router.bench.scenarios import Bench, keys
from router.core.wire.crypto import SigningKey
from router.rig.machines import Bridge, NamespaceMachine, bridged
from router.rig.machines import why_not as why_not

DATAGRAMS = "datagrams"
PER_S = 10_000.0
SENT_GOAL, MEMORY_GOAL = 0.95, 1.05
"""The share of the flood that must have been sent for it to count, and the most additional memory of the nodes while it
lasts."""
ROUNDS = 2
NETWORK = IPv4Network("10.64.0.0/15")
FOREIGN = "192.0.2.7"
SOURCES = 200
QUICK_PART = 3
"""The length of a run on the network, as a part of one on a socket: two nodes share the cores, and TLS takes its
part."""

Say = Callable[[str], None]
End = Callable[[], Awaitable[Row]]


class BenchLan:
    """Two nodes that have met, a pair of apps there, and the flooding machine. `nodes`: the publisher's, the
    subscriber's.

    The publisher's node always has an app in the group, because only groups that both nodes want are shared."""

    def __init__(self, nodes: list[Clients], machines: list[NamespaceMachine], pair: Pair) -> None:
        self.nodes = nodes
        self.machines = machines
        self.pair = pair

    async def meet(self) -> None:
        """Let both nodes join the group at each other."""
        traffic, (first, second) = self.pair.bench.traffic, self.nodes
        keeper = first("subscribe", keys(1), traffic, count=traffic.count + 1)
        await keeper.start()
        await keeper.go()
        reader = second("subscribe", [self.pair.subscriber], traffic, durable=True)
        await reader.whole()
        for one, other in ((first, second), (second, first)):
            group = SigningKey(traffic.group_seed).public.hex()

            def is_there(rows: list[Row], group: str = group, other: str = other.rig.address) -> bool:
                return any(row["group"] == group and row["subscriber"] == other for row in rows)

            await one.rig.until_answer("the joining of the other node", "groups", is_there)

    @asynccontextmanager
    async def flooded(self, per_s: float = PER_S) -> AsyncIterator[End]:
        """Flood; the yielded function ends it and returns the number of datagrams sent."""
        machine = self.machines[2]
        task = Flood(machine.ip, _addresses(machine), FOREIGN, per_s)
        client = self.nodes[0].client("router.bench.flood", asdict(task), machine)

        async def end() -> Row:
            await client.go()
            return await client.result()

        await client.start()
        await client.go()
        yield end
        await client.kill()

    def memory_mib(self) -> list[float]:
        return [one.rig.memory_mib() for one in self.nodes]

    def counted(self, protocol: str, name: str) -> int:
        """Return one of the system's counters (proc_net_snmp(5)) of both nodes' machines together."""
        tables = (one.run("cat", "/proc/net/snmp").splitlines() for one in self.machines[:2])
        return sum(_counter(table, protocol, name) for table in tables)


def _addresses(machine: NamespaceMachine) -> list[str]:
    """Return the flood's sources on the network: the machine's own address and those after it."""
    first = int.from_bytes(bytes(map(int, machine.ip.split("."))), "big")
    return [".".join(map(str, (first + at).to_bytes(4, "big"))) for at in range(SOURCES)]


def _counter(table: list[str], protocol: str, name: str) -> int:
    names, values = (line.split() for line in table if line.startswith(f"{protocol}:"))
    return int(values[names.index(name)])


@asynccontextmanager
async def on_a_lan(bench: Bench) -> AsyncIterator[BenchLan]:
    """Yield two nodes that have met on a network, with a third machine there."""
    async with AsyncExitStack() as held:
        bridge: Bridge = held.enter_context(bridged(NETWORK))
        machines = [bridge.machine() for _ in range(3)]
        _give_addresses(machines[2])
        nodes = []
        for machine in machines[:2]:
            rig = await bench.rig_at(machine)
            nodes.append(await held.enter_async_context(rig.running()))
        publisher, subscriber = keys(2)
        lan = BenchLan(nodes, machines, Pair(bench, nodes[0], publisher, subscriber, reading=nodes[1], durable=True))
        await lan.meet()
        yield lan


def _give_addresses(machine: NamespaceMachine) -> None:
    """Give a machine all of the flood's addresses."""
    mine = [f"{one}/{NETWORK.prefixlen}" for one in _addresses(machine)[1:]] + [f"{FOREIGN}/32"]
    adding = "; ".join(f"ip address add {one} dev eth0" for one in mine)
    machine.run("sh", "-ec", adding)


@in_trio
async def flooded(bench: Bench, attack: str, say: Say, phase_s: float, quick: int) -> Row:
    """Return the pair's rate and latency under the flood, the memory of its nodes, and whether they dialled."""
    quick //= QUICK_PART
    say(f"{attack}: two nodes meet on a network")
    async with on_a_lan(bench) as lan:
        pair = lan.pair
        await pair.run(quick // 2)  # warm up
        quiet, under, harms = [await pair.phase(phase_s, quick)], [], []
        half, dials = quiet[0]["flat"]["per_s"] / 2, lan.counted("Tcp", "ActiveOpens")
        quiet[0]["half"] = await pair.half(phase_s, quick, half)
        for _ in range(ROUNDS):
            say(f"{attack}: {PER_S:,.0f} a second")
            heard = lan.counted("Udp", "InDatagrams")
            async with lan.flooded() as end:
                under.append(await pair.phase(phase_s, quick))
                under[-1]["half"] = await pair.half(phase_s, quick, half)
                harms.append(await end())
            heard = lan.counted("Udp", "InDatagrams") - heard
            harms[-1]["heard_per_s"] = heard / harms[-1]["seconds"] / len(lan.nodes)
            say(f"{attack}: the pair alone again")
            quiet.append(await pair.phase(phase_s, quick))
            quiet[-1]["half"] = await pair.half(phase_s, quick, half)
        say(f"{attack}: {PER_S:,.0f} a second, and nothing else")
        memory = await _memory(lan, phase_s)
        dials = lan.counted("Tcp", "ActiveOpens") - dials
    return _row(attack, quiet, under, harms, memory, dials)


async def _memory(lan: BenchLan, phase_s: float) -> list[list[float]]:
    """Return the nodes' memory before the flood, under it, and at its end, while the pair is silent, because its
    messages take memory too."""
    memory = [lan.memory_mib()]
    async with lan.flooded() as end:
        for _ in range(2):
            await trio.sleep(phase_s)
            memory.append(lan.memory_mib())
        await end()
    return memory


def _row(
    attack: str,
    quiet: list[dict[str, Row]],
    under: list[dict[str, Row]],
    harms: list[Row],
    memory: list[list[float]],
    dials: int,
) -> Row:
    def found(phases: list[dict[str, Row]], run: str, name: str) -> float:
        return float(median(one[run][name] for one in phases))

    rate = found(under, "half", "per_s") / found(quiet, "half", "per_s")
    p50 = found(under, "slow", "p50_ms") / found(quiet, "slow", "p50_ms")
    lost = sum(run["lost"] + run["refused"] for phase in (*quiet, *under) for run in phase.values())
    harm = {name: min(one[name] for one in harms) for name in harms[0]}
    growth = max(max(later) / first for first, *later in zip(*memory, strict=True))
    is_flooded = harm["datagrams_per_s"] >= SENT_GOAL * PER_S
    met = rate >= RATE_GOAL and p50 <= LATENCY_GOAL and not lost and not dials and growth <= MEMORY_GOAL
    return {
        "attack": attack,
        "rate": rate,
        "p50": p50,
        "met": met and is_flooded,
        "lost_or_refused": lost,
        "flat_out": found(under, "flat", "per_s") / found(quiet, "flat", "per_s"),
        "dials": dials,
        "memory_growth": growth,
        "memory_mib": [round(one, 1) for pair in memory for one in pair],
        "quiet_p50_ms": found(quiet, "slow", "p50_ms"),
        "flooded_p50_ms": found(under, "slow", "p50_ms"),
        "flooded_p99_ms": found(under, "slow", "p99_ms"),
        "quiet_per_s": found(quiet, "flat", "per_s"),
        "load": os.getloadavg()[0],
        **harm,
    }
