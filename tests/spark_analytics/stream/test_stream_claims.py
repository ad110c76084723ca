"""What a log signs against itself is told by a stream as by the audit, in whatever order its segments come."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fleets.shared import Fleets
from fleets.writing import TRUTH
from pyspark.sql import SparkSession
from sabotage.claimant import CLAIMS
from sabotage.liar import acked_by_a_stranger, ended_before_it_began, expired_at_once
from sabotage.scene import copied
from samples.growing_logs import GrowingLogs

from router.audit import engine
from router.audit.listing import list_logs
from spark_analytics.streaming import latest, run_stream

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.long]
TOLD = ("never-linked", "before-accepted", "never-written")


def test_claims_of_one_log_are_those_of_the_audit(spark: SparkSession, fleets: Fleets, tmp_path: Path) -> None:
    scene = copied(fleets(10, 100, 3), tmp_path / "lies", 1)
    for lie in (acked_by_a_stranger, ended_before_it_began, expired_at_once, CLAIMS[1]):
        lie(scene)
    shutil.copy(scene.directory / TRUTH, tmp_path)
    logs = GrowingLogs(scene.directory, tmp_path, seed=5)
    for portion in logs.portions(2):
        logs.bring(portion)
        run_stream(spark, [str(logs.here)], str(tmp_path / "out"), as_of=lambda: logs.now)
    found = latest(spark, str(tmp_path / "out"))
    assert found is not None and "full" not in found["run"]
    local = engine.audit(list_logs([logs.here]), engine.AuditSpan(logs.now))
    for name in ("claims", "early"):
        assert found[name] == [row for row in local[name] if name == "early" or row["claim"] in TOLD] != []
