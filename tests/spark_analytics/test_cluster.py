"""The job under `spark-submit` on a standalone cluster, of which an executor and a worker are killed meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from fleets.shared import Fleets
from rigs.spark_cluster import StandaloneCluster, standalone_cluster
from rigs.submitted_audit import Audited, environment, heard_java, job_and_sources, spark_home, summary_in
from samples.growing_logs import said
from samples.published_tables import unlike

pytestmark = pytest.mark.long
SETTINGS = {"spark.executor.memory": "700m", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
READING, WRITING = "reading the lines", "writing the tables"


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
        {READING: cluster.kill_executor, WRITING: cluster.kill_worker},
    )
    assert code == 0, text[-4000:]
    assert summary_in(out) == said(audited.summary)
    assert unlike(audited.tables, out) == {}
