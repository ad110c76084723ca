"""Whether a machine was quiet enough for a verdict, and what pairs of nearly equal rates can tell."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from statistics import median

from router.bench.yardstick import Yardstick

STEAL_MAX = 0.05
DRIFT_MAX = 0.15
UNSURE_MAX = 0.1
PAIRS_MIN, PAIRS_MAX = 5, 21


@dataclass(frozen=True, slots=True)
class Noise:
    """What else the machine did: the share of its time that the host took away (steal), and by how much the yardstick
    after the measurement differed from the one before."""

    steal: float
    drift: float

    @property
    def is_too_much(self) -> bool:
        return self.steal > STEAL_MAX or self.drift > DRIFT_MAX

    def __str__(self) -> str:
        return f"steal {self.steal:.0%}, yardsticks before and after differ by {self.drift:.0%}"


class Watch:
    """From its making on; `noise` compares with a yardstick taken at the end."""

    def __init__(self, before: Yardstick) -> None:
        self._before = before
        self._ticks = _ticks()

    def noise(self, after: Yardstick) -> Noise:
        stolen, all_of_it = (now - then for now, then in zip(_ticks(), self._ticks, strict=True))
        rates = (
            (self._before.one_core_per_s, after.one_core_per_s),
            (self._before.two_core_per_s, after.two_core_per_s),
        )
        return Noise(stolen / max(1, all_of_it), max(abs(now / then - 1) for then, now in rates))


def _ticks() -> tuple[int, int]:
    """Stolen time and all time of all cores, in clock ticks (proc_stat(5))."""
    fields = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return fields[7], sum(fields)


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of a difference, and between what it lies with a certainty of at least 90 % (order statistics)."""

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
        """Whether it cannot be told from 0."""
        return self.low <= 0 <= self.high

    def __str__(self) -> str:
        between = f"{self.low:.3f} to {self.high:.3f}"
        return f"not distinguishable from 0 ({between})" if self.is_nothing else f"{self.value:.3f} ({between})"


def paired(measure: Callable[[], float], most: float) -> tuple[Spread, list[float]]:
    """Measure differences until it is clear on which side of `most` their median lies, or `PAIRS_MAX` are there."""
    found: list[float] = []
    while True:
        found.append(measure())
        if len(found) >= PAIRS_MIN:
            spread = Spread.of(found)
            if spread.high <= most or spread.low > most or len(found) >= PAIRS_MAX:
                return spread, found


def machine() -> str:
    """This machine in a line: processor, cores, memory, system, Python."""
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")), "")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{model or platform.machine()}, {len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB, "
        f"Linux {platform.release()}, Python {platform.python_version()}"
    )
