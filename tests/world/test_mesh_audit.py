"""Honest routers in a mesh, whose services send each other copies while any of them is away, are accused of nothing."""

from __future__ import annotations

import logging
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from world.mesh import play

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
