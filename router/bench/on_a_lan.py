"""Measure an honest pair on a local network while a third machine floods it with datagrams that must not count, or
with few that seem to be those of new nodes, beside which a real newcomer is to be met.

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

DATAGRAMS, ANNOUNCEMENTS = "datagrams", "announcements"
LAN_ATTACKS = DATAGRAMS, ANNOUNCEMENTS
PER_S = {DATAGRAMS: 10_000.0, ANNOUNCEMENTS: 100.0}
NEWCOMER_GOAL_S = 60.0
"""The longest time beside announcements from the start of a new node until one of the pair's is connected to it."""
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
    async def flooded(self, attack: str = DATAGRAMS, per_s: float = 0.0) -> AsyncIterator[End]:
        """Flood; the yielded function ends it and returns the number of datagrams sent."""
        machine = self.machines[2]
        named = [one.rig.address for one in self.nodes] if attack == ANNOUNCEMENTS else []
        task = Flood(machine.ip, _addresses(machine), FOREIGN, per_s or PER_S[attack], named)
        client = self.nodes[0].client("router.bench.flood", asdict(task), machine)

        async def end() -> Row:
            await client.go()
            return await client.result()

        await client.start()
        await client.go()
        yield end
        await client.kill()

    async def newcomer_s(self) -> float:
        """Return the seconds from the start of a new node until one of the two is connected to it."""
        began = trio.current_time()
        rig = await self.pair.bench.rig_at(self.machines[3])

        def is_met(rows: list[Row]) -> bool:
            return any(row["address"] == rig.address and row["state"] == "connected" for row in rows)

        async with rig.running():
            await self.nodes[0].rig.until_answer("the connection to a new node", "peers", is_met)
            return trio.current_time() - began

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
    """Yield two nodes that have met on a network, with a flooding machine there and one for a newcomer."""
    async with AsyncExitStack() as held:
        bridge: Bridge = held.enter_context(bridged(NETWORK))
        machines = [bridge.machine() for _ in range(4)]
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
    """Return the pair's rate and latency under the flood, the memory of its nodes, how often they dialled, and beside
    announcements how soon a newcomer is met."""
    quick //= QUICK_PART
    say(f"{attack}: two nodes meet on a network")
    async with on_a_lan(bench) as lan:
        pair = lan.pair
        await pair.run(quick // 2)  # warm up
        quiet, under, harms = [await pair.phase(phase_s, quick)], [], []
        half, dials = quiet[0]["flat"]["per_s"] / 2, lan.counted("Tcp", "ActiveOpens")
        quiet[0]["half"] = await pair.half(phase_s, quick, half)
        for _ in range(ROUNDS):
            say(f"{attack}: {PER_S[attack]:,.0f} a second")
            heard = lan.counted("Udp", "InDatagrams")
            async with lan.flooded(attack) as end:
                under.append(await pair.phase(phase_s, quick))
                under[-1]["half"] = await pair.half(phase_s, quick, half)
                harms.append(await end())
            heard = lan.counted("Udp", "InDatagrams") - heard
            harms[-1]["heard_per_s"] = heard / harms[-1]["seconds"] / len(lan.nodes)
            say(f"{attack}: the pair alone again")
            quiet.append(await pair.phase(phase_s, quick))
            quiet[-1]["half"] = await pair.half(phase_s, quick, half)
        say(f"{attack}: {PER_S[attack]:,.0f} a second, and nothing else")
        memory, more = await _idle(lan, attack, phase_s)
        more["dials"] = lan.counted("Tcp", "ActiveOpens") - dials
    return _row(attack, quiet, under, harms, memory, more)


async def _idle(lan: BenchLan, attack: str, phase_s: float) -> tuple[list[list[float]], Row]:
    """Return the nodes' memory before the flood, under it, and at its end, while the pair is silent, because its
    messages take memory too; and beside announcements the time of a newcomer."""
    memory, more = [lan.memory_mib()], Row()
    async with lan.flooded(attack) as end:
        for _ in range(2):
            await trio.sleep(phase_s)
            memory.append(lan.memory_mib())
        if attack == ANNOUNCEMENTS:
            more["newcomer_s"] = await lan.newcomer_s()
        await end()
    return memory, more


def _row(
    attack: str,
    quiet: list[dict[str, Row]],
    under: list[dict[str, Row]],
    harms: list[Row],
    memory: list[list[float]],
    more: Row,
) -> Row:
    def found(phases: list[dict[str, Row]], run: str, name: str) -> float:
        return float(median(one[run][name] for one in phases))

    rate = found(under, "half", "per_s") / found(quiet, "half", "per_s")
    p50 = found(under, "slow", "p50_ms") / found(quiet, "slow", "p50_ms")
    lost = sum(run["lost"] + run["refused"] for phase in (*quiet, *under) for run in phase.values())
    harm = {name: min(one[name] for one in harms) for name in harms[0]}
    growth = max(max(later) / first for first, *later in zip(*memory, strict=True))
    is_flooded = harm["datagrams_per_s"] >= SENT_GOAL * PER_S[attack]
    is_calm = more["newcomer_s"] <= NEWCOMER_GOAL_S if attack == ANNOUNCEMENTS else not more["dials"]
    met = rate >= RATE_GOAL and p50 <= LATENCY_GOAL and not lost and is_calm and growth <= MEMORY_GOAL
    return {
        "attack": attack,
        "rate": rate,
        "p50": p50,
        "met": met and is_flooded,
        "lost_or_refused": lost,
        "flat_out": found(under, "flat", "per_s") / found(quiet, "flat", "per_s"),
        **more,
        "memory_growth": growth,
        "memory_mib": [round(one, 1) for pair in memory for one in pair],
        "quiet_p50_ms": found(quiet, "slow", "p50_ms"),
        "flooded_p50_ms": found(under, "slow", "p50_ms"),
        "flooded_p99_ms": found(under, "slow", "p99_ms"),
        "quiet_per_s": found(quiet, "flat", "per_s"),
        "load": os.getloadavg()[0],
        **harm,
    }
