"""By how much the wall clock of a router's machine was set, as the lines of its log show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spark_analytics.judgement.schema import GRACE_NS

NS_CAP = 1 << 60
"""The most nanoseconds that are told, 36 years: sums of a few of them stay within 64 bits."""


def moves_while_up(stretches: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Return by how many nanoseconds each router's wall clock moved against the monotonic one while its machine ran,
    over all starts of the router; `NS_CAP` at most.

    `stretches`: of each file and run (`router`, `boot`) the first event, `seq`, the first and the last monotonic time
    (`first_mono`, `last_mono`), and how far the wall clock is ahead of that, at least and at most (`min_apart_ns`,
    `max_apart_ns`); null where no line has one. A machine that starts begins its monotonic clock anew: how far its wall
    clock moved meanwhile no line shows, and `GRACE_NS` are allowed for it."""
    runs: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for row in stretches:
        if row["min_apart_ns"] is not None:
            runs.setdefault((row["router"], row["boot"]), []).append(row)
    found: dict[int, int] = {}
    last: dict[int, tuple[int, int, int]] = {}
    for (router, _), rows in sorted(runs.items(), key=lambda run: min(map(_seq, run[1]))):
        least, most = min(row["min_apart_ns"] for row in rows), max(row["max_apart_ns"] for row in rows)
        moved_ns = most - least
        if router in last:
            mono, before_least, before_most = last[router]
            if min(rows, key=_seq)["first_mono"] < mono:
                moved_ns += GRACE_NS
            else:
                least, most = min(least, before_least), max(most, before_most)
                moved_ns = most - least - (before_most - before_least)
        found[router] = min(NS_CAP, found.get(router, 0) + moved_ns)
        last[router] = max(rows, key=_seq)["last_mono"], least, most
    return found


def _seq(row: Mapping[str, Any]) -> int:
    return int(row["seq"])
