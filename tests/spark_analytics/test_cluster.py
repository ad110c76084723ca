"""The job under `spark-submit` on a standalone cluster, while an executor and a worker are killed, and with executors
that have too little memory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from fleets.shared import Fleets
from rigs.spark_cluster import READING, WRITING, StandaloneCluster, standalone_cluster
from rigs.submitted_audit import Audited, environment, heard_java, job_and_sources, spark_home, summary_in
from samples.growing_logs import said
from samples.published_tables import published, unlike

from spark_analytics.report.history import UNFINISHED

pytestmark = pytest.mark.long
SETTINGS = {"spark.executor.memory": "700m", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
LEAST_MEMORY = "450m"
"""The least that Spark lets an executor have."""
LARGE_BYTES = 256 << 20
"""Of a file that Spark reads at once, which takes twice its bytes."""
LATEST = 9_999_999


@pytest.fixture
def audited(fleets: Fleets, tmp_path: Path) -> Audited:
    return Audited(fleets(4, 400, 0), tmp_path / "local")


@pytest.fixture
def cluster(packaged_java: Path, tmp_path: Path) -> Iterator[StandaloneCluster]:
    home = spark_home(tmp_path / "spark", Path(pyspark.__file__).parent)
    around = environment(heard_java(packaged_java), home, sys.executable)
    with standalone_cluster(home, tmp_path, around) as started:
        yield started


def test_executors_and_workers_that_are_killed_change_nothing(
    cluster: StandaloneCluster, audited: Audited, tmp_path: Path
) -> None:
    out = tmp_path / "cluster"
    code, text = cluster.submit(
        [*job_and_sources(tmp_path), str(audited.logs), "--out", str(out), "--as-of", str(audited.now)],
        {**SETTINGS, "spark.local.dir": str(tmp_path / "shuffle")},
        [(READING, cluster.kill_executor), (WRITING, cluster.kill_worker)],
    )
    assert code == 0, text[-4000:]
    assert summary_in(out) == said(audited.summary)
    assert unlike(audited.tables, out) == {}


def test_executors_with_too_little_memory_for_a_file_end_the_job_with_a_sentence(
    cluster: StandaloneCluster, fleets: Fleets, tmp_path: Path
) -> None:
    """Each executor that takes up the file ends itself, until Spark gives the task up."""
    logs, out = tmp_path / "logs", tmp_path / "cluster"
    shutil.copytree(fleets(3, 60, 0), logs)
    with next(logs.rglob("events-*.jsonl")).with_name(f"events-{LATEST:016}.jsonl").open("w") as large:
        large.truncate(LARGE_BYTES)
    code, text = cluster.submit(
        [*job_and_sources(tmp_path), str(logs), "--out", str(out)],
        {**SETTINGS, "spark.executor.memory": LEAST_MEMORY, "spark.local.dir": str(tmp_path / "shuffle")},
    )
    assert code == 1, text[-4000:]
    said = next(line for line in text.splitlines() if line.startswith("the audit stopped, for "))
    assert "an executor ran out of memory (" in said and "--executor-memory" in said
    assert "Traceback" not in text
    [[_, _, verdict, _]] = published(out, "audit_run").rows
    assert verdict == UNFINISHED
