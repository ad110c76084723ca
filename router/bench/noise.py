"""Decide whether a machine was quiet enough for a verdict, and what pairs of nearly equal rates prove."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from math import comb
from pathlib import Path
from statistics import median

from msgspec import Struct

from router.bench.yardstick import Yardstick

STEAL_MAX = 0.05
OTHERS_MAX = 0.1
LOOK_S = 0.5
DRIFT_MAX = 0.15
UNSURE_MAX = 0.1
PAIRS_MIN, PAIRS_MAX = 5, 21


class Noise(Struct, frozen=True):
    """Other load on the machine: the share of its time that the host took away (steal), the relative difference between
    the yardsticks before and after, and how many cores other processes took while nothing was measured."""

    steal: float
    drift: float
    others: float

    @property
    def is_too_much(self) -> bool:
        return self.steal > STEAL_MAX or self.drift > DRIFT_MAX or self.others > OTHERS_MAX

    def __str__(self) -> str:
        yardsticks = f"yardsticks before and after differ by {self.drift:.0%}"
        return f"steal {self.steal:.0%}, {yardsticks}, others take {self.others:.2f} cores"


class Watch:
    """Watch for noise from its creation on; `noise` compares with a yardstick taken at the end. Both sample other
    processes, so no measurement may run meanwhile."""

    def __init__(self, before: Yardstick) -> None:
        self._before = before
        self._others = _others()
        self._ticks = _ticks()

    def noise(self, after: Yardstick) -> Noise:
        stolen, all_of_it, _ = (now - then for now, then in zip(_ticks(), self._ticks, strict=True))
        others = max(self._others, _others())
        rates = (
            (self._before.one_core_per_s, after.one_core_per_s),
            (self._before.two_core_per_s, after.two_core_per_s),
        )
        return Noise(stolen / max(1, all_of_it), max(abs(now / then - 1) for then, now in rates), others)


def _others() -> float:
    """Return how many cores are busy while this process sleeps."""
    before = _ticks()
    time.sleep(LOOK_S)
    _, all_of_it, busy = (now - then for now, then in zip(_ticks(), before, strict=True))
    return busy / max(1, all_of_it) * (os.cpu_count() or 1)


def _ticks() -> tuple[int, int, int]:
    """Return stolen, total and busy time of all cores, in clock ticks (proc_stat(5))."""
    user, nice, system, idle, iowait, irq, softirq, stolen = (
        int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    busy = user + nice + system + irq + softirq
    return stolen, busy + idle + iowait + stolen, busy


class Spread(Struct, frozen=True):
    """The median of a difference, and its interval with a confidence of at least 90 % (order statistics)."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, found: Sequence[float]) -> Spread:
        ordered, count = sorted(found), len(found)
        outside, at = 2 / 2**count, 0
        while at + 1 < count // 2 and outside + 2 * comb(count, at + 1) / 2**count <= UNSURE_MAX:
            at += 1
            outside += 2 * comb(count, at) / 2**count
        return cls(median(ordered), ordered[at], ordered[count - 1 - at])

    @property
    def is_nothing(self) -> bool:
        """Whether the difference cannot be distinguished from 0."""
        return self.low <= 0 <= self.high

    def __str__(self) -> str:
        between = f"{self.low:.3f} to {self.high:.3f}"
        return f"not distinguishable from 0 ({between})" if self.is_nothing else f"{self.value:.3f} ({between})"


def paired(measure: Callable[[], float], most: float) -> tuple[Spread, list[float]]:
    """Measure differences until it is clear on which side of `most` their median lies, or `PAIRS_MAX` are measured."""
    found: list[float] = []
    while True:
        found.append(measure())
        if len(found) >= PAIRS_MIN:
            spread = Spread.of(found)
            if spread.high <= most or spread.low > most or len(found) >= PAIRS_MAX:
                return spread, found


def machine() -> str:
    """Return this machine in a line: processor, cores, memory, system, Python."""
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")), "")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{model or platform.machine()}, {len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB, "
        f"Linux {platform.release()}, Python {platform.python_version()}"
    )
