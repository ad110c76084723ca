"""The goals, each measured in one run beside its yardstick, and the report `docs/measured.md`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from router.bench import scenarios, yardstick
from router.bench.scenarios import Bench, Shape


class Goal(NamedTuple):
    """A figure, what it should be, and whether more is better."""

    title: str
    goal: float
    more: bool
    measure: Callable[[Bench], tuple[float, dict[str, Any]]]


def _ratio(transport: str, shape: Shape, which: str = "ratio_two_core", times: int = 3) -> Callable[[Bench], Any]:
    """The median of several runs, each with its own yardstick just before it."""

    def measure(bench: Bench) -> tuple[float, dict[str, Any]]:
        rows = sorted((_fresh(bench, transport, shape) for _ in range(times)), key=lambda row: float(row[which]))
        row = rows[len(rows) // 2]
        return row[which], row

    return measure


def _fresh(bench: Bench, transport: str, shape: Shape) -> dict[str, Any]:
    signed = bench.traffic
    bench.yardstick = yardstick.run(str(signed.path), signed.group_seed.hex(), signed.frame_bytes, 1.0)
    return scenarios.throughput(bench, transport, shape)


def _inline(bench: Bench) -> tuple[float, dict[str, Any]]:
    alone = replace(bench, verifiers=0, homes=bench.homes + 1000)
    row = _fresh(alone, "unix", Shape())
    return row["ratio_one_core"], row


def _per_delivery(transport: str) -> Callable[[Bench], Any]:
    """The node's CPU for each further delivery, as a share of one verification."""

    def measure(bench: Bench) -> tuple[float, dict[str, Any]]:
        one = _fresh(bench, transport, Shape(count=6_000))
        many = _fresh(bench, transport, Shape(subscribers=100, count=6_000))
        further_us = (many["cpu_us_per_message"] - one["cpu_us_per_message"]) / 99
        return further_us / bench.yardstick.cpu_us, many

    return measure


def _stalled(bench: Bench) -> tuple[float, dict[str, Any]]:
    free = _fresh(bench, "unix", Shape(subscribers=99, count=5_000))
    row = _fresh(bench, "unix", Shape(subscribers=99, stalled=1, count=5_000))
    return 1 - row["ratio_two_core"] / free["ratio_two_core"], row


def _drain(bench: Bench) -> tuple[float, dict[str, Any]]:
    row = scenarios.drain(bench, "unix", bench.traffic.count)
    return row["ratio_one_core"], row


def _latency(bench: Bench) -> tuple[float, dict[str, Any]]:
    row = scenarios.latency(bench, "unix", 5.0)
    free = scenarios.latency(replace(bench, synced=False, homes=bench.homes + 2000), "unix", 5.0)
    commit = scenarios.commit_ms(bench.base)
    row |= {"p50_unsynced_ms": free["p50_ms"], "commit_ms": commit}
    return row["p50_ms"] / (commit + free["p50_ms"]), row


def _idle(bench: Bench) -> tuple[float, dict[str, Any]]:
    row = scenarios.idle(bench, "tls", 300)
    return row["kib_per_link"], row


GOALS = (
    Goal("Unix, 1 publisher, 1 subscriber: share of the two-core yardstick", 0.65, True, _ratio("unix", Shape())),
    Goal("TLS, the same", 0.60, True, _ratio("tls", Shape())),
    Goal("One core only (no verifiers): share of the one-core yardstick", 0.75, True, _inline),
    Goal("Verification's share of the node's CPU", 0.65, True, _ratio("unix", Shape(), "verify_cpu_share")),
    Goal("Ten publishers: share of the two-core yardstick", 0.55, True, _ratio("unix", Shape(publishers=10))),
    Goal("Each further delivery over Unix, as a share of a verification", 0.015, False, _per_delivery("unix")),
    Goal("Each further delivery over TLS, as a share of a verification", 0.04, False, _per_delivery("tls")),
    Goal("Each message 20 times: multiple of the one-core yardstick", 5.0, True,
         _ratio("unix", Shape(repeat=20, count=5_000), "ratio_one_core")),
    Goal("A stalled subscriber among 100: how much the others slow down", 0.10, False, _stalled),
    Goal("Draining an offline queue: multiple of the one-core yardstick", 6.0, True, _drain),
    Goal("Median latency at 200/s, as a multiple of (a commit + the same unsynced)", 2.0, False, _latency),
    Goal("KiB of memory per idle TLS link", 60.0, False, _idle),
)  # fmt: skip


def measured_goals(bench: Bench, say: Callable[[str], None]) -> list[dict[str, Any]]:
    rows = []
    for goal in GOALS:
        say(goal.title)
        value, row = goal.measure(bench)
        met = value >= goal.goal if goal.more else value <= goal.goal
        bound = "at least" if goal.more else "at most"
        rows.append({"title": goal.title, "value": value, "goal": f"{bound} {goal.goal:g}", "met": met, "row": row})
    return rows


def write_report(path: Path, rows: list[dict[str, Any]]) -> None:
    """Markdown: what was measured, its goal beside it."""
    lines = [
        "# Measured", "",
        f"Written by `router bench --goals --report` on {time.strftime('%Y-%m-%d')}. Ratios are taken in one run "
        "beside bare PyNaCl verification of the same messages; medians of three where several runs make a figure.", "",
        "| figure | measured | goal | met |", "|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        lines.append(f"| {row['title']} | {row['value']:.3f} | {row['goal']} | {'yes' if row['met'] else 'no'} |")
    lines += ["", "The rows behind them:", ""]
    for row in rows:
        details = ", ".join(
            f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
            for name, value in row["row"].items()
        )
        lines.append(f"- {row['title']}: {details}")
    path.write_text("\n".join(lines) + "\n")
