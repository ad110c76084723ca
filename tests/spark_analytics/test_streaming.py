"""The audit of growing logs says after every batch what an audit of all files says, and writes the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from growing_logs import GrowingLogs, delivered, delivered_locally, said
from pyspark.sql import SparkSession

from spark_analytics.streaming import run_stream

pytestmark = pytest.mark.xdist_group("spark")


def test_any_portions_in_any_order_say_what_all_files_say(spark: SparkSession, tmp_path: Path) -> None:
    logs, out = GrowingLogs(tmp_path, nodes=3, messages=600, seed=7), tmp_path / "out"
    for number, portion in enumerate(logs.portions(3)):
        logs.bring(portion)
        found = run_stream(spark, [str(logs.here)], str(out), as_of=lambda: logs.now)
        assert said(found) == logs.audited(tmp_path / "local"), f"after batch {number}"
        assert delivered(out) == delivered_locally(tmp_path / "local"), f"after batch {number}"


def test_a_segment_that_comes_again_changes_no_row(spark: SparkSession, tmp_path: Path) -> None:
    logs, out = GrowingLogs(tmp_path, nodes=2, messages=200, seed=3), tmp_path / "out"
    [all_segments] = logs.portions(1)
    logs.bring(all_segments)
    run_stream(spark, [str(logs.here)], str(out), as_of=lambda: logs.now)
    rows = delivered(out)
    logs.bring(all_segments[:1], under="0")
    found = run_stream(spark, [str(logs.here)], str(out), as_of=lambda: logs.now)
    assert said(found) == logs.audited()
    assert delivered(out) == rows
    assert found is not None and "rebuilt" not in found["run"]


def test_a_fork_that_shows_later_takes_back_what_was_counted(spark: SparkSession, tmp_path: Path) -> None:
    logs, out = GrowingLogs(tmp_path, nodes=2, messages=200, seed=4), tmp_path / "out"
    [segments] = logs.portions(1)
    logs.bring(segments)
    run_stream(spark, [str(logs.here)], str(out), as_of=lambda: logs.now)
    other = GrowingLogs(tmp_path / "other", nodes=2, messages=260, seed=4)
    logs.there = other.there
    logs.bring(sorted(other.there.rglob("events-*.jsonl"))[:1], under="other")
    found = run_stream(spark, [str(logs.here)], str(out), as_of=lambda: logs.now)
    assert found is not None and "do not count any more" in found["run"]["rebuilt"]
    assert said(found) == logs.audited(tmp_path / "local")
    assert delivered(out) == delivered_locally(tmp_path / "local")
