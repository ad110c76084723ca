"""Measure what an app's state costs, beside the goals.

    PYTHONPATH=tests python tests/rigs/state_cost.py [ROUNDS] [DIRECTORY]

Journalled receiving is compared with SQLite as it was used before (WAL, one full sync a commit), in alternation, at
commits of 1, 16 and 256 messages; then a start with a million handled ids, and forgetting beside 1 MiB of secrets.
"""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from router.core.wire.lifetime import expiry_min
from router.disk.state.app_rows import AppBatch
from router.disk.state.app_state import AppState

BATCHES = {1: 200, 16: 100, 256: 30}
"""Commits in each measurement, by the number of messages in each."""
BEFORE, IDS, AT_ONCE = 20_000, 1_000_000, 50_000
SECRETS, SECRET_BYTES = 1024, 1024
FORGET_MS, START_S = 50.0, 0.5
NOW_S = time.time()
UNTIL_S = int(NOW_S) + 7 * 86_400
JOURNAL = b"journal1"
_SCHEMA = """
    CREATE TABLE handled (n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, until_s INTEGER NOT NULL);
    CREATE INDEX handled_until ON handled (until_s);
"""

Write = Callable[[list[bytes]], None]


def on_sqlite(folder: Path) -> Write:
    database = sqlite3.connect(folder / "journal", isolation_level=None)
    for mode in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
        database.execute(f"PRAGMA {mode}")
    database.executescript(_SCHEMA)

    def write(ids: list[bytes]) -> None:
        database.execute("BEGIN IMMEDIATE")
        rows = [(id, UNTIL_S) for id in ids]
        database.executemany("INSERT OR IGNORE INTO handled (id, until_s) VALUES (?, ?)", rows)
        database.execute("COMMIT")

    return write


def on_state(folder: Path) -> Write:
    state = AppState(folder / "state")
    state.begin_log(os.open(folder / "log", os.O_RDWR | os.O_CREAT, 0o600), JOURNAL)

    def write(ids: list[bytes]) -> None:
        state.commit(AppBatch([(JOURNAL + id, expiry_min(UNTIL_S)) for id in ids]), expiry_min(NOW_S))

    return write


def rate(write: Write, size: int) -> float:
    """Return the messages in a second that are written in commits of `size`."""
    batches = [[os.urandom(32) for _ in range(size)] for _ in range(BATCHES[size])]
    began_s = time.perf_counter()
    for ids in batches:
        write(ids)
    return size * len(batches) / (time.perf_counter() - began_s)


def compare(folder: Path, rounds: int) -> None:
    writes = {"sqlite": on_sqlite(folder), "state": on_state(folder)}
    for write in writes.values():
        for _ in range(0, BEFORE, 1000):
            write([os.urandom(32) for _ in range(1000)])
    for size in BATCHES:
        found: dict[str, list[float]] = {"sqlite": [], "state": []}
        for number in range(rounds):
            for name in sorted(writes, reverse=bool(number % 2)):
                found[name].append(rate(writes[name], size))
        ratio = statistics.median(new / old for new, old in zip(found["state"], found["sqlite"], strict=True))
        new, old = (statistics.median(found[name]) for name in ("state", "sqlite"))
        beside = f"{ratio:.2f} × SQLite's (goal 1.0)"
        print(f"journalled receiving, {size:3} a commit: {beside}, {new:,.0f}/s against {old:,.0f}/s")


START = """
import resource, sys, time
from pathlib import Path
from router.disk.state.app_state import AppState
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began_s = time.perf_counter()
state = AppState(Path(sys.argv[1]))
state.open(int(sys.argv[2]))
known = state.known([bytes(40)])
print(time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def measure_start(folder: Path) -> None:
    state = AppState(folder / "many")
    state.grow(IDS * 256)
    for _ in range(0, IDS, AT_ONCE):
        ids = sorted(os.urandom(32) for _ in range(AT_ONCE))
        state.commit(AppBatch([(JOURNAL + id, expiry_min(UNTIL_S)) for id in ids]))
    state.close()
    for what, now_min in (("that are needed", expiry_min(NOW_S)), ("that have all expired", expiry_min(UNTIL_S) + 1)):
        command = [sys.executable, "-c", START, str(folder / "many"), str(now_min)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        spent_s, more_kib = map(float, ran.stdout.split())
        beside = f"{spent_s:.3f} s (goal {START_S}), {more_kib / 1024:.1f} MiB of memory"
        print(f"a start with {IDS:,} handled ids {what}: {beside}")


def measure_forgetting(folder: Path, rounds: int) -> None:
    state, batch = AppState(folder / "secrets"), AppBatch()
    for number in range(SECRETS):
        batch.put("secrets", number.to_bytes(4, "big"), os.urandom(SECRET_BYTES), secret=True)
    state.commit(batch)
    spent_ms = []
    for _ in range(3 * rounds):
        began_s = time.perf_counter()
        state.commit(AppBatch(forgets=True))
        spent_ms.append(1000 * (time.perf_counter() - began_s))
    size, spent = SECRETS * SECRET_BYTES >> 20, statistics.median(spent_ms)
    print(f"forgetting beside {size} MiB in {SECRETS} secrets: {spent:.1f} ms (goal {FORGET_MS:.0f})")


def main(rounds: int, directory: str | None) -> None:
    folder = Path(tempfile.mkdtemp(prefix="state-cost-", dir=directory))
    try:
        compare(folder, rounds)
        measure_forgetting(folder, rounds)
        measure_start(folder)
        print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB of memory")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2] if len(sys.argv) > 2 else None)
