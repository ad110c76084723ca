"""Honest routers in a mesh, whose services send each other copies while any of them is away, are accused of nothing."""

from __future__ import annotations

import logging
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from sabotage.logs import read_rows, seal_again, segments

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from router.core.log.events import HISTORY_ASKED
from world.app import Habits
from world.country import Country
from world.mesh import play
from world.node import Settings
from world.sealed_log import write_log
from world.world import World

SECOND_NS = 10**9
CORES = 3


def audited(seed: int, directory: Path) -> dict[str, Any]:
    as_of_ns = play(seed, CORES, directory)
    return audit(list_logs([directory]), AuditSpan(as_of_ns))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 40))])
def test_honest_mesh_gets_no_finding(seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The one warning that may be is of messages for a router whose rights have lapsed, which is what became of them.

    Copies expire after a minute, and messages come twice on different ways, yet all clocks are one."""
    caplog.set_level(logging.CRITICAL, "router")
    found = audited(seed, tmp_path)
    odd = [row["text"] for row in found["findings"] if row["level"] in ("bad", "warning")]
    assert [text for text in odd if not text.endswith(").") or " dropped " not in text or "(left " not in text] == []
    assert found["early"] == found["unsent"] == found["broken"] == [] and found["residual"] == 0
    assert [row["count"] for row in found["reasons"] if row["reason"] == "next-away"], "no copy found its router away"
    _agree_on_one_clock(found)
    _count_each_handover_once(found)


def test_history_that_a_late_reader_asked_for_is_told_by_its_log(tmp_path: Path) -> None:
    """An audit misses it where it is struck out."""
    with World(1) as world:
        group = world.group("news")
        country = Country(world, CORES, (), Settings(strangers=True), Habits())
        late = country.cores[-1]
        readers = [country.reader(place, [group], Habits(settle_s=0.01)) for place in country.cores[:-1]]
        world.run(20)
        for reader in readers:
            country.publish(reader, group, 3)
        world.run(60)  # until both cores have met, and each has what the other's reader published
        country.reader(late, [group], Habits(settle_s=0.01))
        world.run(10)
        for node in world.nodes:
            write_log(node, tmp_path / node.name)
        span = AuditSpan(world.time.now().wall_ns)
    log, key = tmp_path / late.node.name, late.node.key
    lines = read_rows(one.path for one in segments(log))
    asked = [line for line in lines if line.event == HISTORY_ASKED]
    assert sum(line.count or 0 for line in asked) == 3 * len(readers)
    assert audit(list_logs([tmp_path]), span)["claims"] == []
    seal_again(log, key, lambda rows: [row for row in rows if row.event != HISTORY_ASKED])
    found = audit(list_logs([tmp_path]), span)["claims"]
    assert [(row["claim"], row["router"], row["count"]) for row in found] == [
        ("left-out", late.node.address.hex(), 3 * len(readers))
    ]  # fmt: skip


def _agree_on_one_clock(found: dict[str, Any]) -> None:
    bounds = [(row["lower_ns"], row["upper_ns"]) for row in found["clocks"]]
    assert all(low <= 0 <= high for low, high in bounds if None not in (low, high))
    assert any(high - low < SECOND_NS for low, high in bounds if None not in (low, high))


def _count_each_handover_once(found: dict[str, Any]) -> None:
    """All logs are given, so each router's custody covers all that was acked, but for what was its goal there."""
    acked: dict[str, int] = defaultdict(int)
    for row in found["custody"]:
        acked[row["router"]] += row["acked"]
    assert all(acked[row["router"]] <= row["acked"] for row in found["by_router"])
    assert any(acked.values())
