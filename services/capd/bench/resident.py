"""Measure the memory of a pool: `python -m services.capd.bench.resident COUNT` prints the bytes that it counts and
takes.

The process fills a pool with rows alone; the messages lie on disk, whose pages are the system's cache.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from services.capd.bench.pools import full_pool


def private_bytes() -> int:
    """Return the private memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return 0


def main(count: int) -> None:
    full_pool(64)
    before = private_bytes()
    pool = full_pool(count)
    print(json.dumps({"counted": pool.bytes, "taken": private_bytes() - before}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
