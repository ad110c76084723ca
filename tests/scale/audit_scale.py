"""Measure the audit of a fleet's logs: `PYTHONPATH=tests .venv/bin/python -m scale.audit_scale [DIR] [--times N]…`.

DIR holds logs that an earlier run wrote; without it the logs of a simulated fleet are written N times, as N lives of
its nodes. One run measures the time in which DuckDB reads and hashes every column that an audit reads, and `router
audit` by each engine, in separate processes. Both engines must give the same summary.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleets.multiplied import multiply
from fleets.writing import TRUTH, write_fleet

from router.actors.process import program
from scale import read_and_hash

LOOK_S = 0.2
LATER_S = 86_400
"""Seconds between the logs' end and the audit's time."""
TICKS = os.sysconf("SC_CLK_TCK")

ENGINES = ("local", "spark")


@dataclass
class Cost:
    """The cost of a process and all its children: seconds, CPU seconds, and the most memory that they held, in MiB."""

    wall_s: float = 0
    cpu_s: float = 0
    rss_mib: float = 0


def cost_of(command: list[str], environment: Mapping[str, str] | None = None) -> tuple[str, Cost]:
    """Run a command; return its output and its cost."""
    began, found, before = time.perf_counter(), Cost(), _reaped_s()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            command, stdout=output, stderr=errors, start_new_session=True, env=environment
        ) as process:
            spent: dict[int, float] = {}
            try:
                while process.poll() is None:
                    found.rss_mib = max(found.rss_mib, sum(_look(pid, spent) for pid in _tree(process.pid)))
                    time.sleep(LOOK_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        found.wall_s, found.cpu_s = time.perf_counter() - began, max(sum(spent.values()), _reaped_s() - before)
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with code {process.returncode}: {errors.read()[-500:]}")
        output.seek(0)
        return output.read(), found


def spent_by(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of a process and its running descendants so far, and the MiB that they hold."""
    spent: dict[int, float] = {}
    mib = sum(_look(one, spent) for one in _tree(pid))
    return sum(spent.values()), mib


def _reaped_s() -> float:
    """Return the CPU seconds of all ended descendants that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tree(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        try:
            tasks = list(Path(f"/proc/{one}/task").iterdir())
            found += [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended meanwhile.
    return found


def _look(pid: int, spent: dict[int, float]) -> float:
    """Return the MiB that a process holds now, and record its CPU seconds so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    spent[pid] = (int(fields[11]) + int(fields[12])) / TICKS
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def measured(directory: Path, engines: list[str], memory: str = "2GB") -> dict[str, Any]:
    ends = [json.loads(path.read_text())["as_of_ns"] for path in directory.rglob(TRUTH)]
    now = datetime.fromtimestamp(max(ends) // 10**9 + LATER_S, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    _, yardstick = cost_of([sys.executable, "-P", read_and_hash.__file__, str(directory)])
    found: dict[str, Any] = {"yardstick": asdict(yardstick)}
    summaries = {}
    for engine in engines:
        command = program("router", "audit", str(directory), "--as-of", now, "--engine", engine)
        said, cost = cost_of([*command, "--memory", memory, "--json"])
        summary = json.loads(said)
        run = summary.pop("run")
        del summary["engine"]
        summaries[engine] = summary
        found["bytes"], found["lines"] = run["bytes"], sum(row["lines"] for row in summary["events"])
        found["owed"] = summary["owed"]
        found[engine] = asdict(cost) | {
            "audit_s": run["seconds"],
            "wall_by_yardstick": cost.wall_s / yardstick.wall_s,
            "cpu_by_yardstick": cost.cpu_s / yardstick.cpu_s,
        }
    if len(summaries) == len(ENGINES):
        found["same"] = summaries["local"] == summaries["spark"]
        found["spark_by_local"] = found["spark"]["audit_s"] / found["local"]["audit_s"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, help="logs that an earlier run wrote here")
    parser.add_argument("--messages", type=int, default=2000, help="of the fleet that is simulated (15 lines each)")
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--times", type=int, default=300, help="how often its logs are written")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="default: both")
    parser.add_argument("--memory", default="2GB", help="that an audit may take; default: 2GB")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        directory = given.directory or Path(base) / "logs"
        if not directory.exists():
            write_fleet(Path(base) / "fleet", given.nodes, given.messages, 1, is_over=True)
            multiply(Path(base) / "fleet", directory, given.times)
        print(json.dumps(measured(directory, given.engine or list(ENGINES), given.memory), indent=1))


if __name__ == "__main__":
    main()
