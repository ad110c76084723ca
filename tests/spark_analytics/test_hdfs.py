"""The job under `spark-submit` on HDFS, a NameNode and a DataNode on loopback: its logs and its tables lie there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from fleets.shared import Fleets
from rigs.hdfs_store import HdfsStore, hdfs_store, server_jar
from rigs.spark_cluster import SparkMaster
from rigs.submitted_audit import Audited, environment, heard_java, job_and_sources, spark_home, summary_in
from samples.growing_logs import said
from samples.published_tables import unlike

SPARK = Path(pyspark.__file__).parent
SERVER = server_jar(SPARK / "jars")
SETTINGS = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not SERVER.exists(), reason=f"needs the servers of HDFS, {SERVER.name}: `make lake`"),
]


@pytest.fixture
def audited(fleets: Fleets, tmp_path: Path) -> Audited:
    return Audited(fleets(3, 60, 0), tmp_path / "local")


@pytest.fixture
def master(packaged_java: Path, tmp_path: Path) -> SparkMaster:
    home = spark_home(tmp_path / "spark", SPARK)
    return SparkMaster("local[2]", home, environment(heard_java(packaged_java), home, sys.executable))


@pytest.fixture
def store(master: SparkMaster, tmp_path: Path) -> Iterator[HdfsStore]:
    java = Path(master.environment["JAVA_HOME"]) / "bin" / "java"
    with hdfs_store(java, SERVER, SPARK / "jars", tmp_path / "hdfs") as started:
        yield started


def test_logs_and_tables_in_hdfs_have_the_rows_of_the_local_engine(
    master: SparkMaster, store: HdfsStore, audited: Audited, tmp_path: Path
) -> None:
    store.run("-put", str(audited.logs), "/logs")
    asked = [f"{store.url}/logs", "--out", f"{store.url}/audit", "--as-of", str(audited.now)]
    code, text = master.submit([*job_and_sources(tmp_path), *asked], SETTINGS)
    assert code == 0, text[-4000:]
    store.run("-get", "/audit", str(tmp_path / "audit"))
    found = json.dumps(summary_in(tmp_path / "audit")).replace(f"{store.url}/logs", str(audited.logs))
    assert json.loads(found) == said(audited.summary)
    assert unlike(audited.tables, tmp_path / "audit") == {}
