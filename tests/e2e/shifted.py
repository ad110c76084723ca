"""Run `router` with a wall clock that a file shifts: the first argument names the file, which holds seconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from router.cli import main
from router.node.node import SystemClock

MOVED_BY = Path(sys.argv.pop(1))


def wall_ns() -> int:
    return time.time_ns() + int(MOVED_BY.read_text()) * 1_000_000_000


SystemClock.wall_ns = staticmethod(wall_ns)  # type: ignore[method-assign]
main()
