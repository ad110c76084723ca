"""Measure the rate and latency of an honest pair beside 64 hostile strangers, attack by attack.

The pair are two local apps of a core that admits anyone. Each attack has a fresh node, on which the pair is measured
before the attack, under it, and after it. The attackers take CPU of the same machine, which is reported as a share of a
core; so the goal is about a pair that offers half of the rate that the quiet node takes; the rate of a pair that sends
as fast as it can is reported beside it without a goal.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace

from router.bench import traffic, yardstick
from router.bench.noise import Watch
from router.bench.on_a_lan import LAN_ATTACKS, flooded, why_not
from router.bench.pair import LATENCY_GOAL, RATE_GOAL, Pair, Row
from router.bench.rig import Clients, in_trio
from router.bench.scenarios import Bench, keys
from router.bench.strangers import ATTACKS, OF_MEMBERS, OF_PUBSUB, Siege
from router.core.wire.crypto import SigningKey
from router.settings import keyring

LINKS = 64
LINKS_OF_MEMBERS = 2
BYTES_PER_S = 20e6 / 8
PHASE_S = 3.0
SMALL_LOG = str(1 << 20)

TRIES = 3
PHASES = 6
"""Number of times that `quick` messages are signed. All runs of a pair need less: a half, three at full speed, one at
half the rate, three slow."""

Say = Callable[[str], None]
KINDS = (*ATTACKS, *LAN_ATTACKS)
End = Callable[[], Awaitable[Row]]
OPEN = {
    "node.services": '["services.echo", "services.pubsub"]',
    "node.services_public": '["echo", "pubsub"]',
    "node.accept": "anyone",
}
SETTINGS: dict[str, dict[str, str]] = {
    "far ids": {"limits.seen_index_max": "400000"},
    "throw-away sources": {"limits.routes_max": "1000"},
    "junk": {"log.keep_bytes": SMALL_LOG, "log.segment_bytes": str(1 << 17)},
}
"""Settings with which an attack takes effect within seconds instead of hours."""


def hostile(bench: Bench, say: Say, attacks: Sequence[str] = (), phase_s: float = PHASE_S) -> list[Row]:
    """Return a row for each attack, with its figures and whether the goals are met (None: the machine was too
    noisy)."""
    quick = int(bench.yardstick.one_core_per_s * phase_s) // 2
    say(f"signing {quick * PHASES} messages in advance")
    signed = traffic.make(bench.base / "hostile", quick * PHASES, bench.body_bytes)
    signed_bench, rows = replace(bench, traffic=signed), []
    for attack in attacks or KINDS:
        if attack in LAN_ATTACKS and (reason := why_not()):
            rows.append({"attack": attack, "met": None, "verdict": f"left out: {reason}"})
        else:
            rows.append(_quietly(signed_bench, attack, say, phase_s, quick))
    return rows


def _quietly(bench: Bench, attack: str, say: Say, phase_s: float, quick: int) -> Row:
    """Measure an attack, and repeat it if the machine was noisy."""
    for _ in range(TRIES):
        watch = Watch(yardstick.run(bench.traffic, 1.0))
        row = (flooded if attack in LAN_ATTACKS else _attacked)(bench, attack, say, phase_s, quick)
        noise = watch.noise(yardstick.run(bench.traffic, 1.0))
        if not noise.is_too_much:
            break
    met = None if noise.is_too_much else row["met"]
    verdict = f"the machine was too noisy: {noise}" if met is None else "yes" if met else "no"
    return {**row, "met": met, "verdict": verdict, "noise": str(noise)}


@in_trio
async def _attacked(bench: Bench, attack: str, say: Say, phase_s: float, quick: int) -> Row:
    say(f"{attack}: the pair alone")
    publisher, subscriber = keys(2)
    members = keys(LINKS_OF_MEMBERS if attack in OF_MEMBERS else 0)
    links = len(members) or LINKS
    rig = await replace(bench, members=members).rig("unix", [], **OPEN, **SETTINGS.get(attack, {}))
    async with rig.running() as running:
        pair = Pair(bench, running, publisher, subscriber)
        await pair.run(quick // 2)  # warm up
        quiet = await pair.phase(phase_s, quick)
        say(f"{attack}: {links} of them")
        async with besieged(running, attack, members, links) as siege:
            half = quiet["flat"]["per_s"] / 2
            under = await pair.phase(phase_s, quick)
            under["half"] = await pair.half(phase_s, quick, half)
            harm = await siege()
        say(f"{attack}: the pair alone again")
        after = await pair.phase(phase_s, quick)
    p50 = under["slow"]["p50_ms"] / min(quiet["slow"]["p50_ms"], after["slow"]["p50_ms"])
    rate = under["half"]["per_s"] / half
    runs = [one for phase in (quiet, under, after) for one in phase.values()]
    lost = sum(one["lost"] + one["refused"] for one in runs)
    return {
        "attack": attack,
        "rate": rate,
        "p50": p50,
        "met": rate >= RATE_GOAL and p50 <= LATENCY_GOAL and not lost,
        "lost_or_refused": lost,
        "flat_out": under["flat"]["per_s"] / quiet["flat"]["per_s"],
        "flat_out_after": after["flat"]["per_s"] / quiet["flat"]["per_s"],
        "quiet_p50_ms": quiet["slow"]["p50_ms"],
        "attacked_p50_ms": under["slow"]["p50_ms"],
        "attacked_p99_ms": under["slow"]["p99_ms"],
        "after_p50_ms": after["slow"]["p50_ms"],
        "quiet_per_s": quiet["flat"]["per_s"],
        **harm,
    }


@asynccontextmanager
async def besieged(
    running: Clients,
    attack: str,
    members: Sequence[SigningKey] = (),
    links: int = LINKS,
    bytes_per_s: float = BYTES_PER_S,
) -> AsyncIterator[End]:
    """Run the strangers, the first of which has a link by then; the yielded function ends them and returns their
    counts."""
    rig = running.rig
    service = "service-pubsub" if attack in OF_PUBSUB else "service-echo"
    public = keyring.load(rig.home, service).public.hex()
    order = Siege(
        attack, rig.url_of("tls"), rig.address, public, links, bytes_per_s, tuple(one.seed.hex() for one in members)
    )
    client = running.client("router.bench.strangers", asdict(order))

    async def end() -> Row:
        await client.go()
        return await client.result()

    await client.start()
    await client.go()
    await client.line()
    yield end
    await client.kill()
