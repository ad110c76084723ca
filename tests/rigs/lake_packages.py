"""The packages of Delta, Iceberg, S3 and HDFS in Ivy's cache, and the settings with which a session of Spark has them.

Run with the Python of `.venv-lake`, which has the oldest Spark of the extra, it fetches them (`make lake`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyspark

from spark_analytics.batch.trial import PACKAGES

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-lake" / "bin" / "python"
IVY = ROOT / ".tools" / "ivy"
FETCHED = IVY / "stamp"
OLDEST = "4.1"
"""The version of Spark in `.venv-lake`."""
S3A = "org.apache.hadoop:hadoop-aws:3.4.2"
"""Of the Hadoop of that Spark."""
HDFS = "org.apache.hadoop:hadoop-client-minicluster:3.5.0"
"""The servers of HDFS, of the Hadoop of the newest Spark; all that they need is among the jars of that Spark."""
_ALONE = {"spark.jars.excludes": "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime"}
SESSION = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}
"""The settings of each format; Iceberg also needs `spark.sql.catalog.lake.warehouse`, the path of its tables."""
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""The first compiler alone: it costs a job of few lines a third."""


def with_packages(names: Iterable[str]) -> dict[str, str]:
    """Return the settings of a session with these packages. What else Ivy takes for fetched, a repository of Maven in
    the home, is kept out of its sight: it may be half-filled."""
    return {
        "spark.jars.packages": ",".join(names),
        "spark.jars.ivy": str(IVY),
        "spark.driver.extraJavaOptions": f"-Duser.home={IVY} {_JAVA}",
        "spark.executor.extraJavaOptions": _JAVA,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }


def newest(kind: str) -> str:
    """Return the package of a format that is for the newest Spark of those that have one."""
    return PACKAGES[kind][max(PACKAGES[kind])]


def main() -> None:
    home = Path(pyspark.__file__).parent
    around = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    wanted = ([PACKAGES[kind][OLDEST], S3A] for kind in PACKAGES)
    for names in (*wanted, *([newest(kind)] for kind in PACKAGES), [HDFS]):
        settings = with_packages(names) | (_ALONE if names == [HDFS] else {})
        confs = [f"--conf={name}={value}" for name, value in settings.items()]
        nothing = IVY / "nothing.py"
        nothing.parent.mkdir(parents=True, exist_ok=True)
        nothing.touch()
        submit = home / "bin" / "spark-submit"
        done = subprocess.run([submit, *confs, nothing], check=False, capture_output=True, text=True, env=around)
        if done.returncode:
            sys.exit(done.stderr[-2000:])


if __name__ == "__main__":
    main()
