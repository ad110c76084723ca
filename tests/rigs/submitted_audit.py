"""What a test needs that submits the audit to Spark: a directory of Spark, its environment, and what the local engine
says of the same logs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleets.writing import TRUTH
from samples.growing_logs import said

from router.audit import engine
from router.audit.listing import list_logs
from spark_analytics import job, package


def spark_home(directory: Path, installed: Path) -> Path:
    """Return the directory of an installed Spark, where its workers may write files."""
    directory.mkdir()
    for part in installed.iterdir():
        if part.name != "work":
            (directory / part.name).symlink_to(part)
    return directory


def job_and_sources(directory: Path) -> list[str]:
    """Return the arguments of `spark-submit` that name the job and the zip of its sources, which is written there."""
    package.write(directory / package.NAME)
    return ["--py-files", str(directory / package.NAME), job.__file__]


class Audited:
    """The logs of a fleet, and what the local engine says of them. `tables`: where it wrote them."""

    def __init__(self, logs: Path, tables: Path) -> None:
        self.logs, self.tables = logs, tables
        self.now = json.loads((logs / TRUTH).read_text())["as_of_ns"]
        self.summary = engine.audit(list_logs([logs]), engine.AuditSpan(self.now), out=tables)


def heard_java(home: Path, java: Path | None = None) -> Path:
    """Let the Java of this JAVA_HOME (`packaged_java`) write its errors where it is told to; return the JAVA_HOME.
    `java`: the command to run instead, of another version of that package."""
    wrapper = home / "bin" / "java"
    text = re.sub(r" 2>>.*", "", wrapper.read_text())
    wrapper.write_text(text if java is None else re.sub(r"(?m)^exec \S+", f"exec {java}", text))
    return home


def environment(java: Path, home: Path, python: str) -> Mapping[str, str]:
    own = {"JAVA_HOME": str(java), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python}
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own


def summary_in(directory: Path) -> dict[str, Any]:
    [text] = (directory / "summary.json").glob("part-*")
    return said(json.loads(text.read_text()))
