"""What a log signs against itself is told by a stream as by the audit, also where the file that tells it comes late."""

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
from samples.growing_logs import GrowingLogs, delivered, delivered_locally, said
from samples.published_tables import published

from spark_analytics.stream.stream_tables import HOURS
from spark_analytics.streaming import run_stream

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.long]
TOLD = ["before-accepted", "never-linked", "never-written"]


def test_lies_of_one_log_are_told_as_by_the_audit_after_each_batch(
    spark: SparkSession, fleets: Fleets, tmp_path: Path
) -> None:
    """First each log lacks a file in its middle; a stream that is started again takes them."""
    scene = copied(fleets(10, 100, 3), tmp_path / "lies", 1)
    for lie in (acked_by_a_stranger, ended_before_it_began, expired_at_once, CLAIMS[1]):
        lie(scene)
    shutil.copy(scene.directory / TRUTH, tmp_path)
    logs, out, local = GrowingLogs(scene.directory, tmp_path, seed=5), tmp_path / "out", tmp_path / "local"
    every = {log: sorted(log.glob("events-*.jsonl")) for log in scene.logs.values()}
    late = {files[len(files) // 2] for files in every.values()}
    counts = []
    for portion in ({one for files in every.values() for one in files} - late, late):
        logs.bring(sorted(portion))
        found = run_stream(spark, [str(logs.here)], str(out), as_of=lambda: logs.now)
        assert found is not None and "full" not in found["run"]
        assert said(found) == logs.audited(local)
        assert delivered(out) == delivered_locally(local)
        for table in (*HOURS, "claims", "custody"):
            assert published(out, table) == published(local, table), table
        counts.append({row["claim"]: row["count"] for row in found["claims"]})
    assert sorted(counts[1]) == TOLD and found["early"]
    assert counts[0] != counts[1], "a late file shows a claim"
