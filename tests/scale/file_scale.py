"""Measure what it costs an audit that logs lie in many files: `PYTHONPATH=tests .venv/bin/python -m scale.file_scale`.

The logs of a simulated fleet are sealed twice, in few files and in many. In turns both are read and hashed by DuckDB
alone and audited, with tables and without, each in a process of its own. Prints medians of CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from fleets.multiplied import multiply
from fleets.writing import KEYS, keys_of, log_directory, write_fleet
from sabotage.logs import seal_again
from sabotage.scene import without_heads

from router.actors.process import program
from scale import read_and_hash
from scale.audit_scale import cost_of


def resealed(logs: Path, directory: Path, parts: int) -> Path:
    """Write the logs of a fleet again, each in that many files; return the directory."""
    shutil.copytree(logs, directory)
    for name, key in keys_of(logs).items():
        seal_again(log_directory(directory, name), key, without_heads, parts)
    return directory


def measured(logs: dict[str, Path], rounds: int) -> dict[str, Any]:
    """Return the medians for each of these logs, and how they compare."""
    spent: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as base:
        for number in range(rounds):
            for name, directory in logs.items():
                audit = [*program("router", "audit", str(directory)), "--json"]
                commands = {
                    "read_and_hash": [sys.executable, "-P", read_and_hash.__file__, str(directory)],
                    "audit": audit,
                    "audit_with_tables": [*audit, "--out", f"{base}/{name}-{number}"],
                }
                for what, command in commands.items():
                    spent[name, what].append(cost_of(command)[1].cpu_s)
    found: dict[str, Any] = {}
    for name, directory in logs.items():
        own = {what: median(values) for (one, what), values in spent.items() if one == name}
        files = [path for path in directory.rglob("events-*") if path.is_file()]
        found[name] = {
            "files": len(files),
            "bytes": sum(path.stat().st_size for path in files),
            **own,
            "audit_by_read_and_hash": own["audit"] / own["read_and_hash"],
        }
    few, many = (found[name] for name in ("few", "many"))
    return found | {"many_by_few": many["audit"] / few["audit"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--messages", type=int, default=2000, help="of the fleet that is simulated (15 lines each)")
    parser.add_argument("--times", type=int, default=7, help="how often its logs are written")
    parser.add_argument("--parts", type=int, default=118, help="files of each log, where they are many")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fleet", type=Path, help="logs that an earlier run wrote, with their keys")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        logs = given.fleet or Path(base) / "logs"
        if not (logs / KEYS).exists():
            write_fleet(Path(base) / "fleet", given.nodes, given.messages, 1, is_over=True)
            multiply(Path(base) / "fleet", logs, given.times)
        sealed = {name: resealed(logs, Path(base) / name, parts) for name, parts in (("few", 1), ("many", given.parts))}
        print(json.dumps(measured(sealed, given.rounds), indent=1))


if __name__ == "__main__":
    main()
