"""The goals, each measured in one run together with its yardstick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

from router.bench import scenarios, traffic, yardstick
from router.bench.goal import bound, is_met
from router.bench.noise import Noise, Spread, Watch, paired
from router.bench.scenarios import Bench, Shape

TIMES = 3
TRIES = 3
BACKLOG_MESSAGES = 1_000_000
CROWD = 100
STALLED_MAX = LOG_MAX = 0.1
WEB_SOCKET_MAX = 0.15

Row = dict[str, Any]


class RowGoal(NamedTuple):
    """A figure of a row, its goal, and whether more is better."""

    title: str
    figure: str
    goal: float
    more: bool = True

    def met(self, value: float | Spread) -> bool:
        """Whether the goal is met; a spread is judged by its worse end."""
        if isinstance(value, Spread):
            value = value.low if self.more else value.high
        return is_met(value, self.goal, more=self.more)

    @property
    def bound(self) -> str:
        return bound(self.goal, more=self.more)


def _throughput(transport: str, shape: Shape, figure: str = "ratio_two_core") -> Callable[[Bench], Row]:
    """Measure several runs, each with its own yardstick just before it, and return the median one."""

    def measure(bench: Bench) -> Row:
        rows = sorted((_fresh(bench, transport, shape) for _ in range(TIMES)), key=lambda row: float(row[figure]))
        return rows[TIMES // 2]

    return measure


def _fresh(bench: Bench, transport: str, shape: Shape) -> Row:
    bench.yardstick = yardstick.run(bench.traffic, 1.0)
    return scenarios.throughput(bench, transport, shape)


def _inline(bench: Bench) -> Row:
    return _throughput("unix", Shape(), "ratio_one_core")(replace(bench, verifiers=0))


def _crowd(transport: str) -> Callable[[Bench], Row]:
    """Measure the node's CPU for each further delivery, as a share of one verification."""

    def measure(bench: Bench) -> Row:
        one = _fresh(bench, transport, Shape(count=6_000))
        many = _fresh(bench, transport, Shape(subscribers=CROWD, count=6_000))
        further_us = (many["cpu_us_per_message"] - one["cpu_us_per_message"]) / (CROWD - 1)
        return many | {"further_delivery_us": further_us, "further_delivery_share": further_us / bench.yardstick.cpu_us}

    return measure


def _stalled(bench: Bench) -> Row:
    free, held = Shape(subscribers=CROWD - 1, count=6_000), Shape(subscribers=CROWD - 1, stalled=1, count=6_000)
    return _slower(bench, free, bench, held, STALLED_MAX)


def _logged(bench: Bench) -> Row:
    """Measure how much of the rate the event log costs: each run is paired with one of a node that writes none."""
    return _slower(replace(bench, program="router.bench.unlogged"), Shape(), bench, Shape(), LOG_MAX)


def _web_socket(bench: Bench) -> Row:
    """Measure how much slower WebSockets are than TLS."""
    return _slower(bench, Shape(), bench, Shape(), WEB_SOCKET_MAX, ("tls", "ws"))


def _idle_web_socket(bench: Bench) -> Row:
    """Measure the memory of an idle WebSocket as a share of that of an idle TLS link."""
    tls, web = (scenarios.idle(bench, transport, 300) for transport in ("tls", "ws"))
    return web | {"tls_kib_per_link": tls["kib_per_link"], "share_of_tls": web["kib_per_link"] / tls["kib_per_link"]}


def _slower(
    free: Bench,
    free_shape: Shape,
    held: Bench,
    held_shape: Shape,
    most: float,
    transports: tuple[str, str] = ("unix", "unix"),
) -> Row:
    """Measure by how much the second is slower than the first, by pairs of consecutive runs."""
    of_free, of_held = transports
    rows: list[tuple[Row, Row]] = []

    def pair() -> float:
        rows.append((_fresh(free, of_free, free_shape), _fresh(held, of_held, held_shape)))
        one, other = rows[-1]
        return 1 - float(other["messages_per_s"]) / float(one["messages_per_s"])

    spread, each = paired(pair, most)
    cpu_us = median(other["cpu_us_per_message"] - one["cpu_us_per_message"] for one, other in rows)
    further = {"slower": spread, "slower_each": [round(one, 3) for one in each], "further_cpu_us_per_message": cpu_us}
    return rows[-1][1] | further


def _backlog(bench: Bench) -> Row:
    bench.traffic = traffic.make(bench.base / "backlog", BACKLOG_MESSAGES, bench.body_bytes)
    bench.yardstick = yardstick.run(bench.traffic, 1.0)
    row = scenarios.drain(bench, "unix", BACKLOG_MESSAGES)
    return row | {"memory_growth": row["rss_mib_all_queued"] / row["rss_mib_fifth_queued"]}


def _latency(bench: Bench) -> Row:
    row = scenarios.latency(bench, "unix", 5.0)
    free = scenarios.latency(replace(bench, synced=False), "unix", 5.0)
    commit = scenarios.commit_ms(bench.base)
    share = row["p50_ms"] / (commit + free["p50_ms"])
    return {**row, "p50_unsynced_ms": free["p50_ms"], "commit_ms": commit, "p50_share": share}


GOALS: tuple[tuple[Callable[[Bench], Row], tuple[RowGoal, ...]], ...] = (
    (_throughput("unix", Shape()), (
        RowGoal("Unix socket, 1 publisher, 1 subscriber: share of the two-core yardstick", "ratio_two_core", 0.65),
        RowGoal("Verification's share of the node's CPU", "verify_cpu_share", 0.65),
    )),
    (_throughput("tls", Shape()), (RowGoal("TLS, the same: share of the two-core yardstick", "ratio_two_core", 0.60),)),
    (_inline, (RowGoal("One core, no verifiers: share of the one-core yardstick", "ratio_one_core", 0.75),)),
    (_throughput("unix", Shape(publishers=10)), (
        RowGoal("Ten publishers: share of the two-core yardstick", "ratio_two_core", 0.55),
    )),
    (_crowd("unix"), (
        RowGoal(
            "Each further delivery over Unix, as a share of a verification", "further_delivery_share", 0.015, False
        ),
    )),
    (_crowd("tls"), (
        RowGoal("Each further delivery over TLS, as a share of a verification", "further_delivery_share", 0.04, False),
    )),
    (_throughput("unix", Shape(repeat=20, count=5_000), "ratio_one_core"), (
        RowGoal("Each message 20 times: multiple of the one-core yardstick", "ratio_one_core", 5.0),
    )),
    (_stalled, (RowGoal("A stalled subscriber among 100: how much the others slow down", "slower", 0.10, False),)),
    (_logged, (RowGoal("The event log: share of the rate that it costs", "slower", LOG_MAX, False),)),
    (_backlog, (
        RowGoal(f"Draining {BACKLOG_MESSAGES:,} messages: multiple of the one-core yardstick", "ratio_one_core", 6.0),
        RowGoal("Memory with all of them queued, as a multiple of that with a fifth", "memory_growth", 1.1, False),
        RowGoal("Seconds to stop and start with that backlog", "start_s", 3.0, False),
    )),
    (_latency, (
        RowGoal("Median latency at 200/s, as a multiple of (a commit + the same unsynced)", "p50_share", 2.0, False),
    )),
    (lambda bench: scenarios.idle(bench, "tls", 300), (
        RowGoal("KiB of memory for an idle TLS link", "kib_per_link", 48.0, False),
    )),
    (_web_socket, (RowGoal("WebSocket: how much slower it is than TLS", "slower", WEB_SOCKET_MAX, False),)),
    (_idle_web_socket, (
        RowGoal("Memory of an idle WebSocket, as a share of an idle TLS link's", "share_of_tls", 0.5, False),
    )),
)  # fmt: skip


def measured_goals(bench: Bench, say: Callable[[str], None]) -> list[Row]:
    """Return for each goal its title, value, goal, whether it is met (None: the machine was too noisy to tell), and the
    row of the value. A measurement on a noisy machine is repeated, `TRIES` times in all."""
    found = []
    for measure, goals in GOALS:
        row, noise = _quietly(bench, measure, lambda text: say(f"{goals[0].title}{text}"))  # noqa: B023
        for goal in goals:
            value = row[goal.figure]
            met = None if noise.is_too_much else goal.met(value)
            verdict = f"the machine was too noisy: {noise}" if met is None else "yes" if met else "no"
            number = value.value if isinstance(value, Spread) else float(value)
            told = str(value) if isinstance(value, Spread) else f"{number:.3f}"
            found.append(
                {
                    "title": goal.title,
                    "value": number,
                    "told": told,
                    "goal": goal.bound,
                    "met": met,
                    "verdict": verdict,
                    "row": _told(row) | {"noise": str(noise)},
                }
            )
    return found


def _told(row: Row) -> Row:
    return {name: str(value) if isinstance(value, Spread) else value for name, value in row.items()}


def _quietly(bench: Bench, measure: Callable[[Bench], Row], say: Callable[[str], None]) -> tuple[Row, Noise]:
    for again in range(1, TRIES + 1):
        say("" if again == 1 else f", try {again}: the machine was noisy")
        before = yardstick.run(bench.traffic, 1.0)
        watch = Watch(before)
        row = measure(replace(bench, yardstick=before))
        noise = watch.noise(yardstick.run(bench.traffic, 1.0))
        if not noise.is_too_much:
            break
    return row, noise
