"""Let a fleet run for hours, and say what grows: `PYTHONPATH=tests python -m scale.soak HOURS [--rate N]`.

Two cores and three edges with discovery, pub/sub, and the pools of CAPD and DMQ, an app at each node. Messages live for
`LIFE_MIN` minutes, and logs have `LOG_BYTES`: what a node keeps is as much as it gets within the first minutes, and is
given up as fast as it comes from then on. Every `SAMPLE_S` seconds each node is asked, on one connection for the whole
run, for its memory, descriptors, disk, loop lag, and CPU time for each delivery.
Printed is, for each of them, the mean and the slope by least squares with its standard error, over means of
`BIN_S` seconds, without the first `WARM_S` seconds, in which caches fill. A signal ends it early, and prints the same.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import click
import trio

import router
from router.chaos.fleet import Fleet, FleetNode
from router.chaos.offers import PoolOffers
from router.chaos.pools import missing
from router.chaos.shape import fleet_shape
from router.rig.ending import until_signalled
from router.rig.process import HANG_S

SAMPLE_S, BIN_S, WARM_S = 10.0, 60.0, 600.0
LIFE_MIN = 8
LOG_BYTES = 8 << 20
"""Of closed segments: one of the default size."""
NODES = 5
DISTINCT = 3.0
"""A slope of at least so many of its standard errors counts as different from 0."""
FIGURES = {
    "memory": "KiB", "descriptors": "", "disk": "KiB", "loop lag": "ms", "CPU a delivery": "ms",
}  # fmt: skip
Sample = dict[str, float]


class Slope(NamedTuple):
    """Mean of a figure, its growth in an hour, and the standard error of that."""

    mean: float
    per_hour: float
    error: float

    @property
    def is_distinct(self) -> bool:
        """Whether the growth is distinguishable from 0."""
        return abs(self.per_hour) > DISTINCT * self.error


def slope(points: Sequence[tuple[float, float]]) -> Slope:
    """Fit a line by least squares to (second, value); three points at least."""
    seconds, values = [at for at, _ in points], [value for _, value in points]
    middle_s, middle = mean(seconds), mean(values)
    spread = sum((at - middle_s) ** 2 for at in seconds)
    per_s = sum((at - middle_s) * (value - middle) for at, value in points) / spread
    rest = sum((value - middle - per_s * (at - middle_s)) ** 2 for at, value in points)
    return Slope(middle, 3600 * per_s, 3600 * sqrt(rest / (len(points) - 2) / spread))


def bins(points: Sequence[tuple[float, float]], bin_s: float = BIN_S) -> list[tuple[float, float]]:
    """Return the means of points by bins of `bin_s` seconds: neighbouring samples are not independent of each other."""
    found: dict[int, list[tuple[float, float]]] = {}
    for at, value in points:
        found.setdefault(int(at // bin_s), []).append((at, value))
    return [(mean(at for at, _ in each), mean(value for _, value in each)) for each in found.values()]


class NodeGauge:
    """Reads one node's figures, by an app that is connected to it; those that are a share are of the time since the
    last reading."""

    def __init__(self, node: FleetNode, app: router.Node) -> None:
        self._node, self._app = node, app
        self._last: tuple[float, float, float, float] | None = None

    async def read(self) -> Sample:
        """Return the figures, by the names of `FIGURES`; those of a share are left out the first time."""
        status, metrics = [json.loads(await self._app.ask(word, timeout_s=HANG_S)) for word in ("status", "metrics")]
        lag = metrics["seconds"]["loop_lag"]
        now = (float(lag["sum"]), float(lag["count"]), _cpu_s(self._node.pid), float(_arrived(status)))
        found = {
            "memory": _anonymous_kib(self._node.pid),
            "descriptors": float(status["descriptors"]["open"]),
            "disk": _disk_kib(self._node.home.path),
        }
        if self._last is not None:
            lag_s, lags, cpu_s, arrived = (one - before for one, before in zip(now, self._last, strict=True))
            found |= {"loop lag": 1000 * lag_s / lags} if lags else {}
            found |= {"CPU a delivery": 1000 * cpu_s / arrived} if arrived else {}
        self._last = now
        return found


def _arrived(status: dict[str, Any]) -> int:
    return int(status["counters"]["delivered"] + status["counters"]["acked"])


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _anonymous_kib(pid: int) -> float:
    """Return the private memory of a process, without pages of the database's map."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def _disk_kib(home: Path) -> float:
    """Return what the files of a home take; one that is just being removed counts nothing."""
    blocks = 0
    for path in home.rglob("*"):
        with suppress(FileNotFoundError):
            blocks += path.lstat().st_blocks
    return blocks / 2


Series = dict[tuple[str, str], list[tuple[float, float]]]


async def soak(base: Path, hours: float, per_s: float, series: Series) -> list[str]:
    """Run for so long; enter the points of each (node, figure), and return a sentence for everything that was lost."""
    fleet = Fleet(base, fleet_shape(NODES), per_s, pools=True, life_min=LIFE_MIN)
    for node in fleet.nodes.values():
        del node.settings["log.segment_bytes"]  # as an operator has it: of each segment some KiB stay in memory
        node.settings["log.keep_bytes"] = LOG_BYTES
    async with trio.open_nursery() as nursery:
        await fleet.serve_relays(nursery)
        try:
            await fleet.start()
            assert fleet.pool_keys is not None
            offers = PoolOffers(fleet.nodes[fleet.shape.apart], fleet.pool_keys, 60 * LIFE_MIN)
            nursery.start_soon(offers.run)
            await _sample(fleet, 3600 * hours, series)
            await fleet.hush()
            failures = await fleet.left_in_queues(600)
            fleet.read_ledgers()
            failures += fleet.ledger.judge(time.time()).failures() + fleet.tracebacks()
            failures += missing(offers.accepted, await offers.held(), (), time.time())
        finally:
            with trio.CancelScope(shield=True):
                await fleet.end()
        nursery.cancel_scope.cancel()
    return failures


async def _sample(fleet: Fleet, length_s: float, series: Series) -> None:
    async with AsyncExitStack() as connections:
        gauges = {
            name: NodeGauge(node, await connections.enter_async_context(router.connect(home=node.home.path)))
            for name, node in fleet.nodes.items()
        }
        began = trio.current_time()
        while (at_s := trio.current_time() - began) < length_s:
            fleet.check_running()
            for name, gauge in gauges.items():
                for figure, value in (await gauge.read()).items():
                    series.setdefault((name, figure), []).append((at_s, value))
            await trio.sleep_until(began + at_s + SAMPLE_S)


def rows(series: Series, warm_s: float = WARM_S) -> list[tuple[str, str, Slope]]:
    """Return the slope of each node's figures without the first `warm_s` seconds; those with too few points are left
    out."""
    kept = {key: bins([(at, value) for at, value in points if at >= warm_s]) for key, points in series.items()}
    return [(*key, slope(points)) for key, points in kept.items() if len(points) > 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hours", type=float)
    parser.add_argument("--rate", type=float, default=2.0, help="messages a second of each app")
    parser.add_argument("--warm", type=float, default=WARM_S, help="seconds that are left out at the beginning")
    parser.add_argument("--json", type=Path, help="write all points to this file")
    asked = parser.parse_args()
    series: Series = {}
    with tempfile.TemporaryDirectory(prefix="router-soak-", ignore_cleanup_errors=True) as base:
        try:
            failures = trio.run(until_signalled, soak, Path(base), asked.hours, asked.rate, series)
        except click.Abort:
            failures = [
                "ended by a signal before its time: the figures are of the time until then, and losses are not known"
            ]
    if asked.json:
        points = [{"node": node, "figure": figure, "points": found} for (node, figure), found in series.items()]
        asked.json.write_text(json.dumps(points))
    print(f"{'NODE':8} {'FIGURE':15} {'MEAN':>12} {'AN HOUR':>12} {'ERROR':>10}  GROWS")
    for node, figure, found in rows(series, asked.warm):
        unit = f"{figure}{f', {FIGURES[figure]}' if FIGURES[figure] else ''}"
        grows = "yes" if found.is_distinct and found.per_hour > 0 else "no"
        print(f"{node:8} {unit:22} {found.mean:12,.2f} {found.per_hour:+12,.2f} {found.error:10,.2f}  {grows}")
    for one in failures:
        print(one)
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
