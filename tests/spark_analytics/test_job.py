"""The job's command line: its arguments, its output, its tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from pyspark.errors import PySparkException
from rigs.patience import HANG_S
from samples.audit_logs import APP, LATE, START, Log

from router.audit.publish import GOLD
from spark_analytics import job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_only_an_error_whose_cause_is_known_becomes_a_sentence() -> None:
    with pytest.raises(job.Unfinished, match=r"an executor ran out of memory \(.* code 52\)"), job._told():
        raise PySparkException("ExecutorLostFailure (executor 3 exited) Reason: Command exited with code 52")
    with pytest.raises(PySparkException, match="the sky fell"), job._told():
        raise PySparkException("the sky fell")
    with pytest.raises(ValueError, match="Java heap space"), job._told():
        raise ValueError("Java heap space")


@pytest.mark.long  # test_tables looks at what the job writes of larger logs
@pytest.mark.xdist_group("spark")
def test_the_summary_is_printed_and_the_tables_are_written(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log()
    log.accepted(1, range(3), ttl=60)
    log.outward("delivered", [(1, 2)])
    log.state("stop", LATE)
    directory, out = log.write(tmp_path / "log"), tmp_path / "out"
    asked = [str(directory), "--out", str(out), "--as-of", str(START + LATE * 10**9), "--json"]
    assert job.main(asked) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["engine"], said["owed"], said["delivered"], said["unaccounted"]) == ("spark", 3, 2, 1)
    with duckdb.connect() as tables:
        for table in (*GOLD, "events"):
            files = f"'{out}/{table}/**/*.parquet'"
            [(count,)] = tables.execute(f"SELECT count(*) FROM read_parquet({files})").fetchall()
            assert count == {"delivery": 1, "message": 3, "events": 3}.get(table, count)
        columns = "recipient, owed, delivered, unaccounted"
        query = f"SELECT {columns} FROM read_parquet('{out}/delivery/*.parquet')"
        assert tables.execute(query).fetchall() == [(APP, 3, 2, 1)]


@pytest.mark.xdist_group("spark")
def test_where_there_is_nothing_it_says_so(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job.main([str(tmp_path / "none")]) == 2
    assert "there is nothing at" in capsys.readouterr().err
    assert job.main([str(tmp_path)]) == 2
    assert "no event log here" in capsys.readouterr().err


def test_an_unknown_service_level_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        job.main([str(tmp_path), "--slo", "0:5s"])
    assert ended.value.code == 2 and "write one above 0" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["job", "streaming"])
def test_without_a_java_it_says_what_is_needed(tmp_path: Path, module: str) -> None:
    command = [sys.executable, "-m", f"spark_analytics.{module}", str(tmp_path), "--out", str(tmp_path / "out")]
    ended = subprocess.run(
        command,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == 2
    assert "it needs a Java of version 17 or later" in ended.stderr
    assert "Traceback" not in ended.stderr
