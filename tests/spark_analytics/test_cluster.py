"""The job under `spark-submit` on a standalone cluster, of which an executor and a worker are killed meanwhile."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest
from fleets.shared import Fleets
from fleets.writing import TRUTH
from rigs.spark_cluster import StandaloneCluster, standalone_cluster
from samples.growing_logs import said
from samples.published_tables import unlike

from router.audit import engine
from router.audit.listing import list_logs
from spark_analytics import job, package

pytestmark = pytest.mark.long
SETTINGS = {"spark.executor.memory": "700m", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
READING, WRITING = "reading the lines", "writing the tables"


def spark_home(directory: Path, installed: Path) -> Path:
    """Return the directory of an installed Spark, where its workers may write files."""
    directory.mkdir()
    for part in installed.iterdir():
        if part.name != "work":
            (directory / part.name).symlink_to(part)
    return directory


class Audited:
    """The logs of a fleet, and what the local engine says of them. `tables`: where it wrote them."""

    def __init__(self, logs: Path, tables: Path) -> None:
        self.logs, self.tables = logs, tables
        self.now = json.loads((logs / TRUTH).read_text())["as_of_ns"]
        self.summary = engine.audit(list_logs([logs]), engine.AuditSpan(self.now), out=tables)


@pytest.fixture
def audited(fleets: Fleets, tmp_path: Path) -> Audited:
    return Audited(fleets(4, 400, 0), tmp_path / "local")


@pytest.fixture
def zipped(tmp_path: Path) -> Path:
    package.write(tmp_path / package.NAME)
    return tmp_path / package.NAME


@pytest.fixture
def java(packaged_java: Path) -> Path:
    """Return a JAVA_HOME whose Java writes its errors where it is told to."""
    wrapper = packaged_java / "bin" / "java"
    wrapper.write_text(re.sub(r" 2>>.*", "", wrapper.read_text()))
    return packaged_java


def environment(home: Path, python: str) -> Mapping[str, str]:
    own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python}
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own


@pytest.fixture
def cluster(java: Path, tmp_path: Path) -> Iterator[StandaloneCluster]:
    home = spark_home(tmp_path / "spark", Path(pyspark.__file__).parent)
    with standalone_cluster(home, tmp_path, environment(home, sys.executable)) as started:
        yield started


def summary_in(directory: Path) -> dict[str, Any]:
    [text] = (directory / "summary.json").glob("part-*")
    return said(json.loads(text.read_text()))


def test_executors_and_workers_that_are_killed_change_nothing(
    cluster: StandaloneCluster, audited: Audited, zipped: Path, tmp_path: Path
) -> None:
    out = tmp_path / "cluster"
    code, text = cluster.submit(
        ["--py-files", str(zipped), job.__file__, str(audited.logs), "--out", str(out), "--as-of", str(audited.now)],
        {**SETTINGS, "spark.local.dir": str(tmp_path / "shuffle")},
        {READING: cluster.kill_executor, WRITING: cluster.kill_worker},
    )
    assert code == 0, text[-4000:]
    assert summary_in(out) == said(audited.summary)
    assert unlike(audited.tables, out) == {}
