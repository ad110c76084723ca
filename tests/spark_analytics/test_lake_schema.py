"""A schema of Iceberg that is not there is refused, although its catalog in files would make it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.lake_packages import FETCHED, OLDEST, SESSION, with_packages
from rigs.oldest_spark import oldest_spark
from rigs.submitted_audit import job_and_sources
from samples.audit_logs import LATE, Log

from spark_analytics.batch.trial import PACKAGES


@pytest.mark.long
@pytest.mark.skipif(not FETCHED.exists(), reason="needs the packages of Iceberg: `make lake`")
def test_a_schema_that_is_not_there_is_refused_and_not_made(packaged_java: Path, tmp_path: Path) -> None:
    log, lake = Log(), tmp_path / "lake"
    log.state("stop", LATE)
    logs = log.write(tmp_path / "log")
    lake.mkdir()
    own = {"spark.sql.catalog.lake.warehouse": str(lake), "spark.local.dir": str(tmp_path / "shuffle")}
    settings = SESSION["iceberg"] | own | with_packages([PACKAGES["iceberg"][OLDEST]])
    asked = ["--format", "iceberg", "--catalog", "lake", "--schema", "fleet", "--out", str(tmp_path / "out")]
    master = oldest_spark(packaged_java, tmp_path)
    code, text = master.submit([*job_and_sources(tmp_path), str(logs), *asked], settings)
    assert code == 2, text[-4000:]
    assert "the catalog knows no such schema); create it first (CREATE SCHEMA `lake`.`fleet`)" in text
    assert not list(lake.iterdir()) and not (tmp_path / "out").exists()
