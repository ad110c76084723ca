"""The job under `spark-submit`, with executors in separate processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from fleets.shared import Fleets
from fleets.writing import TRUTH
from samples.growing_logs import said
from samples.published_tables import unlike

from router.audit import engine
from router.audit.listing import list_logs
from spark_analytics import job, package

pytestmark = pytest.mark.long


def spark_home(directory: Path) -> Path:
    """Return the directory of the installed Spark, where its workers may write files."""
    directory.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":
            (directory / part.name).symlink_to(part)
    return directory


@pytest.mark.usefixtures("packaged_java")
def test_two_executors_write_what_one_machine_writes(fleets: Fleets, tmp_path: Path) -> None:
    logs, local, cluster = fleets(4, 400, 0), tmp_path / "local", tmp_path / "cluster"
    now = json.loads((logs / TRUTH).read_text())["as_of_ns"]
    expected = engine.audit(list_logs([logs]), engine.AuditSpan(now), out=local)
    package.write(tmp_path / package.NAME)
    home = spark_home(tmp_path / "spark")
    settings = {
        "spark.executor.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(tmp_path / "shuffle"),
    }
    command = [
        str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]",
        "--py-files", str(tmp_path / package.NAME),
        *(f"--conf={name}={value}" for name, value in settings.items()),
        job.__file__, str(logs), "--out", str(cluster), "--as-of", str(now), "--json",
    ]  # fmt: skip
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-4000:]
    [found] = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    assert said(json.loads(found)) == said(expected)
    assert unlike(local, cluster) == {}
    assert len(list(home.glob("work/*/*/stderr"))) == 2, "two processes, and none was started again"
