"""Logs written again as later lives of their nodes are as genuine as the first, and their sums are as stated."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleets.multiplied import SUMS, multiply
from fleets.shared import Fleets
from fleets.writing import write_fleet
from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs


def test_three_lives_of_a_fleet_have_three_times_its_sums(tmp_path: Path) -> None:
    write_fleet(tmp_path / "fleet", 3, 100, 5, segment_bytes=10_000, is_over=True)
    truth = multiply(tmp_path / "fleet", tmp_path / "logs", 3)
    found = audit(list_logs([tmp_path / "logs"]), AuditSpan(truth["as_of_ns"]))
    assert {name: found[name] for name in SUMS} == {name: truth[name] for name in SUMS}
    assert found["problems"] == found["holes"] == found["lost"] == found["broken"] == []
    assert found["accepted_again"] == found["contradictions"] == found["strays"] == found["residual"] == 0
    assert all(row["followed"] == row["acked"] for row in found["custody"])
    assert any(text.startswith("Neighbours vouch") for text in found["limits"]), "heads were witnessed"


def test_what_is_pending_cannot_be_multiplied(fleets: Fleets, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="pending would be lost"):
        multiply(fleets(2, 60, 4), tmp_path / "logs", 2)
