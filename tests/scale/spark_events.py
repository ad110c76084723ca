"""What Spark did in a process of its own: its event log is asked for by a configuration, and added up here."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULTS = """spark.eventLog.enabled true
spark.eventLog.dir file://{0}
spark.eventLog.compress false
spark.eventLog.rolling.enabled false
"""


@dataclass
class Work:
    """The sums of all tasks. `shuffled`: bytes written to exchanges; `spilled`: bytes written to disk because memory
    was short; `tasks_s`, `longest_s`: the time of all tasks, and of the longest one."""

    tasks: int = 0
    shuffled: int = 0
    spilled: int = 0
    tasks_s: float = 0
    longest_s: float = 0

    def __str__(self) -> str:
        tasks = f"{self.tasks} tasks of {self.tasks_s:.1f} s (longest {self.longest_s:.1f})"
        return f"{tasks}, {self.shuffled:,} bytes shuffled, {self.spilled:,} spilled"


def with_events(directory: Path) -> dict[str, str]:
    """Return an environment in which Spark writes its event log into this directory."""
    directory.mkdir(parents=True)
    (directory / "events").mkdir()
    (directory / "spark-defaults.conf").write_text(DEFAULTS.format(directory / "events"))
    return os.environ | {"SPARK_CONF_DIR": str(directory)}


def work_in(directory: Path) -> Work:
    """Add up the tasks of every application that wrote its event log into this directory."""
    found = Work()
    for task in _tasks(directory / "events"):
        metrics = task.get("Task Metrics") or {}
        seconds = metrics.get("Executor Run Time", 0) / 1000
        found.tasks += 1
        found.shuffled += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
        found.spilled += metrics.get("Disk Bytes Spilled", 0)
        found.tasks_s += seconds
        found.longest_s = max(found.longest_s, seconds)
    return found


def _tasks(directory: Path) -> Iterator[Mapping[str, Any]]:
    for path in directory.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            with path.open() as lines:
                yield from (json.loads(line) for line in lines if line.startswith('{"Event":"SparkListenerTaskEnd"'))
