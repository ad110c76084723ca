"""The goals, each measured in one run beside its yardstick, and the report `docs/measured.md`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from router.bench import scenarios, traffic, yardstick
from router.bench.scenarios import Bench, Shape

TIMES = 3
LOG_TIMES = 5  # two nearly equal rates are compared
BACKLOG_MESSAGES = 1_000_000
CROWD = 100

Row = dict[str, Any]


class Goal(NamedTuple):
    """A figure of a row, what it should be, and whether more is better."""

    title: str
    figure: str
    goal: float
    more: bool = True

    def met(self, value: float) -> bool:
        return value >= self.goal if self.more else value <= self.goal

    @property
    def bound(self) -> str:
        return f"{'at least' if self.more else 'at most'} {self.goal:g}"


def _throughput(transport: str, shape: Shape, figure: str = "ratio_two_core") -> Callable[[Bench], Row]:
    """The middle one of several runs, each with its own yardstick just before it."""

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
    """The node's CPU for each further delivery, as a share of one verification."""

    def measure(bench: Bench) -> Row:
        one = _fresh(bench, transport, Shape(count=6_000))
        many = _fresh(bench, transport, Shape(subscribers=CROWD, count=6_000))
        further_us = (many["cpu_us_per_message"] - one["cpu_us_per_message"]) / (CROWD - 1)
        return many | {"further_delivery_us": further_us, "further_delivery_share": further_us / bench.yardstick.cpu_us}

    return measure


def _stalled(bench: Bench) -> Row:
    free, held = Shape(subscribers=CROWD - 1, count=6_000), Shape(subscribers=CROWD - 1, stalled=1, count=6_000)
    pairs = [(_fresh(bench, "unix", free), _fresh(bench, "unix", held)) for _ in range(TIMES)]
    slower = [1 - row["messages_per_s"] / alone["messages_per_s"] for alone, row in pairs]
    return pairs[-1][1] | {"slower": median(slower), "slower_each": [round(one, 3) for one in slower]}


def _logged(bench: Bench) -> Row:
    """What the event log takes of the rate: each run beside one of a node that writes none."""
    unlogged = replace(bench, program="router.bench.unlogged")
    pairs = [(_fresh(unlogged, "unix", Shape()), _fresh(bench, "unix", Shape())) for _ in range(LOG_TIMES)]
    costs = [1 - row["messages_per_s"] / bare["messages_per_s"] for bare, row in pairs]
    cpu_us = median(row["cpu_us_per_message"] - bare["cpu_us_per_message"] for bare, row in pairs)
    return pairs[-1][1] | {
        "log_cost": median(costs), "log_cost_each": [round(one, 3) for one in costs], "log_cpu_us_per_message": cpu_us,
    }  # fmt: skip


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


GOALS: tuple[tuple[Callable[[Bench], Row], tuple[Goal, ...]], ...] = (
    (_throughput("unix", Shape()), (
        Goal("Unix socket, 1 publisher, 1 subscriber: share of the two-core yardstick", "ratio_two_core", 0.65),
        Goal("Verification's share of the node's CPU", "verify_cpu_share", 0.65),
    )),
    (_throughput("tls", Shape()), (Goal("TLS, the same: share of the two-core yardstick", "ratio_two_core", 0.60),)),
    (_inline, (Goal("One core, no verifiers: share of the one-core yardstick", "ratio_one_core", 0.75),)),
    (_throughput("unix", Shape(publishers=10)), (
        Goal("Ten publishers: share of the two-core yardstick", "ratio_two_core", 0.55),
    )),
    (_crowd("unix"), (
        Goal("Each further delivery over Unix, as a share of a verification", "further_delivery_share", 0.015, False),
    )),
    (_crowd("tls"), (
        Goal("Each further delivery over TLS, as a share of a verification", "further_delivery_share", 0.04, False),
    )),
    (_throughput("unix", Shape(repeat=20, count=5_000), "ratio_one_core"), (
        Goal("Each message 20 times: multiple of the one-core yardstick", "ratio_one_core", 5.0),
    )),
    (_stalled, (Goal("A stalled subscriber among 100: how much the others slow down", "slower", 0.10, False),)),
    (_logged, (Goal("The event log: share of the rate that it costs", "log_cost", 0.10, False),)),
    (_backlog, (
        Goal(f"Draining {BACKLOG_MESSAGES:,} messages: multiple of the one-core yardstick", "ratio_one_core", 6.0),
        Goal("Memory with all of them queued, as a multiple of that with a fifth", "memory_growth", 1.1, False),
        Goal("Seconds to stop and start with that backlog", "start_s", 3.0, False),
    )),
    (_latency, (
        Goal("Median latency at 200/s, as a multiple of (a commit + the same unsynced)", "p50_share", 2.0, False),
    )),
    (lambda bench: scenarios.idle(bench, "tls", 300), (
        Goal("KiB of memory for an idle TLS link", "kib_per_link", 60.0, False),
    )),
)  # fmt: skip


def measured_goals(bench: Bench, say: Callable[[str], None]) -> list[Row]:
    """For each goal its title, value, goal, whether it is met, and the row that the value is from."""
    found = []
    for measure, goals in GOALS:
        say(goals[0].title)
        row = measure(replace(bench))
        for goal in goals:
            value = float(row[goal.figure])
            found.append({"title": goal.title, "value": value, "goal": goal.bound, "met": goal.met(value), "row": row})
    return found


def write_report(path: Path, goals: list[Row]) -> None:
    """Markdown: what was measured, its goal beside it."""
    cells = [tuple(one.values()) for one in goals]
    lines = [
        "# Measured", "",
        f"Written by `router bench --goals --report` on {time.strftime('%Y-%m-%d')}. Ratios are taken in one run "
        f"beside bare PyNaCl verification of the same messages; throughput is the middle of {TIMES} runs.", "",
        "| figure | measured | goal | met |", "|---|---|---|---|",
        *(f"| {title} | {value:.3f} | {goal} | {'yes' if met else 'no'} |" for title, value, goal, met, _ in cells),
        "", "The rows behind them:", "",
        *(f"- {title}: {', '.join(_details(row))}" for title, *_, row in cells),
    ]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")


def _details(row: Row) -> list[str]:
    return [f"{name} {value:,.3f}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()]
