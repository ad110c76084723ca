"""Measure what claims and the tables of `router ask` take of a local audit with tables, by the length of the logs:
`PYTHONPATH=.:tests .venv/bin/python -m scale.claim_cost [--times 1 4 16]`.

The logs of a simulated fleet are written so many times over; each audit is a process of its own. Prints CPU seconds of
all threads, user and system: of the audit, of what finds claims and what is not judged, and of the tables by the hour,
`topology`, `journey`, `claims`, `finding` and `audit_history`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from statistics import median
from typing import Any

from fleets.multiplied import multiply
from fleets.writing import write_fleet

from router.audit import engine, publish
from router.audit.database import Database
from router.audit.listing import list_logs
from router.audit.put_in_place import HISTORY
from spark_analytics.judgement import gold_sql

CLAIMS = ("claims", "unnamed_reasons", "impossible_ends", "unjudged")
FOUND = ("circles", "unlike", "unsent")
WRITTEN = (*gold_sql.NAMES, "claims", "finding", HISTORY)
NOW_NS = 4_000_000_000 * 10**9


def cpu_s() -> float:
    now = os.times()
    return now.user + now.system


class Meter:
    """The CPU seconds of two kinds of work, each counted where it begins first."""

    def __init__(self) -> None:
        self.spent = {"claims": 0.0, "tables": 0.0}
        self._is_on = False

    def metered(self, kind: str, call: Callable[..., Any], which: Callable[..., bool]) -> Callable[..., Any]:
        @wraps(call)
        def timed(*given: Any, **named: Any) -> Any:
            if self._is_on or not which(*given):
                return call(*given, **named)
            self._is_on, before = True, cpu_s()
            try:
                return call(*given, **named)
            finally:
                self._is_on = False
                self.spent[kind] += cpu_s() - before

        return timed

    def watch(self) -> None:
        """Count from now on what this process audits."""
        for name in CLAIMS:
            setattr(engine, name, self.metered("claims", getattr(engine, name), lambda *_: True))
        for name in ("_follow", "_added_up"):
            setattr(publish, name, self.metered("tables", getattr(publish, name), lambda *_: True))
        ends = tuple(f"{name}.parquet' (FORMAT parquet, COMPRESSION zstd)" for name in WRITTEN)
        for kind, name, which in (
            ("claims", "find", lambda _, what: what in FOUND),
            ("tables", "make", lambda _, what: what == "flow"),
            ("tables", "run", lambda _, text, *__: isinstance(text, str) and text.endswith(ends)),
        ):
            setattr(Database, name, self.metered(kind, getattr(Database, name), which))


def audited(logs: Path) -> dict[str, Any]:
    """Audit logs with tables in this process; return what it took."""
    meter = Meter()
    meter.watch()
    before = cpu_s()
    with tempfile.TemporaryDirectory() as out:
        found = engine.audit(list_logs([logs]), engine.AuditSpan(NOW_NS), out=Path(out) / "out")
    return {"audit": cpu_s() - before, **meter.spent, "claims_told": len(found["claims"])}


def measured(logs: Path, rounds: int) -> dict[str, Any]:
    """Return the medians of that many audits."""
    command = [sys.executable, "-P", "-m", "scale.claim_cost", "--one", str(logs)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(rounds)]
    spent = {name: median(run[name] for run in runs) for name in ("audit", "claims", "tables")}
    files = [path for path in logs.rglob("events-*.jsonl") if path.is_file()]
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    share = (spent["claims"] + spent["tables"]) / spent["audit"]
    return {"lines": lines, "bytes": sum(path.stat().st_size for path in files), **spent, "share": round(share, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--messages", type=int, default=1000, help="of the fleet that is simulated")
    parser.add_argument("--times", type=int, nargs="+", default=[1, 4, 16], help="how often its logs are written")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(audited(given.one)))
        return
    with tempfile.TemporaryDirectory() as base:
        write_fleet(Path(base) / "fleet", given.nodes, given.messages, 1, is_over=True)
        for times in given.times:
            logs = Path(base) / f"logs-{times}"
            multiply(Path(base) / "fleet", logs, times)
            print(json.dumps(measured(logs, given.rounds)), flush=True)


if __name__ == "__main__":
    main()
